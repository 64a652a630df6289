//! Where the lock file lives, who may own it, and how containers and namespaces share it.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, listing};
use harness::skip::{self, Need};
use harness::{Command, Sandbox};

/// A shell script that runs as root in a mount namespace with an empty /run and /tmp of
/// its own, without GETGPU_LOCK.
fn apart(sandbox: &Sandbox, script: &str) -> Command {
    let script = format!(
        "mount -t tmpfs -o mode=755 run /run && mount -t tmpfs -o mode=1777 tmp /var/tmp && {script}"
    );
    sandbox
        .command("unshare")
        .args(["-m", "sh", "-c", &script])
        .env_remove("GETGPU_LOCK")
}

#[test]
fn the_lock_is_created_complete_whatever_the_umask() {
    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.lock()).unwrap();
    sandbox
        .shell("sh", "umask 077; getgpu --no-reserve >/dev/null")
        .run()
        .exits(0);
    let meta = std::fs::symlink_metadata(sandbox.lock()).unwrap();
    assert!(meta.file_type().is_fifo());
    assert_eq!(meta.mode() & 0o7777, 0o666);
    assert!(sandbox.beside_lock().is_empty());
}

#[test]
fn a_lock_is_the_same_file_from_every_directory() {
    let sandbox = Sandbox::new("mig4");
    let beside = |arguments: &[&str]| {
        let call = sandbox.getgpu(arguments).env("GETGPU_LOCK", "lock");
        call.directory(sandbox.path("run")).run()
    };
    let held = beside(&["--hold"]).exits(0).line();
    assert!(
        listing::json(&sandbox)["devices"]
            .as_array()
            .unwrap()
            .iter()
            .any(|device| device["uuid"] == held && device["state"] == "reserved")
    );
    std::fs::remove_file(sandbox.lock()).unwrap();
    beside(&["--no-reserve"]).exits(0).says(&[]);
    assert!(sandbox.lock().exists(), "made where it was missing");
    // Of a setting everybody would read another file.
    // A list that is not there allows everything.
    for setting in ["lock", "allowed_file", "getgpu"] {
        sandbox.set_settings(&format!("{setting} = 'x'"));
        sandbox
            .getgpu(["--no-reserve"])
            .run()
            .refuses("getgpu", 2, "`x` is not an absolute path");
    }
}

#[test]
fn a_lock_that_cannot_be_trusted_is_status_4_and_one_line() {
    let sandbox = Sandbox::new("mig4");
    let lock = sandbox.lock();
    let refused = |why: &str| {
        let outcome = sandbox.getgpu(["--no-reserve"]).run();
        outcome.exits(4).prints("").mentions(why);
        assert_eq!(
            outcome.stderr.lines().count(),
            2,
            "a line and a hint: {}",
            outcome.stderr
        );
        sandbox
            .command("cudawrap")
            .args(["--", "true"])
            .run()
            .exits(125)
            .mentions(why);
    };
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    refused("it is not a FIFO");
    std::fs::remove_file(&lock).unwrap();
    symlink("/dev/null", &lock).unwrap();
    refused("cannot be opened");
    std::fs::remove_file(&lock).unwrap();
    let directory = lock.parent().unwrap();
    std::fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    refused("others can write to");
    assert!(
        !lock.exists(),
        "a lock is made in a directory that others can write to"
    );
    std::fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    sandbox
        .getgpu(["--no-reserve"])
        .env("GETGPU_LOCK", "/nowhere/lock")
        .run()
        .exits(4)
        .prints("");
    if skip::lacks(&[Need::Root]) {
        return;
    }
    sandbox
        .shell(
            "sh",
            &format!("mkfifo {0} && chown {OTHER} {0}", lock.display()),
        )
        .run()
        .exits(0);
    refused("neither root nor you");
}

#[test]
fn a_plain_user_can_replace_nothing_beside_the_lock() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let lock = sandbox.lock();
    let before = std::fs::symlink_metadata(&lock).unwrap().ino();
    let script = format!(
        "cd {} && rm -f lock; mv lock x; ln -s /dev/null y; mkfifo z; chmod 0 lock; ln lock w; true",
        lock.parent().unwrap().display()
    );
    sandbox.shell("sh", &script).uid(OTHER).run().exits(0);
    assert_eq!(std::fs::symlink_metadata(&lock).unwrap().ino(), before);
    assert!(sandbox.beside_lock().is_empty());
    sandbox.getgpu(["--no-reserve"]).run().exits(0);
}

#[test]
fn root_creates_the_hosts_lock_with_its_directory() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let outcome = apart(
        &sandbox,
        "(umask 077; getgpu --no-reserve >/dev/null); stat -c '%a %U %F' /run/getgpu /run/getgpu/lock; ls -A /run | grep getgpu",
    )
    .run();
    outcome
        .exits(0)
        .prints("755 root directory\n666 root fifo\ngetgpu\n");
}

#[test]
fn a_plain_user_without_the_hosts_lock_gets_a_private_one() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    // /tmp holds the sandbox, so the private lock lands in the machine's own; this uid is
    // nobody else's.
    let uid = 61_234;
    let ask = format!("setpriv --reuid {uid} --clear-groups getgpu --no-reserve");
    let outcome = apart(
        &sandbox,
        &format!(
            "{ask} && {ask} && stat -c '%a %u %F' /tmp/getgpu-{uid} /tmp/getgpu-{uid}/lock; rm -r /tmp/getgpu-{uid}"
        ),
    )
    .run();
    let line = format!(
        "no /run/getgpu on this node: /tmp/getgpu-{uid}/lock excludes only your own programs"
    );
    let said = format!("getgpu: {line}");
    outcome.exits(0).says(&[&said, &said]);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines[2..],
        [format!("700 {uid} directory"), format!("1600 {uid} fifo")]
    );
    // So does cudawrap under its own name, a link never; the site can have it quiet.
    let user = |script: &str| {
        let script =
            format!("setpriv --reuid {uid} --clear-groups {script}; rm -r /tmp/getgpu-{uid}");
        apart(&sandbox, &script).run()
    };
    user("cudawrap -- true")
        .exits(0)
        .says(&[&format!("cudawrap: {line}")]);
    let app = wrap(&sandbox, "opt", "app", "probe");
    user(app.to_str().unwrap()).exits(0).says(&[]);
    sandbox.set_settings("unshared = 'quiet'");
    user("getgpu --no-reserve").exits(0).says(&[]);
    user("cudawrap -- true").exits(0).says(&[]);
    // An existing directory without a lock is no reason for a private one.
    let outcome = apart(&sandbox, &format!("mkdir -m 755 /run/getgpu && {ask}")).run();
    outcome
        .exits(4)
        .prints("")
        .mentions("lock /run/getgpu/lock: cannot be opened: No such file or directory");
}

#[test]
fn an_unshared_lock_is_reported_once_per_call_or_refused() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let said = [
        "/run/getgpu: not shared with the host: devices given elsewhere are not excluded",
        "hint: mount /run/getgpu",
    ];
    let line = |program: &str| said.map(|line| format!("{program}: {line}"));
    for namespaces in ["-m", "-mpf"] {
        let run = |script: &str| {
            let script = format!(
                "mount -t tmpfs -o mode=755 run /run && mount -t proc proc /proc; {script}"
            );
            sandbox
                .command("unshare")
                .args([namespaces, "sh", "-c", &script])
                .env_remove("GETGPU_LOCK")
                .run()
        };
        let check = |script: &str, program: &str| {
            let outcome = run(script);
            outcome.exits(0);
            assert_eq!(
                outcome.stderr.lines().collect::<Vec<_>>(),
                line(program),
                "{namespaces} {script}"
            );
        };
        check("getgpu --no-reserve", "getgpu");
        check("cudawrap -- true", "cudawrap");
        sandbox.set_settings("unshared = 'fail'");
        run("getgpu --no-reserve").exits(4).prints("");
        run("cudawrap -- true").exits(125);
        sandbox.set_settings("unshared = 'quiet'");
        run("getgpu --no-reserve").exits(0).says(&[]);
        sandbox.set_settings("");
    }
}

#[test]
fn a_private_lock_in_a_container_is_reported_or_refused_as_one_that_is_not_shared() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let uid = 61_235;
    let run = |script: &str| {
        let script = format!(
            "mount -t tmpfs -o mode=755 run /run && mount -t proc proc /proc; \
             setpriv --reuid {uid} --clear-groups {script}; status=$?; rm -r /tmp/getgpu-{uid}; exit $status"
        );
        sandbox
            .command("unshare")
            .args(["-mpf", "sh", "-c", &script])
            .env_remove("GETGPU_LOCK")
            .run()
    };
    let line = "/run/getgpu: not shared with the host: devices given elsewhere are not excluded";
    let hint = "hint: mount /run/getgpu";
    for (script, program) in [
        ("getgpu --no-reserve", "getgpu"),
        ("cudawrap -- true", "cudawrap"),
    ] {
        let said = [line, hint].map(|line| format!("{program}: {line}"));
        let outcome = run(script);
        assert_eq!(outcome.exits(0).stderr.lines().collect::<Vec<_>>(), said);
    }
    let app = wrap(&sandbox, "opt", "app", "probe");
    let app = app.to_str().unwrap();
    run(app).exits(0).says(&[]);
    sandbox.set_settings("unshared = 'fail'");
    run("getgpu --no-reserve").refuses("getgpu", 4, line);
    run("cudawrap -- true").refuses("cudawrap", 125, line);
    run(app).refuses("cudawrap", 125, line);
    sandbox.set_settings("unshared = 'quiet'");
    run("getgpu --no-reserve").exits(0).says(&[]);
}

#[test]
fn a_user_namespace_sees_and_respects_the_lock() {
    if skip::lacks(&[Need::Root, Need::UserNamespace]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let first = sandbox.getgpu(["--for=60"]).run().line();
    // Each by a caller of its own: a later `unshare` below the same caller may not be read
    // from another user namespace, and would count as the program that was waited for.
    let script = "unshare -Ur getgpu --for=60; true";
    let call = || sandbox.shell("sh", script).uid(OTHER).run();
    for _ in 0..3 {
        assert_ne!(call().exits(0).line(), first);
    }
    call().mentions("getgpu: no free device: 4 of 4 in use (reserved 4)");
    let listing = listing::json(&sandbox);
    let uids = listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["holders"][0]["uid"].as_u64());
    assert_eq!(
        uids.filter(|uid| *uid == Some(u64::from(OTHER))).count(),
        3,
        "uids are the host's: {listing}"
    );
}

#[test]
fn a_container_with_the_hosts_lock_excludes_and_is_excluded() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let inside = "mount -t proc proc /proc; cudawrap -- sim-cuda --run forever";
    let container = sandbox
        .command("unshare")
        .args(["-mpf", "--kill-child", "sh", "-c", inside])
        .spawn();
    sandbox.until_running(1);
    // From a shell of that user's own: to its holders, programs of root that this process
    // starts meanwhile, which they may not read, would count as programs of the caller.
    let ask = "for i in 1 2 3; do getgpu --for=60 || exit 9; done; getgpu --for=60";
    let shell = sandbox.shell("sh", ask);
    let outcome = if nix::unistd::geteuid().is_root() {
        shell.uid(OTHER).run()
    } else {
        shell.run()
    };
    assert_eq!(
        (outcome.code(), outcome.stdout.lines().count()),
        (Some(1), 3),
        "{outcome:#?}"
    );
    drop(container);
}
