//! `make install` and `make uninstall`: what lies where with which mode, nothing is left,
//! and wrapped programs get their names back first. The login script does nothing where it
//! should not.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use harness::skip::{Need, lacks};
use harness::{Command, Outcome, Sandbox, mounts};

/// The top of the repository.
const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// make with the built programs; the prefix is the sandbox's `usr`, the settings are in
/// its `etc`.
fn make(sandbox: &Sandbox, target: &str) -> Outcome {
    let words = [
        "--silent".to_owned(),
        "-C".to_owned(),
        TOP.to_owned(),
        target.to_owned(),
        format!("programs={}", sandbox.text("bin")),
        format!("prefix={}", sandbox.text("usr")),
        format!("sysconfdir={}", sandbox.text("etc")),
    ];
    sandbox
        .command("make")
        .args(words)
        .env_remove("GETGPU_CONFIG")
        .env_remove("GETGPU_LOCK")
        .run()
}

/// Every file below `top` with its mode; links with where they lead.
fn files(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else {
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let about = path.symlink_metadata().unwrap();
            if about.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let leads = std::fs::read_link(&path).map(|to| format!("-> {}", to.display()));
            found.insert(
                name,
                leads.unwrap_or_else(|_| format!("{:03o}", about.permissions().mode() & 0o7777)),
            );
        }
    }
    found
}

#[test]
fn install_never_builds() {
    if lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.path("bin/getgpu")).unwrap();
    let outcome = make(&sandbox, "install");
    let said = outcome.exits(2);
    let line = format!(
        "make install: {} does not exist: run make first",
        sandbox.text("bin/getgpu")
    );
    said.mentions(&line);
    assert!(!sandbox.path("usr").exists());
}

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
    for (name, mode) in [
        ("bin/getgpu", "755"),
        ("bin/cudawrap", "555"),
        ("bin/create-cudawrap", "755"),
        ("bin/create_cudawrap", "-> create-cudawrap"),
        ("lib/getgpu/libcudawrap.so", "755"),
        ("lib/tmpfiles.d/getgpu.conf", "644"),
        ("share/man/man1/getgpu.1", "644"),
        ("share/man/man1/cudawrap.1", "644"),
        ("share/man/man1/create-cudawrap.1", "644"),
        ("share/man/man1/create_cudawrap.1", "-> create-cudawrap.1"),
        ("share/man/man5/getgpu.toml.5", "644"),
        ("share/bash-completion/completions/getgpu", "644"),
        ("share/zsh/site-functions/_cudawrap", "644"),
        (
            "share/fish/vendor_completions.d/create-cudawrap.fish",
            "644",
        ),
        ("share/getgpu/slurm/task-prolog", "755"),
        ("share/getgpu/slurm/README.md", "644"),
        ("share/getgpu/slurm/job_submit.lua", "644"),
        ("share/doc/getgpu/README.md", "644"),
        ("share/doc/getgpu/examples/getgpu.sh", "644"),
        ("share/doc/getgpu/examples/getgpu-alerts.yml", "644"),
        ("share/doc/getgpu/examples/getgpu-dashboard.json", "644"),
        ("share/doc/getgpu/examples/getgpu-monitor.service", "644"),
        ("share/doc/getgpu/examples/list.schema.json", "644"),
        ("share/doc/getgpu/examples/gpu-app.service", "644"),
        ("share/doc/getgpu/examples/cudawrap.sh", "644"),
        ("share/doc/getgpu/examples/60-cudawrap.conf", "644"),
    ] {
        assert_eq!(
            there.get(name).map(String::as_str),
            Some(mode),
            "{name}: {there:#?}"
        );
    }
    assert!(
        !there
            .keys()
            .any(|name| name.contains("profile.d") || name.contains("systemd")),
        "active: {there:#?}"
    );
    assert_eq!(
        files(&sandbox.path("etc")).keys().collect::<Vec<_>>(),
        ["getgpu/config.toml"]
    );

    // Settings that were changed survive a second installation and the end.
    let settings = sandbox.file("etc/getgpu/config.toml", "linger = \"9s\"\n", 0o644);
    make(&sandbox, "install-files").exits(0);
    assert_eq!(
        std::fs::read_to_string(&settings).unwrap(),
        "linger = \"9s\"\n"
    );
    make(&sandbox, "uninstall-files").exits(0);
    assert_eq!(files(&sandbox.path("usr")), BTreeMap::new());
    assert!(settings.is_file());
    std::fs::remove_file(settings).unwrap();
    make(&sandbox, "install-files").exits(0);
    make(&sandbox, "uninstall-files").exits(0);
    assert_eq!(files(&sandbox.path("etc")), BTreeMap::new());
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
    let make = |target: &str| {
        let words = [
            "--silent",
            "-C",
            TOP,
            target,
            &format!("programs={}", sandbox.text("bin")),
        ]
        .map(str::to_owned);
        let words = words.into_iter().chain([format!("DESTDIR={destination}")]);
        sandbox
            .command("make")
            .args(words.collect::<Vec<_>>())
            .run()
            .exits(0);
    };
    make("install-files");
    let there = files(Path::new(&destination));
    assert_eq!(
        there.get("usr/local/bin/cudawrap").map(String::as_str),
        Some("555"),
        "{there:?}"
    );
    // A directory of documents may have files of others.
    let others = Path::new(&destination).join("usr/local/share/doc/getgpu/notes");
    std::fs::write(&others, "site's").unwrap();
    make("uninstall");
    assert_eq!(
        files(Path::new(&destination))
            .into_keys()
            .collect::<Vec<_>>(),
        ["usr/local/share/doc/getgpu/notes"]
    );
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
        assert!(sandbox.words("mount -t tmpfs none /var/lib").run().code() == Some(0));
        make(&sandbox, "install-files").exits(0);
        let program = sandbox.file("opt/app", "#!/bin/sh\necho \"$0 runs\"\n", 0o755);
        let before = files(&sandbox.path("opt"));
        let create = sandbox.path("usr/bin/create_cudawrap");
        sandbox.command(&create).args([&program]).run().exits(0);
        assert_eq!(
            files(&sandbox.path("opt"))["app"],
            format!("-> {}", sandbox.text("usr/bin/cudawrap"))
        );

        // What cannot be undone keeps everything in place.
        let opt = sandbox.text("opt");
        let mount = |words: &[&str]| {
            assert_eq!(
                sandbox.command(words[0]).args(&words[1..]).run().code(),
                Some(0)
            );
        };
        mount(&["mount", "--bind", &opt, &opt]);
        mount(&["mount", "-o", "remount,ro,bind", &opt]);
        assert_ne!(make(&sandbox, "uninstall").code(), Some(0));
        assert!(sandbox.path("usr/bin/cudawrap").is_file());

        mount(&["umount", &opt]);
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
        assert!(
            sandbox
                .words("mount -t tmpfs none /proc/driver")
                .run()
                .code()
                == Some(0)
        );
        std::fs::create_dir("/proc/driver/nvidia").unwrap();
        std::fs::write("/proc/driver/nvidia/version", "").unwrap();
        let unset = |outcome: &Outcome| {
            outcome.exits(0).shows("it is <unset>");
        };
        let interactive: &[&str] = &["bash", "--norc", "--noprofile", "-ic"];
        unset(&login(&sandbox, &["bash", "-c"]).uid(1001).run());
        unset(&login(&sandbox, interactive).run());
        unset(
            &login(&sandbox, interactive)
                .uid(1001)
                .env("SLURM_JOB_ID", "1")
                .run(),
        );
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
