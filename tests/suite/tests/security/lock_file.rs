//! Where the lock file lives, who may own it, and how containers and namespaces share it.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, as_other_user, listing};
use harness::skip::{self, Need};
use harness::{Command, Sandbox};

/// A shell script that runs as root in a mount namespace with an empty /run and /tmp of
/// its own, without GETGPU_LOCK.
fn apart(sandbox: &Sandbox, script: &str) -> Command {
    let script = format!(
        "mount -t tmpfs -o mode=755 run /run && mount -t tmpfs -o mode=1777 tmp /var/tmp && {script}"
    );
    sandbox.apart(&script).env_remove("GETGPU_LOCK")
}

#[test]
fn a_lock_is_the_same_file_from_every_directory() {
    let sandbox = Sandbox::new("mig4");
    let beside = |arguments: &[&str]| {
        let call = sandbox.getgpu(arguments).env("GETGPU_LOCK", "lock");
        call.directory(sandbox.path("run")).run()
    };
    let held = beside(&["--hold"]).exits(0).line();
    let listed = listing::json(&sandbox);
    assert_eq!(listing::device(&listed, &held)["state"], "reserved");
    std::fs::remove_file(sandbox.lock()).unwrap();
    beside(&["--no-reserve"]).exits(0).says(&[]);
    assert!(sandbox.lock().exists(), "made where it was missing");
    // Of a setting everybody would read another file.
    // A list that is not there allows everything.
    for setting in ["lock", "allowed_file", "getgpu"] {
        sandbox.set_settings(&format!("{setting} = 'x'"));
        let refused = sandbox.ask("--no-reserve");
        refused.refuses(2, "`x` is not an absolute path");
    }
}

#[test]
fn a_lock_that_cannot_be_trusted_is_status_4_and_one_line() {
    let sandbox = Sandbox::new("mig4");
    let lock = sandbox.lock();
    let refused = |why: &str| {
        sandbox.ask("--no-reserve").refuses(4, why);
        sandbox.words("cudawrap -- true").run().refuses(125, why);
    };
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    refused("it is not a FIFO");
    std::fs::remove_file(&lock).unwrap();
    symlink("/dev/null", &lock).unwrap();
    refused("cannot be opened");
    std::fs::remove_file(&lock).unwrap();
    let directory = lock.parent().unwrap();
    for mode in [0o775, 0o757] {
        std::fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
        refused("others can write to");
        assert!(!lock.exists(), "made where others can write");
    }
    std::fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    let nowhere = sandbox.words("GETGPU_LOCK=/nowhere/lock getgpu --no-reserve");
    nowhere.run().exits(4).prints("");
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let made = format!("mkfifo {0} && chown {OTHER} {0}", lock.display());
    sandbox.shell("sh", &made).run().exits(0);
    refused("neither root nor you");
}

#[test]
fn root_creates_the_hosts_lock_with_its_directory() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "mig4", "") else {
        return;
    };
    let script = "(umask 077; getgpu --no-reserve >/dev/null); \
        stat -c '%a %U %F' /run/getgpu /run/getgpu/lock; ls -A /run | grep getgpu";
    let made = "755 root directory\n666 root fifo\ngetgpu\n";
    apart(&sandbox, script).run().exits(0).prints(made);
}

#[test]
fn a_plain_user_without_the_hosts_lock_gets_a_private_one() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "mig4", "") else {
        return;
    };
    // /tmp holds the sandbox, so the private lock lands in the machine's own; this uid is
    // nobody else's.
    let uid = 61_234;
    let ask = format!("setpriv --reuid {uid} --clear-groups getgpu --no-reserve");
    let look = format!("stat -c '%a %u %F' /tmp/getgpu-{uid} /tmp/getgpu-{uid}/lock");
    let script = format!("{ask} && {ask} && {look}; rm -r /tmp/getgpu-{uid}");
    let outcome = apart(&sandbox, &script).run();
    let line = format!(
        "no /run/getgpu on this node: /tmp/getgpu-{uid}/lock excludes only your own programs"
    );
    let said = format!("getgpu: {line}");
    outcome.exits(0).says(&[&said, &said]);
    outcome.shows(&format!("\n700 {uid} directory\n1600 {uid} fifo\n"));
    // So does cudawrap under its own name, a link never; the site can have it quiet.
    let user = |script: &str| {
        let script =
            format!("setpriv --reuid {uid} --clear-groups {script}; rm -r /tmp/getgpu-{uid}");
        apart(&sandbox, &script).run()
    };
    let said = format!("cudawrap: {line}");
    user("cudawrap -- true").exits(0).says(&[&said]);
    let app = wrap(&sandbox, "opt", "app", "probe");
    user(app.to_str().unwrap()).exits(0).says(&[]);
    sandbox.set_settings("unshared = 'quiet'");
    user("getgpu --no-reserve").exits(0).says(&[]);
    user("cudawrap -- true").exits(0).says(&[]);
    // An existing directory without a lock is no reason for a private one.
    let outcome = apart(&sandbox, &format!("mkdir -m 755 /run/getgpu && {ask}")).run();
    let why = "lock /run/getgpu/lock: cannot be opened: No such file or directory";
    outcome.refuses(4, why);
}

#[test]
fn an_unshared_lock_is_reported_once_per_call_or_refused() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "mig4", "") else {
        return;
    };
    let app = wrap(&sandbox, "opt", "app", "probe");
    let app = app.to_str().unwrap();
    let line = "/run/getgpu: not shared with the host: devices given elsewhere are not excluded";
    let hint = "hint: mount /run/getgpu";
    // The last has a private lock, in the machine's own /tmp.
    let other = "setpriv --reuid 61235 --clear-groups";
    for (namespaces, user) in [("-m", ""), ("-mpf", ""), ("-mpf", other)] {
        let run = |script: &str| {
            let script = format!(
                "mount -t tmpfs -o mode=755 run /run && mount -t proc proc /proc; \
                 {user} {script}; status=$?; rm -rf /tmp/getgpu-61235; exit $status"
            );
            let shell = sandbox.words(&format!("unshare {namespaces} sh -c"));
            shell.args([script]).env_remove("GETGPU_LOCK").run()
        };
        for script in ["getgpu --no-reserve", "cudawrap -- true"] {
            let (program, _) = script.split_once(' ').unwrap();
            let said = [line, hint].map(|line| format!("{program}: {line}"));
            run(script).exits(0).says(&[&said[0], &said[1]]);
        }
        run(app).exits(0).says(&[]);
        sandbox.set_settings("unshared = 'fail'");
        run("getgpu --no-reserve").refuses(4, line);
        run("cudawrap -- true").refuses(125, line);
        run(app).refuses(125, line);
        sandbox.set_settings("unshared = 'quiet'");
        run("getgpu --no-reserve").exits(0).says(&[]);
        run("cudawrap -- true").exits(0).says(&[]);
        sandbox.set_settings("");
    }
}

#[test]
fn a_user_namespace_sees_and_respects_the_lock() {
    let Some(sandbox) = Sandbox::given(&[Need::Root, Need::UserNamespace], "mig4", "") else {
        return;
    };
    let first = sandbox.line("--for=60");
    // Each by a caller of its own: a later `unshare` below the same caller may not be read
    // from another user namespace, and would count as the program that was waited for.
    let script = "unshare -Ur getgpu --for=60; true";
    let call = || sandbox.shell("sh", script).uid(OTHER).run();
    for _ in 0..3 {
        assert_ne!(call().exits(0).line(), first);
    }
    call().mentions("getgpu: no free device: 4 of 4 in use (reserved 4)");
    let listing = listing::json(&sandbox);
    let devices = listing::devices(&listing).iter();
    let theirs = devices.filter(|device| device["holders"][0]["uid"] == OTHER);
    assert_eq!(theirs.count(), 3, "uids are the host's: {listing}");
}

#[test]
fn a_container_with_the_hosts_lock_excludes_and_is_excluded() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "mig4", "") else {
        return;
    };
    let inside = "cudawrap -- sim-cuda --run forever";
    let container = sandbox.contained(inside).spawn();
    sandbox.until_running(1);
    // From a shell of that user's own: to its holders, programs of root that this process
    // starts meanwhile, which they may not read, would count as programs of the caller.
    let ask = "for i in 1 2 3; do getgpu --for=60 || exit 9; done; getgpu --for=60";
    let shell = sandbox.shell("sh", ask);
    let outcome = as_other_user(shell).run();
    assert_eq!(outcome.exits(1).stdout.lines().count(), 3, "{outcome:#?}");
    drop(container);
}
