//! A probe that runs directly and through cudawrap, from many states of its process, sees
//! the same except for CUDA_VISIBLE_DEVICES and the lease's descriptors.

use std::path::Path;

use getgpu_tests::listing;
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

/// What must differ between any two runs, or is the lease itself.
fn left_out(lock: &str, name: &str, value: &str) -> bool {
    let own = ["pid", "pgrp", "ppid", "exe", "arg0", "Name", "env _"];
    own.contains(&name)
        || name.starts_with("lock")
        || (name.starts_with("fd") && (value.ends_with(lock) || value.contains(" (deleted)")))
        || name == "env CUDA_VISIBLE_DEVICES"
}

/// Runs the probe below `how`, directly, as a link and under cudawrap's own name; all
/// three must see the same.
#[track_caller]
fn same(how: &str, visible: Option<usize>) {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    wrap(&sandbox, "opt", "app", "probe");
    let [direct, link, cudawrap] =
        ["bin/probe", "opt/app", "bin/cudawrap"].map(|name| sandbox.text(name));
    let named = format!("{cudawrap} -- {direct}");
    let lock = sandbox.lock().display().to_string();
    let run = |program: &str, number: usize| -> Facts {
        let out = sandbox.text(&format!("work/facts{number}"));
        let script = format!("exec {how} {program} --out {out} --exit 40 'a  b' '' --help");
        let command = sandbox.shell("bash", &script);
        let command = match visible {
            Some(device) => command.visible(&uuids[device]),
            None => command,
        };
        let outcome = command.run();
        assert_eq!(outcome.code(), Some(40), "{how} {program}: {outcome:#?}");
        Facts::read(Path::new(&out))
    };
    let see = |facts: &Facts| {
        let mut lines = facts.without(|name, value| left_out(&lock, name, value));
        // Arguments that hold the number of the run.
        lines.retain(|line| !line.contains("facts"));
        lines
    };
    let base = run(&direct, 0);
    for (number, program) in [(1, &link), (2, &named)] {
        let facts = run(program, number);
        let difference = Facts::difference(&see(&facts), &see(&base));
        assert!(difference.is_empty(), "{how} {program}: {difference:#?}");
        let waits = [&facts, &base].map(|facts| facts.get("wait"));
        assert_eq!(waits[0], waits[1], "no child and no zombie");
        let device = facts.visible().unwrap_or("");
        let known = uuids.iter().any(|uuid| uuid == device);
        assert!(known, "{how} {program}: {device}");
        let leased = facts.descriptors_of(Path::new(&lock));
        assert!(!leased.is_empty() && leased.len() <= 2, "{leased:?}");
        let locked = facts.leases(&sandbox, device);
        assert_eq!(locked.len(), leased.len(), "all lock it: {leased:?}");
        for (fd, flags) in &leased {
            assert!(*fd >= 3);
            let flags = i32::from_str_radix(flags.split(' ').next().unwrap(), 8).unwrap();
            assert_eq!(flags & 0o3, 0, "read-only: {leased:?}");
            assert_eq!(flags & 0o2_000_000, 0, "inherited on: {leased:?}");
        }
        wait::until("nothing is left", || !sandbox.locked());
    }
}

#[test]
fn from_an_ordinary_shell() {
    same("", None);
    same("", Some(2));
}

#[test]
fn with_signals_ignored_blocked_and_pending() {
    for how in [
        "launch --ignore 13",
        "launch --ignore 17",
        "launch --block 17",
        "launch --ignore 2 --block 15 --pend 15",
        "launch --ignore 1",
    ] {
        same(how, None);
        same(how, Some(0));
    }
}

#[test]
fn with_standard_streams_closed_in_every_way() {
    for streams in ["000", "001", "010", "011", "100", "101", "110", "111"] {
        same(&format!("launch --streams {streams}"), None);
        same(&format!("launch --streams {streams}"), Some(1));
    }
}

#[test]
fn with_limits_timers_and_other_state() {
    #[rustfmt::skip]
    let cases = [
        "launch --umask 077", "launch --subreaper", "launch --pdeath 15", "launch --timer 3000",
        "launch --slack 70000", "launch --oom 300", "launch --hold 5", "launch --nofile 64",
        "launch --nofile 1024", "nice -n 5", "taskset 1", "nohup",
    ];
    for how in cases {
        same(how, None);
    }
}

#[test]
fn as_process_1_of_a_container() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    same("unshare -mpf --mount-proc", None);
    same("unshare -mpf --mount-proc launch --block 17", Some(0));
}

#[test]
fn descriptors_are_held_high_and_low_or_where_there_is_room() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "probe");
    let uuid = sandbox.uuids()[0].clone();
    let numbers = |limit: &str| -> Vec<i32> {
        let out = sandbox.text(&format!("work/limit{limit}"));
        let app = sandbox.text("opt/app");
        // Whatever the runner of the tests has left open.
        let script = format!("exec 3<&- 4<&- 5<&- 6<&- launch --nofile {limit} {app} --out {out}");
        let outcome = sandbox.shell("bash", &script).visible(&uuid).run();
        assert_eq!(outcome.code(), Some(0), "{limit}: {outcome:#?}");
        let open = Facts::read(Path::new(&out)).descriptors_of(&sandbox.lock());
        open.into_iter().map(|(fd, _)| fd).collect()
    };
    assert_eq!(numbers("20000"), [3, 899]);
    assert_eq!(numbers("1024"), [3, 899]);
    assert_eq!(numbers("64"), [3, 63]);
    assert_eq!(numbers("16"), [3, 15]);
}

/// What a waiter has open is closed before the lease takes its descriptors.
#[test]
fn descriptors_are_the_same_after_a_wait_for_a_named_device() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[0].clone();
    let held = sandbox.leased().visible(&uuid).spawn();
    sandbox.until_running(1);
    let out = sandbox.text("work/waited");
    let probe = sandbox.text("bin/probe");
    let script = format!("exec 3<&- 4<&- 5<&- 6<&- cudawrap --wait=60 -- {probe} --out {out}");
    let waiter = sandbox.shell("bash", &script).visible(&uuid).spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    drop(held);
    waiter.wait().exits(0);
    let open = Facts::read(Path::new(&out)).descriptors_of(&sandbox.lock());
    assert_eq!(
        open.into_iter().map(|(fd, _)| fd).collect::<Vec<_>>(),
        [3, 899]
    );
}
