//! sudo, other pid and user namespaces and a hidden /proc: exclusion holds, and the
//! host's root decides.

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, listing};
use harness::skip::{self, Need};
use harness::{Running, Sandbox, wait};

#[test]
fn sudo_takes_the_device_for_the_other_user_and_gives_it_back() {
    let Some(sandbox) = Sandbox::given(&[Need::Root, Need::Tool("sudo")], "mig4", "") else {
        return;
    };
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let keep = "SIM_NODE,LD_LIBRARY_PATH,GETGPU_LOCK,GETGPU_CONFIG,CUDA_VISIBLE_DEVICES";
    let words = [&format!("--preserve-env={keep}"), "-u", "nobody", "-n"].map(str::to_owned);
    let path = app.display().to_string();
    // sudo runs the program as its child, without our descriptors: the lease is the
    // program's own.
    let outcome = sandbox.command("sudo").args(&words).args([&path]).run();
    if outcome.stderr.contains("unknown") || outcome.stderr.contains("not allowed") {
        let why = outcome.stderr.trim();
        return skip::say(&format!("sudo cannot be used here: {why}"));
    }
    outcome.exits(0).shows("RUN MIG-");
    // cudawrap outside: sudo closes the descriptors, and its own process keeps them, as
    // it waits.
    let program = sandbox.words("cudawrap -- sudo").args(&words);
    let path = sandbox.text("bin/sim-cuda");
    let program = program.args([&path, "--run", "forever"]).spawn();
    sandbox.until_running(1);
    assert!(sandbox.locked(), "kept by sudo");
    assert_eq!(listing::free_devices(&sandbox), "3");
    drop(program);
    sandbox.kill_programs();
    wait::until("free", || !sandbox.locked());
}

#[test]
fn other_namespaces_and_a_hidden_proc_exclude_as_ever() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    #[rustfmt::skip]
    let ways = [
        ("net", "unshare -n"),
        ("uts and ipc", "unshare -u -i"),
        ("time", "unshare -T"),
        ("hidepid=0", "unshare -m sh -c 'mount -t proc -o hidepid=0 proc /proc && exec \"$@\"' sh"),
        ("hidepid=1", "unshare -m sh -c 'mount -t proc -o hidepid=1 proc /proc && exec \"$@\"' sh"),
        ("hidepid=2", "unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc && exec \"$@\"' sh"),
        (
            "a read-only /run",
            "unshare -m sh -c 'mount --bind RUN RUN && mount -o remount,ro,bind RUN && exec \"$@\"' sh",
        ),
    ];
    for (what, how) in ways {
        let sandbox = Sandbox::builder("mig4")
            // getgpu-hold looks every half second. It never sees a program that exits
            // between two looks, and then waits for as long as this.
            .settings("linger = '100ms'\nreserve_for = '20s'")
            .build();
        let how = how.replace("RUN", &sandbox.text("run"));
        let user = format!("{how} setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
        let mut programs = Vec::new();
        for line in [
            "cudawrap -- sim-cuda",
            "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda",
        ] {
            let script = format!("exec {user} sh -c '{line} --run forever'");
            let script = script.replace("'$", "'\\''$");
            programs.push(sandbox.shell("sh", &script).spawn());
            let all = || sandbox.running() == programs.len();
            let running = wait::holds_within(wait::LONG, all);
            assert!(
                running,
                "{what}: {:?}",
                programs.last().map(Running::stderr)
            );
        }
        assert_eq!(listing::free_devices(&sandbox), "2", "{what}");
        sandbox.assert_exclusive();
        for program in &programs {
            program.signal(harness::Signal::SIGKILL);
        }
        sandbox.kill_programs();
        sandbox.assert_clean();
    }
}

/// Anybody can be root of a user namespace, and a caller that /proc hides is in this pid
/// namespace all the same.
#[test]
fn only_the_hosts_root_may_hold_for_any_process() {
    let Some(sandbox) =
        Sandbox::given(&[Need::Root, Need::UserNamespace, Need::Mounts], "mig4", "")
    else {
        return;
    };
    let outcome = sandbox
        .words("unshare -Ur getgpu --hold=1")
        .uid(OTHER)
        .run();
    let line = "--hold=1: this process never exits; only root may hold until then";
    outcome.refuses(2, line);
    let script = "mount -t proc -o hidepid=2 proc /proc && setpriv --reuid 1001 --regid 1001 --clear-groups getgpu --hold; exit $?";
    let outcome = sandbox.apart(script).run();
    outcome.refuses(2, "--hold: /proc does not show you the caller, process ");
}
