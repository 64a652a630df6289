//! Settings files, variables and prefixes: who may set what, and what is said of a setting
//! that no program knows.

use std::os::unix::fs::PermissionsExt;

use getgpu_tests::OTHER;
use harness::skip::{self, Need};
use harness::{Sandbox, copy_program};

/// As conda, Spack and EasyBuild install: the programs in `bin`, their settings in `etc`
/// beside it.
#[test]
fn a_prefix_has_settings_of_its_own() {
    let Some(sandbox) = Sandbox::given(&[Need::Bare], "mig4", "") else {
        return;
    };
    let prefix = sandbox.path("conda");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    copy_program(sandbox.path("bin/getgpu"), prefix.join("bin/getgpu"));
    let text = "reserve_for = 7\nmax_hold = \"1h\"\n";
    let file = sandbox.file("conda/etc/getgpu/config.toml", text, 0o644);
    let home = sandbox.path("home");
    let show = |user: &str| {
        sandbox.file("home/getgpu/config.toml", user, 0o644);
        let command = sandbox.bare(prefix.join("bin/getgpu"));
        command
            .args(["--show-config"])
            .env_remove("GETGPU_CONFIG")
            .env("XDG_CONFIG_HOME", &home)
            .run()
    };
    let from = file.display().to_string();
    let has = |outcome: &harness::Outcome, setting: &str, source: &str| {
        let mut lines = outcome.stdout.lines();
        lines.any(|line| line.starts_with(setting) && line.contains(source))
    };
    let shown = show("");
    assert!(has(&shown, "reserve_for = \"7s\"", &from), "{shown:#?}");
    assert!(has(&shown, "max_hold = ", &from), "{shown:#?}");
    let checked = sandbox.bare(prefix.join("bin/getgpu")).args(["--check"]);
    let checked = checked.env_remove("GETGPU_CONFIG").run();
    checked.shows(&format!("ok       settings: {from} is read"));
    // The user's come after it, and GETGPU_CONFIG stands for both of the system's.
    let shown = show("reserve_for = 9\n");
    let settings = ["reserve_for", "max_hold"].map(|setting| has(&shown, setting, &from));
    assert_eq!(settings, [false, true], "{shown:#?}");
    let named = sandbox.command(prefix.join("bin/getgpu"));
    let named = named.args(["--show-config"]).run();
    assert!(!has(&named, "max_hold", &from), "{named:#?}");
    if skip::lacks(&[Need::Root]) {
        return;
    }
    // Its owner's will do, and nobody else's.
    let own =
        |path: &std::path::Path, uid: u32| std::os::unix::fs::chown(path, Some(uid), None).unwrap();
    own(&file, OTHER);
    show("").refuses(2, "which is neither root nor the prefix's owner");
    for path in [prefix.clone(), prefix.join("etc/getgpu")] {
        own(&path, OTHER);
    }
    show("").exits(0);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    show("").refuses(2, "others can write to");
    // One that only shows what could be set, as it is installed, sets nothing and needs
    // no trust.
    std::fs::write(&file, "# reserve_for = 7\n").unwrap();
    show("").exits(0);
}

/// The file may hold policy, such as a list of excluded devices, also where a user cannot
/// reach it.
#[test]
fn settings_of_a_prefix_that_cannot_be_reached_hand_out_nothing() {
    let Some(sandbox) = Sandbox::given(&[Need::Bare], "mig4", "") else {
        return;
    };
    let prefix = sandbox.path("conda");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    for program in ["bin/getgpu", "bin/cudawrap"] {
        copy_program(sandbox.path(program), prefix.join(program));
    }
    let is_root = nix::unistd::geteuid().is_root();
    let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
    let run = |line: &str| {
        let user = if is_root { &user } else { "env" };
        let line = format!("exec {user} {}/bin/{line}", prefix.display());
        let command = sandbox.bare("sh").args(["-c", &line]);
        command.env_remove("GETGPU_CONFIG").run()
    };
    let refused = |why: &str| {
        run("getgpu --count-free").refuses(2, why);
        run("cudawrap -- true").refuses(125, why);
    };
    run("getgpu --count-free").answers("4\n");
    let folder = prefix.join("etc/getgpu");
    std::fs::create_dir_all(prefix.join("etc")).unwrap();
    std::os::unix::fs::symlink("getgpu", &folder).unwrap();
    refused("etc/getgpu/config.toml: cannot be read: Too many levels of symbolic links");
    std::fs::remove_file(&folder).unwrap();
    sandbox.file("conda/etc/getgpu/config.toml", "excluded = []\n", 0o644);
    run("getgpu --count-free").exits(0);
    if skip::lacks(&[Need::Root]) {
        return;
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    refused("etc/getgpu/config.toml: cannot be read: Permission denied");
}

#[test]
fn policy_is_the_administrators_and_preferences_are_the_users() {
    let sandbox = Sandbox::new("mig4");
    let home = sandbox.path("user");
    std::fs::create_dir_all(home.join(".config/getgpu")).unwrap();
    let file = home.join(".config/getgpu/config.toml");
    std::fs::write(&file, "reserve_for = 11\nallowed = []\n").unwrap();
    let ask = |arguments: &[&str]| sandbox.getgpu(arguments).env("HOME", &home).run();
    let at = file.display();
    let line = format!("{at}:2:1: `allowed` can be set by the administrator only");
    ask(&["--no-reserve"]).exits(2).mentions(&line);
    std::fs::write(&file, "reserve_for = 11\ntype = 'gpu'\n").unwrap();
    ask(&["--no-reserve"]).exits(3);
    ask(&["--no-reserve", "--type", "mig"]).exits(0);
    let shown = ask(&["--show-config", "--type", "any"]).output();
    for line in [
        format!("reserve_for = \"11s\"  # {at}"),
        "type = \"any\"  # --type".to_owned(),
        "nvml_timeout = \"30s\"  # built in".to_owned(),
        format!("lock = \"{}\"  # GETGPU_LOCK", sandbox.lock().display()),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
}

#[test]
fn a_settings_file_that_was_named_has_to_be_there() {
    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.settings_file()).unwrap();
    let line = "config.toml: cannot be read: No such file or directory";
    sandbox.ask("--no-reserve").exits(2).mentions(line);
}

#[test]
fn a_batch_job_has_its_grant_or_what_the_site_says() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let first = &uuids[0];
    sandbox.set_settings(&format!("allowed = ['{first}']\nwithout_grant = 'none'"));
    let salloc = "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 getgpu --no-reserve";
    let said = sandbox.words(salloc).run();
    said.refuses(3, "this shell of an allocation has no GPUs");
    said.mentions("hint: start the program as a task: srun cudawrap -- ./app");
    let two = format!("SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES={first} getgpu -n 2");
    let said = sandbox.words(&two).run();
    said.refuses(3, "2 devices wanted: only 1 such device exists here within");
    said.mentions("hint: in a job CUDA_VISIBLE_DEVICES is the batch system's to set: ask it for");
    for job in ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"] {
        let ask = |option: &str| sandbox.getgpu([option]).env(job, "7");
        ask("--no-reserve")
            .run()
            .refuses(3, "this job was given no GPU");
        // The grant alone counts, not the list.
        let granted = ask("--no-reserve").visible(&uuids[2]).run();
        assert_eq!(granted.line(), uuids[2]);
        let ignored = ask("--ignore-grant").visible(&uuids[2]).run();
        ignored.exits(3).prints("");
        ask("--count-free").run().answers("0\n");
        let listing = ask("--list").args(["--json"]).run().output();
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        // All devices of the node, and none of them in the pool.
        assert_eq!(getgpu_tests::listing::devices(&listing).len(), 4);
        assert!(listing["devices"][0]["index"].is_null());
        // As a prolog reserves, and the task reads it back.
        let reserved = sandbox.line(&format!("--hold --tag {job}"));
        assert_eq!(ask("--tag").args([job]).run().line(), reserved);
        sandbox.ask(&format!("--release {job}")).exits(0);
    }
    sandbox.ask_within(&uuids[2], "--no-reserve").exits(3);
    // Outside a job the list counts.
    assert_eq!(sandbox.line("--no-reserve"), uuids[0]);
}

#[test]
fn the_annotated_settings_file_shows_every_keys_built_in_value() {
    let text = include_str!("../../../../etc/config.toml");
    let sandbox = Sandbox::new("mig4");
    let shown = sandbox.ask("--show-config").output();
    for line in shown.lines() {
        let (key, _) = line.split_once(" = ").unwrap();
        let commented = format!("\n#{key} = ");
        assert!(text.contains(&commented), "{key} is not in etc/config.toml");
    }
    // Every example line is one that the programs accept.
    let is_setting = |line: &&str| line.contains(" = ") || line.starts_with('[');
    let setting = |line: &'static str| {
        let active = line.strip_prefix('#').filter(is_setting);
        active.filter(|line| !line.starts_with(' ')).unwrap_or(line)
    };
    let active: Vec<&str> = text.lines().map(setting).collect();
    let kept = (active.join("\n") + "\n")
        .replace("\"MIG-...\", \"GPU-...\"", "")
        .replace("lock = ", "#lock = ")
        .replace("log = \"syslog\"\n", "") // what a site gets, below the built-in value
        .replace("library = ", "#library = ");
    sandbox.set_settings(&kept);
    sandbox.ask("--show-config").exits(0);
}

/// The message about an unknown setting sends people to --show-config, which must not end
/// with the same message.
#[test]
fn show_config_lists_the_settings_also_beside_an_unknown_one() {
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings("nope = 1\nreserve_for = '7s'");
    let refused = sandbox.ask("--no-reserve");
    refused
        .refuses(2, "unknown setting `nope`")
        .mentions("getgpu: hint: getgpu --show-config lists");
    let shown = sandbox.ask("--show-config");
    shown.exits(0).mentions("unknown setting `nope`");
    shown.shows("reserve_for = \"7s\"");
}
