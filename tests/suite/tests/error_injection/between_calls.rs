//! What others see, and do, between two system calls of a command: the tracer stops it
//! before each. A device that a user is about to have is counted at every moment, and a
//! reservation that ends while a device is chosen from it gives nothing.

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, bytes, somebody};
use harness::skip::{self, Need};
use harness::{Command, Sandbox};

/// Whether the x86-64 tracer is missing; then it has been said.
fn lacks_tracer() -> bool {
    if !inject::SUPPORTED {
        skip::say("system calls can be followed on x86-64 only");
    }
    !inject::SUPPORTED
}

fn is_program(pid: i32) -> bool {
    let executable = std::fs::read_link(format!("/proc/{pid}/exe"));
    executable.is_ok_and(|exe| exe.ends_with("true") || exe.ends_with("CUDAWRAP_app"))
}

/// Follows `command` and calls `look` before each system call; its exit status, and what
/// it wrote.
fn watch(command: Command, mut look: impl FnMut()) -> (i32, String) {
    let (mut command, out, err) = command.parts();
    let story = inject::watch(&mut command, is_program, |_| look());
    assert!(!story.hung, "it does not end");
    let text = [out, err].map(|mut file| {
        use std::io::{Read, Seek};
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    });
    (story.status, text.concat())
}

/// From the claim on, either the user's other calls may not count, or they see whose the
/// claimed units are: else two calls at one instant are both within `max_per_user`.
#[test]
fn a_claimed_device_is_counted_at_every_moment_until_the_program_has_it() {
    if lacks_tracer() || skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("mig4")
        .settings("max_per_user = 2\nlinger = '50ms'")
        .build();
    let uid = i64::from(OTHER);
    let probe = bytes::open(&sandbox);
    let spans: Vec<i64> = sandbox
        .uuids()
        .iter()
        .map(|uuid| bytes::span(uuid))
        .collect();
    for (side, uids, words) in [
        (
            bytes::LEASE,
            bytes::LEASE_UIDS,
            &["cudawrap", "--", "true"][..],
        ),
        (
            bytes::LEASE,
            bytes::LEASE_UIDS,
            &["cudawrap", "--share", "1/2", "--", "true"],
        ),
        (
            bytes::RESERVATION,
            bytes::RESERVATION_UIDS,
            &["getgpu", "--for", "0.1"],
        ),
    ] {
        let (mut claimed, mut uncounted) = (0, 0);
        let look = || {
            for span in &spans {
                if !bytes::is_locked(&probe, span + side, bytes::UNITS) {
                    continue;
                }
                claimed += 1;
                let counted = bytes::is_locked(&probe, bytes::COUNTING_UIDS + uid, 1)
                    || bytes::is_locked(&probe, span + uids + uid, 1);
                uncounted += usize::from(!counted);
            }
        };
        let command = sandbox.command(words[0]).args(&words[1..]).uid(OTHER);
        let (status, said) = watch(command, look);
        assert_eq!(status, 0, "{words:?}: {said}");
        assert!(claimed > 10, "{words:?}: {claimed} moments with a claim");
        assert_eq!(uncounted, 0, "{words:?}: of {claimed} moments");
        sandbox.assert_clean(std::time::Duration::from_secs(5));
    }
}

/// The outer reservation is released when the first device inside it has been claimed, and
/// another user is given that device. A linked program chooses inside a reservation only in
/// a batch job that has GPUs and no CUDA_VISIBLE_DEVICES.
#[test]
fn a_reservation_that_ends_during_the_choice_gives_no_device() {
    if lacks_tracer() {
        return;
    }
    for (words, in_job, status) in [
        (&["cudawrap", "--", "true"][..], false, 75),
        (&["cudawrap", "-n", "2", "--", "true"], false, 75),
        (&["app"], true, 75),
        (&["getgpu", "--for=60"], false, 1),
    ] {
        let sandbox = Sandbox::new("gpus4");
        let linked = wrap(&sandbox, "work", "app", "probe");
        let options = ["-n", "2", "--for=600", "--gpu", "0", "--gpu", "1"];
        let ours = sandbox.getgpu(options).run().line();
        let probe = bytes::open(&sandbox);
        let regions = [bytes::LEASE, bytes::INNER_LEASE, bytes::INNER_RESERVATION];
        let claims = || {
            ours.split(',').find(|uuid| {
                regions.iter().any(|region| {
                    bytes::is_locked(&probe, bytes::span(uuid) + region, bytes::UNITS)
                })
            })
        };
        let mut given = None;
        let look = || {
            if given.is_none()
                && let Some(uuid) = claims()
            {
                sandbox.getgpu(["--release-all"]).run().exits(0);
                given = Some(
                    somebody(&sandbox, &["--ignore-grant", "--for=60", "--gpu", uuid])
                        .run()
                        .code(),
                );
            }
        };
        let command = if in_job {
            let command = sandbox.command(&linked).env("SLURM_JOB_ID", "7");
            command.env("SLURM_JOB_GPUS", "0,1")
        } else {
            let command = sandbox.command(words[0]).args(&words[1..]);
            command.visible(&ours)
        };
        let (ended, said) = watch(command, look);
        assert!(given.is_some(), "{words:?}: nothing was claimed");
        assert_eq!(ended, status, "{words:?}, {given:?}: {said}");
        assert!(said.contains("your reservation ended"), "{words:?}: {said}");
    }
}
