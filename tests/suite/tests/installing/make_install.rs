//! `make install` and `make uninstall`: what lies where with which mode, nothing is left,
//! and wrapped programs get their names back first. The login script does nothing where it
//! should not.

use std::collections::BTreeMap;
use std::path::Path;

use getgpu_tests::links;
use harness::skip::{Need, lacks};
use harness::{Command, Outcome, Sandbox, mounts};

/// The top of the repository.
const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// make with the built programs and these variables, as an administrator calls it.
fn make_with(sandbox: &Sandbox, target: &str, variables: &[String]) -> Outcome {
    let line = format!("make --silent -C {TOP} {target} programs=@/bin");
    let command = sandbox.words(&line).args(variables);
    let command = command.env_remove("GETGPU_CONFIG");
    command.env_remove("GETGPU_LOCK").run()
}

/// The same with the sandbox's `usr` for the prefix and its `etc` for the settings.
fn make(sandbox: &Sandbox, target: &str) -> Outcome {
    let (usr, etc) = (sandbox.text("usr"), sandbox.text("etc"));
    let variables = [format!("prefix={usr}"), format!("sysconfdir={etc}")];
    make_with(sandbox, target, &variables)
}

/// Every file below `top` with its mode; links with where they lead.
fn files(top: &Path) -> BTreeMap<String, String> {
    #[rustfmt::skip]
    let find = ["-mindepth", "1", "!", "-type", "d", "-printf", "%P %y %m %l\\n"];
    let found = Outcome::of(std::process::Command::new("find").arg(top).args(find));
    let about = |line: &str| {
        let words: Vec<&str> = line.rsplitn(4, ' ').collect();
        let what = match words[2] {
            "l" => format!("-> {}", words[0]),
            _ => words[1].to_owned(),
        };
        (words[3].to_owned(), what)
    };
    found.stdout.lines().map(about).collect()
}

#[test]
fn install_never_builds() {
    if lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.path("bin/getgpu")).unwrap();
    let program = sandbox.text("bin/getgpu");
    let line = format!("make install: {program} does not exist: run make first");
    make(&sandbox, "install").exits(2).mentions(&line);
    assert!(!sandbox.path("usr").exists());
}

/// Modes, and what has them below the prefix; links with where they lead.
#[rustfmt::skip]
const INSTALLED: [(&str, &str); 5] = [
    ("555", "bin/cudawrap"),
    ("755", "bin/getgpu bin/create-cudawrap lib/getgpu/libcudawrap.so \
        share/getgpu/slurm/task-prolog share/getgpu/slurm/health"),
    ("644", "lib/tmpfiles.d/getgpu.conf share/man/man1/getgpu.1 share/man/man1/cudawrap.1 \
        share/man/man1/create-cudawrap.1 share/man/man5/getgpu.toml.5 \
        share/bash-completion/completions/getgpu share/zsh/site-functions/_cudawrap \
        share/fish/vendor_completions.d/create-cudawrap.fish share/getgpu/slurm/README.md \
        share/getgpu/slurm/job_submit.lua share/doc/getgpu/README.md \
        share/doc/getgpu/docs/GUIDE.md share/getgpu/python/src/cudawrap/_lease.py \
        share/doc/getgpu/examples/getgpu.sh share/doc/getgpu/examples/getgpu-alerts.yml \
        share/doc/getgpu/examples/getgpu-dashboard.json \
        share/doc/getgpu/examples/getgpu-monitor.service \
        share/doc/getgpu/examples/list.schema.json share/doc/getgpu/examples/gpu-app.service \
        share/doc/getgpu/examples/cudawrap.sh share/doc/getgpu/examples/60-cudawrap.conf"),
    ("-> create-cudawrap", "bin/create_cudawrap"),
    ("-> create-cudawrap.1", "share/man/man1/create_cudawrap.1"),
];

#[test]
fn what_is_installed_where_and_that_nothing_is_left() {
    if lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let built = sandbox.path("bin/libcudawrap.so");
    std::fs::hard_link(sandbox.path("lib/getgpu/libcudawrap.so"), built).unwrap();
    make(&sandbox, "install-files").exits(0);
    let there = files(&sandbox.path("usr"));
    for (mode, names) in INSTALLED {
        for name in names.split_whitespace() {
            let found = there.get(name).map(String::as_str);
            assert_eq!(found, Some(mode), "{name}: {there:#?}");
        }
    }
    // Examples name what is installed.
    let usr = sandbox.text("usr");
    for (file, path) in [
        (
            "doc/getgpu/examples/60-cudawrap.conf",
            format!("64_PATH={usr}/lib/getgpu/libcudawrap.so\n"),
        ),
        (
            "doc/getgpu/examples/cudawrap.tcl",
            format!("set root {usr}\n"),
        ),
        (
            "doc/getgpu/examples/gpu-app.service",
            format!("ExecStart={usr}/bin/cudawrap "),
        ),
        (
            "doc/getgpu/examples/getgpu-monitor.service",
            format!("ExecStart={usr}/bin/getgpu "),
        ),
        (
            "getgpu/slurm/README.md",
            format!("\nProlog={usr}/share/getgpu/slurm/prolog\n"),
        ),
        (
            "getgpu/slurm/README.md",
            format!("]({usr}/share/doc/getgpu/docs/AUTO.md)"),
        ),
    ] {
        let text = std::fs::read_to_string(sandbox.path(&format!("usr/share/{file}"))).unwrap();
        assert!(text.contains(&path), "{file}: {path}");
    }
    let active = |name: &&String| name.contains("profile.d") || name.contains("systemd");
    assert_eq!(there.keys().find(active), None);
    let settings = files(&sandbox.path("etc"));
    assert!(settings.keys().eq(["getgpu/config.toml"]));

    // Settings that were changed survive a second installation and the end.
    let settings = sandbox.file("etc/getgpu/config.toml", "linger = \"9s\"\n", 0o644);
    make(&sandbox, "install-files").exits(0);
    let kept = std::fs::read_to_string(&settings).unwrap();
    assert_eq!(kept, "linger = \"9s\"\n");
    make(&sandbox, "uninstall-files").exits(0);
    assert_eq!(files(&sandbox.path("usr")), BTreeMap::new());
    assert!(settings.is_file());
    std::fs::remove_file(settings).unwrap();
    make(&sandbox, "install-files").exits(0);
    make(&sandbox, "uninstall-files").exits(0);
    assert_eq!(files(&sandbox.path("etc")), BTreeMap::new());
}

/// What is installed is read where it lies, without the repository.
#[test]
fn each_link_of_the_installed_pages_leads_to_a_file() {
    if lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let root = sandbox.path("stage");
    let variables = [format!("DESTDIR={}", root.display()), "prefix=/usr".into()];
    make_with(&sandbox, "install-files", &variables).exits(0);
    let (broken, followed) = links::broken(&root);
    assert_eq!(broken, Vec::<String>::new());
    assert!(followed >= 40, "{followed} links");
}

/// A node whose prolog is gone drains.
#[test]
fn hooks_stay_while_slurm_runs_them() {
    if lacks(&[Need::Tool("make"), Need::Tool("timeout"), Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    mounts::apart(|| {
        let mount = sandbox.words("mount -t tmpfs none /var/lib");
        mount.run().exits(0);
        make(&sandbox, "install-files").exits(0);
        let hook = sandbox.text("usr/share/getgpu/slurm/prolog");
        for line in [
            format!("Prolog                  = {hook}"),
            format!("prolog={hook}"),
        ] {
            sandbox.file(
                "bin/scontrol",
                &format!("#!/bin/sh\necho '{line}'\n"),
                0o755,
            );
            let refused = make(&sandbox, "uninstall");
            assert_ne!(refused.code(), Some(0), "{refused:#?}");
            refused
                .mentions("Take these lines out first")
                .mentions(&line);
            assert!(Path::new(&hook).is_file());
        }
        for line in [
            "Prolog = /site/prolog".to_owned(),
            format!("#Prolog={hook}"),
        ] {
            sandbox.file(
                "bin/scontrol",
                &format!("#!/bin/sh\necho '{line}'\n"),
                0o755,
            );
            make(&sandbox, "uninstall").exits(0);
            make(&sandbox, "install-files").exits(0);
        }
        // Nothing answers: the file.
        sandbox.file("bin/scontrol", "#!/bin/sh\nexit 1\n", 0o755);
        let file = sandbox.file("slurm.conf", &format!("TaskEpilog={hook}\n"), 0o644);
        let check = sandbox.words("@/usr/share/getgpu/slurm/in-use");
        let refused = check.env("SLURM_CONF", file).run();
        refused.exits(1).mentions("TaskEpilog=");
    });
}

/// What would be removed or written elsewhere if a path was not quoted.
#[test]
fn a_directory_with_spaces_and_quotes_is_one_directory() {
    if lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let neighbour = sandbox.file("a", "not ours\n", 0o644);
    let destination = format!("{} b'c", sandbox.text("a"));
    let destdir = [format!("DESTDIR={destination}")];
    make_with(&sandbox, "install-files", &destdir).exits(0);
    let there = files(Path::new(&destination));
    assert_eq!(there["usr/local/bin/cudawrap"], "555");
    // A directory of documents may have files of others.
    let others = Path::new(&destination).join("usr/local/share/doc/getgpu/notes");
    std::fs::write(&others, "site's").unwrap();
    make_with(&sandbox, "uninstall", &destdir).exits(0);
    let left = files(Path::new(&destination));
    assert!(left.keys().eq(["usr/local/share/doc/getgpu/notes"]));
    assert_eq!(std::fs::read_to_string(neighbour).unwrap(), "not ours\n");
}

#[test]
fn wrapped_programs_get_their_names_back_before_cudawrap_goes() {
    if lacks(&[Need::Tool("make"), Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    // The note of what root has wrapped is the machine's: another one for this test.
    mounts::apart(|| {
        let mount = |line: &str| drop(sandbox.words(line).run().exits(0).clone());
        mount("mount -t tmpfs none /var/lib");
        make(&sandbox, "install-files").exits(0);
        let program = sandbox.file("opt/app", "#!/bin/sh\necho \"$0 runs\"\n", 0o755);
        let before = files(&sandbox.path("opt"));
        let create = sandbox.path("usr/bin/create_cudawrap");
        sandbox.command(&create).args([&program]).run().exits(0);
        let link = format!("-> {}", sandbox.text("usr/bin/cudawrap"));
        assert_eq!(files(&sandbox.path("opt"))["app"], link);

        // What cannot be undone keeps everything in place.
        mount("mount --bind @/opt @/opt");
        mount("mount -o remount,ro,bind @/opt");
        assert_ne!(make(&sandbox, "uninstall").code(), Some(0));
        assert!(sandbox.path("usr/bin/cudawrap").is_file());

        mount("umount @/opt");
        make(&sandbox, "uninstall").exits(0);
        assert_eq!(files(&sandbox.path("opt")), before);
        assert_eq!(files(&sandbox.path("usr")), BTreeMap::new());
    });
}

/// A shell that reads the login script and tells what became of the variable. `-i` makes
/// it interactive, `script` gives it a terminal.
fn login(sandbox: &Sandbox, words: &[&str]) -> Command {
    let tell = format!(
        ". {TOP}/etc/profile.d/getgpu.sh; echo \"it is <${{CUDA_VISIBLE_DEVICES-unset}}>\""
    );
    let line = format!("{} '{tell}'", words.join(" "));
    sandbox.command("script").args(["-qec", &line, "/dev/null"])
}

#[test]
fn a_login_takes_a_device_only_at_a_terminal_and_can_do_without() {
    if lacks(&[Need::Tool("script"), Need::Tool("timeout"), Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings("");
    mounts::apart(|| {
        let mount = sandbox.words("mount -t tmpfs none /proc/driver");
        mount.run().exits(0);
        std::fs::create_dir("/proc/driver/nvidia").unwrap();
        std::fs::write("/proc/driver/nvidia/version", "").unwrap();
        let unset = |outcome: &Outcome| {
            outcome.exits(0).shows("it is <unset>");
        };
        let interactive: &[&str] = &["bash", "--norc", "--noprofile", "-ic"];
        unset(&login(&sandbox, &["bash", "-c"]).uid(1001).run());
        unset(&login(&sandbox, interactive).run());
        let job = login(&sandbox, interactive).env("SLURM_JOB_ID", "1");
        unset(&job.uid(1001).run());
        let kept = login(&sandbox, interactive).uid(1001).visible("x").run();
        kept.exits(0).shows("it is <x>");

        let given = login(&sandbox, interactive).uid(1001).run();
        given.exits(0).shows("it is <MIG-");
        sandbox
            .set_settings("excluded = ['GPU-00000000-0000-0000-0000-000000000000']\nallowed = []");
        let none = login(&sandbox, interactive).uid(1001).run();
        unset(&none);
        none.shows("no device is reserved for this shell");
    });
}
