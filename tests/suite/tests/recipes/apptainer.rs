//! The recipes for Apptainer, by bubblewrap in its place, which makes a container in the
//! same way: a process of the caller's in namespaces of its own. Apptainer is in neither
//! Debian nor PyPI; variable, lease and lock go in alike.

use std::time::Duration;

use getgpu_tests::{OTHER, assert_devices, line_of, listing, until_none_is_free};
use harness::skip::{self, Need};
use harness::{Command, Sandbox, Signal, wait};

/// `apptainer exec [--nv] [--bind /run/getgpu] IMAGE PROGRAM...`: the image is this
/// machine, with a `/run` of its own.
const APPTAINER: &str = r#"#!/bin/sh
[ "$1" = exec ] && shift
[ "$1" = --nv ] && shift
[ "$1 $2" = "--bind /run/getgpu" ] && shift 2 && lock="--bind LOCK /run/getgpu"
shift
exec bwrap --dev-bind / / --tmpfs /run $lock "$@"
"#;

/// A sandbox with four devices and the stand-in.
fn sandbox() -> Option<Sandbox> {
    if skip::lacks(&[Need::Tool("bwrap")]) {
        return None;
    }
    // The lock that is bound is the sandbox's and not the host's own, which would be
    // noticed and said.
    let sandbox = Sandbox::with("mig4", "unshared = 'quiet'");
    sandbox.file(
        "bin/apptainer",
        &APPTAINER.replace("LOCK", &sandbox.text("run")),
        0o755,
    );
    let tried = sandbox.words("apptainer exec image true").run();
    if tried.code() != Some(0) {
        skip::say(&format!(
            "bubblewrap cannot run here: {}",
            tried.stderr.trim()
        ));
        return None;
    }
    Some(sandbox)
}

/// The program inside has no context: it is by the lease alone that nobody else gets its
/// device.
#[test]
fn the_lease_goes_in_and_stays_until_the_program_inside_is_over() {
    let Some(sandbox) = sandbox() else { return };
    let inside = "echo $CUDA_VISIBLE_DEVICES >seen; while ! [ -e go ]; do sleep 0.1; done; : >over";
    #[rustfmt::skip]
    let words = [
        "--", "apptainer", "exec", "--nv", "image", "sh", "-c", inside,
    ];
    let program = sandbox.command("cudawrap").args(words).spawn();
    let mut all = vec![line_of(&sandbox, "seen")];
    all.extend(until_none_is_free(&sandbox, &["--for=60"]));
    assert_devices(&all, &sandbox.uuids());
    sandbox.ask("--release-all").exits(0);
    // What waits outside for the container is not what holds the lease.
    program.signal(Signal::SIGKILL);
    assert!(program.wait().signal().is_some());
    wait::throughout(Duration::from_secs(1), "leased by what is inside", || {
        sandbox.locked()
    });
    assert_eq!(listing::free_devices(&sandbox), "3");
    std::fs::write(sandbox.path("work/go"), "").unwrap();
    sandbox.until_file("work/over");
    sandbox.assert_clean(Duration::from_secs(1));
}

#[test]
fn host_and_containers_exclude_each_other_by_the_bound_lock() {
    // In a container the lock's directory is believed if it is root's.
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let Some(sandbox) = sandbox() else { return };
    excluded(&sandbox, None);
    // As most people use it: in a user namespace, where root is nobody.
    if !skip::lacks(&[Need::UserNamespace]) {
        excluded(&sandbox, Some(OTHER));
    }
}

/// Two containers of this user, and the host: nobody gets what another has, by the lock
/// alone, since no program has a context.
#[track_caller]
fn excluded(sandbox: &Sandbox, user: Option<u32>) {
    // The lock is where the recipe puts it, and nowhere else.
    let exec = |words: &[&str]| -> Command {
        let command = sandbox.words("apptainer exec --nv --bind /run/getgpu image");
        let command = command.args(words).env_remove("GETGPU_LOCK");
        if let Some(uid) = user {
            command.uid(uid)
        } else {
            command
        }
    };
    let program =
        |name: &str| format!("sh -c 'echo $CUDA_VISIBLE_DEVICES >{name}; exec sleep 1000'");
    let leased = |name: &str| exec(&["sh", "-c", &format!("exec cudawrap -- {}", program(name))]);
    let reserved = |name: &str| {
        exec(&[
            "sh",
            "-c",
            &format!("CUDA_VISIBLE_DEVICES=$(getgpu) {}; true", program(name)),
        ])
    };
    let name = |what: &str| format!("{what}-{}", user.unwrap_or(0));
    let containers = [
        leased(&name("leased")).spawn(),
        reserved(&name("reserved")).spawn(),
    ];
    let inside = ["leased", "reserved"].map(|what| line_of(sandbox, &name(what)));
    let hosts = until_none_is_free(sandbox, &["--for=60"]);
    assert_devices(&[&hosts[..], &inside[..]].concat(), &sandbox.uuids());
    leased("third")
        .run()
        .refuses(75, "no free device: 4 of 4 in use");
    drop(containers);
    sandbox.ask("--release-all").exits(0);
    sandbox.assert_clean(Duration::from_secs(2));
}
