//! Settings files, variables and prefixes: who may set what. An error is reported by
//! file, line and column.

use std::os::unix::fs::PermissionsExt;

use getgpu_tests::OTHER;
use harness::Sandbox;
use harness::skip::{self, Need};

/// As conda, Spack and EasyBuild install: the programs in `bin`, their settings in `etc`
/// beside it.
#[test]
fn a_prefix_has_settings_of_its_own() {
    let sandbox = Sandbox::new("mig4");
    let prefix = sandbox.path("conda");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::copy(sandbox.path("bin/getgpu"), prefix.join("bin/getgpu")).unwrap();
    let file = sandbox.file(
        "conda/etc/getgpu/config.toml",
        "reserve_for = 7\nmax_hold = \"1h\"\n",
        0o644,
    );
    let home = sandbox.path("home");
    let show = |user: &str| {
        sandbox.file("home/getgpu/config.toml", user, 0o644);
        let command = sandbox
            .command(prefix.join("bin/getgpu"))
            .args(["--show-config"]);
        command
            .env_remove("GETGPU_CONFIG")
            .env("XDG_CONFIG_HOME", &home)
            .run()
    };
    let from = file.display().to_string();
    let has = |outcome: &harness::Outcome, setting: &str, source: &str| {
        outcome
            .stdout
            .lines()
            .any(|line| line.starts_with(setting) && line.contains(source))
    };
    let shown = show("");
    assert!(
        has(&shown, "reserve_for = \"7s\"", &from) || has(&shown, "reserve_for = 7", &from),
        "{shown:#?}"
    );
    assert!(has(&shown, "max_hold = ", &from), "{shown:#?}");
    // The user's come after it, and GETGPU_CONFIG stands for both of the system's.
    let shown = show("reserve_for = 9\n");
    assert!(
        !has(&shown, "reserve_for", &from) && has(&shown, "max_hold", &from),
        "{shown:#?}"
    );
    let named = sandbox
        .command(prefix.join("bin/getgpu"))
        .args(["--show-config"])
        .run();
    assert!(!has(&named, "max_hold", &from), "{named:#?}");
    if skip::lacks(&[Need::Root]) {
        return;
    }
    // Its owner's will do, and nobody else's.
    let own =
        |path: &std::path::Path, uid: u32| std::os::unix::fs::chown(path, Some(uid), None).unwrap();
    own(&file, OTHER);
    show("").refuses("getgpu", 2, "which is neither root nor the prefix's owner");
    for path in [prefix.clone(), prefix.join("etc/getgpu")] {
        own(&path, OTHER);
    }
    show("").exits(0);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    show("").refuses("getgpu", 2, "others can write to");
    // One that only shows what could be set, as it is installed, sets nothing and needs
    // no trust.
    std::fs::write(&file, "# reserve_for = 7\n").unwrap();
    show("").exits(0);
}

/// The file may hold policy, such as a list of excluded devices, also where a user cannot
/// reach it.
#[test]
fn settings_of_a_prefix_that_cannot_be_reached_hand_out_nothing() {
    let sandbox = Sandbox::new("mig4");
    let prefix = sandbox.path("conda");
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    for program in ["getgpu", "cudawrap"] {
        std::fs::copy(
            sandbox.path("bin").join(program),
            prefix.join("bin").join(program),
        )
        .unwrap();
    }
    let run = |program: &str, arguments: &[&str]| {
        let command = sandbox.command(prefix.join("bin").join(program));
        let command = command.env_remove("GETGPU_CONFIG").args(arguments);
        if nix::unistd::geteuid().is_root() {
            command.uid(OTHER).run()
        } else {
            command.run()
        }
    };
    let refused = |why: &str| {
        run("getgpu", &["--count-free"]).refuses("getgpu", 2, why);
        run("cudawrap", &["--", "true"]).refuses("cudawrap", 125, why);
    };
    run("getgpu", &["--count-free"]).exits(0).prints("4\n");
    let folder = prefix.join("etc/getgpu");
    std::fs::create_dir_all(prefix.join("etc")).unwrap();
    std::os::unix::fs::symlink("getgpu", &folder).unwrap();
    refused("etc/getgpu/config.toml: cannot be read: Too many levels of symbolic links");
    std::fs::remove_file(&folder).unwrap();
    sandbox.file("conda/etc/getgpu/config.toml", "excluded = []\n", 0o644);
    run("getgpu", &["--count-free"]).exits(0);
    if skip::lacks(&[Need::Root]) {
        return;
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    refused("etc/getgpu/config.toml: cannot be read: Permission denied");
}

#[test]
fn errors_are_reported_by_file_line_and_column() {
    let sandbox = Sandbox::new("mig4");
    let file = sandbox.settings_file().display().to_string();
    for (text, line) in [
        (
            "allowed_file = '/nowhere'\nmin-memry = 3\n",
            "2:1: unknown setting `min-memry`",
        ),
        (
            "reserve_for = 'abc'\nallowed_file = '/nowhere'\n",
            "1:15: `reserve_for`: `abc` is not a time; write 30 (seconds), 1.5m, 2h or 1d",
        ),
    ] {
        sandbox.set_settings(text);
        let outcome = sandbox.getgpu(["--no-reserve"]).run();
        outcome
            .exits(2)
            .prints("")
            .mentions(&format!("getgpu: {file}:{line}"));
        let outcome = sandbox.command("cudawrap").args(["--", "true"]).run();
        outcome
            .exits(125)
            .mentions(&format!("cudawrap: {file}:{line}"));
    }
    sandbox.set_settings("type = \nallowed_file = '/nowhere'\n");
    sandbox
        .getgpu(["--no-reserve"])
        .run()
        .exits(2)
        .mentions(&format!("{file}:1:"));
}

#[test]
fn policy_is_the_administrators_and_preferences_are_the_users() {
    let sandbox = Sandbox::new("mig4");
    let home = sandbox.path("user");
    std::fs::create_dir_all(home.join(".config/getgpu")).unwrap();
    let file = home.join(".config/getgpu/config.toml");
    std::fs::write(&file, "reserve_for = 11\nallowed = []\n").unwrap();
    let ask = |arguments: &[&str]| sandbox.getgpu(arguments).env("HOME", &home).run();
    ask(&["--no-reserve"]).exits(2).mentions(&format!(
        "{}:2:1: `allowed` can be set by the administrator only",
        file.display()
    ));
    std::fs::write(&file, "reserve_for = 11\ntype = 'gpu'\n").unwrap();
    ask(&["--no-reserve"]).exits(3);
    ask(&["--no-reserve", "--type", "mig"]).exits(0);
    let shown = ask(&["--show-config", "--type", "any"])
        .exits(0)
        .stdout
        .clone();
    for line in [
        format!("reserve_for = \"11s\"  # {}", file.display()),
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
    let outcome = sandbox
        .getgpu(["--no-reserve"])
        .env("GETGPU_CONFIG", sandbox.path("nowhere.toml"))
        .run();
    outcome
        .exits(2)
        .mentions("nowhere.toml: cannot be read: No such file or directory");
}

#[test]
fn a_batch_job_has_its_grant_or_what_the_site_says() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox.set_settings(&format!(
        "allowed = ['{}']\nwithout_grant = 'none'",
        uuids[0]
    ));
    for job in ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"] {
        let ask = || sandbox.getgpu(["--no-reserve"]).env(job, "7");
        ask()
            .run()
            .exits(3)
            .prints("")
            .mentions("this job was given no GPU");
        assert_eq!(
            ask().visible(&uuids[2]).run().line(),
            uuids[2],
            "the grant alone counts, not the list"
        );
        sandbox
            .getgpu(["--ignore-grant"])
            .env(job, "7")
            .visible(&uuids[2])
            .run()
            .exits(3)
            .prints("");
        assert_eq!(
            sandbox.getgpu(["--count-free"]).env(job, "7").run().line(),
            "0"
        );
        let listing = sandbox
            .getgpu(["--list", "--json"])
            .env(job, "7")
            .run()
            .exits(0)
            .stdout
            .clone();
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        assert_eq!(
            listing["devices"].as_array().unwrap().len(),
            4,
            "all devices of the node"
        );
        assert!(
            listing["devices"][0]["index"].is_null(),
            "none of them in the pool"
        );
        // As a prolog reserves, and the task reads it back.
        let reserved = sandbox.getgpu(["--hold", "--tag", job]).run();
        assert_eq!(
            sandbox.getgpu(["--tag", job]).env(job, "7").run().line(),
            reserved.line()
        );
        sandbox.getgpu(["--release", job]).run().exits(0);
    }
    sandbox
        .getgpu(["--no-reserve"])
        .visible(&uuids[2])
        .run()
        .exits(3);
    assert_eq!(
        sandbox.getgpu(["--no-reserve"]).run().line(),
        uuids[0],
        "outside a job the list counts"
    );
}

#[test]
fn the_annotated_settings_file_shows_every_key_with_its_built_in_value() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/config.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let sandbox = Sandbox::new("mig4");
    let shown = sandbox
        .getgpu(["--show-config"])
        .run()
        .exits(0)
        .stdout
        .clone();
    for line in shown.lines() {
        let (key, _) = line.split_once(" = ").unwrap();
        assert!(
            text.contains(&format!("\n#{key} = ")),
            "{key} is not in etc/config.toml"
        );
    }
    // Every example line is one that the programs accept.
    let active: String = text
        .lines()
        .map(|line| {
            line.strip_prefix('#')
                .filter(|l| (l.contains(" = ") || l.starts_with("[program")) && !l.starts_with(' '))
                .unwrap_or(line)
        })
        .fold(String::new(), |all, line| all + line + "\n");
    let kept = active
        .replace("\"MIG-...\", \"GPU-...\"", "")
        .replace("lock = ", "#lock = ")
        .replace("library = ", "#library = ");
    sandbox.set_settings(&kept);
    sandbox.getgpu(["--show-config"]).run().exits(0);
}

/// The message about an unknown setting sends people to --show-config, which must not end
/// with the same message.
#[test]
fn show_config_lists_the_settings_also_beside_an_unknown_one() {
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings("nope = 1\nreserve_for = '7s'");
    let refused = sandbox.getgpu(["--no-reserve"]).run();
    refused
        .refuses("getgpu", 2, "unknown setting `nope`")
        .mentions("getgpu: hint: getgpu --show-config lists");
    let shown = sandbox.getgpu(["--show-config"]).run();
    shown.exits(0).mentions("unknown setting `nope`");
    assert!(
        shown
            .stdout
            .lines()
            .any(|line| line.starts_with("reserve_for = \"7s\"")),
        "{shown:#?}"
    );
}

/// Slurm's `--mem` takes a bare number as MiB.
#[test]
fn a_small_bare_number_of_bytes_is_no_amount_of_memory() {
    let sandbox = Sandbox::new("mig4");
    let refused = |command: harness::Command, program: &str, status: i32| {
        command
            .run()
            .refuses(program, status, "did you mean 20000M?");
    };
    refused(sandbox.getgpu(["--min-memory", "20000"]), "getgpu", 2);
    refused(
        sandbox
            .command("cudawrap")
            .args(["--min-memory=20000", "--", "true"]),
        "cudawrap",
        125,
    );
    refused(
        sandbox
            .command("cudawrap")
            .args(["--", "true"])
            .env("CUDAWRAP_MIN_MEMORY", "20000"),
        "cudawrap",
        125,
    );
    for fine in ["0", "1048576", "20000k", "1M"] {
        sandbox
            .getgpu(["--no-reserve", "--min-memory", fine])
            .run()
            .line();
    }
    sandbox.set_settings("min_memory = 20000");
    refused(sandbox.getgpu(["--no-reserve"]), "getgpu", 2);
}
