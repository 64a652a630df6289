//! A call inside a reservation or a lease divides what its caller owns: fewer devices
//! than the grant names are some of them, all different; as many are the grant itself;
//! one level deeper nothing is left.

use std::collections::BTreeSet;

use getgpu_tests::{OTHER, assert_devices, bytes, free_again, listing, somebody};
use harness::{Holder, Sandbox, Signal, skip, wait};
use nix::libc;

fn set(text: &str) -> BTreeSet<&str> {
    text.split(',').collect()
}

#[test]
fn ranks_divide_a_reservation_of_four() {
    let sandbox = Sandbox::new("a100x1");
    // What `mpirun -n 4 cudawrap -- ./app` does, and a fifth rank that finds nothing.
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 4); echo $CUDA_VISIBLE_DEVICES; \
                  for rank in 1 2 3 4; do cudawrap -- sim-cuda --until-file go & done; \
                  until [ $(ls $SIM_NODE/running | grep -vc gate) = 4 ]; do sleep 0.01; done; \
                  cudawrap -- true; echo $?; getgpu; echo $?; getgpu -q -n 4; getgpu --count-free; touch go; wait";
    let outcome = sandbox.shell("bash", script).run();
    let lines: Vec<&str> = outcome.exits(0).told();
    let statuses = [lines[1], lines[2], lines[4]];
    assert_eq!(statuses, ["75", "1", "0"], "{outcome:#?}");
    let granted = set(lines[0]);
    assert_eq!(
        set(lines[3]),
        granted,
        "as many as there are: printed again"
    );
    let ran = sandbox.runs();
    let ran: BTreeSet<&str> = ran.iter().map(|run| run.uuid.as_str()).collect();
    assert_eq!(ran, granted);
    sandbox.assert_exclusive();
    free_again(&sandbox);
}

#[test]
fn getgpu_and_cudawrap_inside_give_way_to_each_other() {
    let sandbox = Sandbox::new("mig4");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 3 --hold); a=$(getgpu --for=60); b=$(getgpu --for=60); \
                  c=$(cudawrap -- sh -c 'echo $CUDA_VISIBLE_DEVICES; getgpu >&2; cudawrap -- true || echo no >&2'); \
                  echo $a,$b,$c; echo $CUDA_VISIBLE_DEVICES; getgpu --for=60; getgpu 2>/dev/null || echo none; \
                  export CUDA_VISIBLE_DEVICES=$a,$b; getgpu || echo deeper; getgpu --release-all";
    let outcome = sandbox.shell("bash", script).run();
    let lines: Vec<&str> = outcome.exits(0).stdout.lines().collect();
    let all = set(lines[0]);
    assert_eq!((all.len(), &all), (3, &set(lines[1])), "{outcome:#?}");
    assert_eq!(lines[3..], ["none", "deeper"], "{outcome:#?}");
    assert!(!outcome.stderr.contains("no\n"), "{outcome:#?}");
    // The lease of a program that has exited is free again, and inside its own lease it is
    // printed again.
    let third = lines[0].split(',').nth(2);
    assert_eq!(Some(lines[2]), third, "{outcome:#?}");
    assert_eq!(outcome.stderr.lines().next(), third, "{outcome:#?}");
    free_again(&sandbox);
}

/// Below a lease, a program that wants all of it is not started beside a program that has
/// taken a part of it; programs that want all of it run there together.
#[test]
fn all_of_a_lease_is_not_given_beside_a_program_with_a_part_of_it() {
    let sandbox = Sandbox::new("gpus4");
    #[rustfmt::skip]
    let cases = [
        ("cudawrap", "cudawrap --share 1/2 -- sim-cuda --shared --max 2", "cudawrap"),
        ("cudawrap -n 2 --policy first", "cudawrap --gpu 0 -- sim-cuda", "cudawrap -n 2"),
    ];
    for (outer, inner, all) in cases {
        let running = "until [ $(ls $SIM_NODE/running | grep -vc gate) = 1 ]; do sleep 0.01; done";
        let inside = format!(
            "{inner} --until-file go & {running}; {all} -- true; echo $?; \
             {all} --wait -- true & until [ \"$(getgpu --queue --json)\" != '[]' ]; do sleep 0.01; done; \
             touch go; wait $!; echo $?"
        );
        let file = sandbox.file("work/inside", &inside, 0o755);
        let line = format!(
            "rm -f go $SIM_NODE/running/*; {outer} -- bash {}",
            file.display()
        );
        let outcome = sandbox.shell("bash", &line).run();
        assert_eq!(outcome.exits(0).told(), ["75", "0"], "{outcome:#?}");
        outcome.mentions("in use by").mentions("sim-cuda)");
        assert!(sandbox.collisions().is_empty());
        free_again(&sandbox);
    }
    // What comes from the program with the part is in its part.
    let script = "cudawrap -- bash -c 'cudawrap --share 1/2 -- bash -c \"cudawrap -- true\" && cudawrap -- cudawrap -- true'";
    sandbox.shell("bash", script).run().exits(0).says(&[]);
}

#[test]
fn a_lease_of_the_python_package_is_a_part_too() {
    let sandbox = Sandbox::new("gpus4");
    let inside = "sleep 1000 & getgpu --as-lease --hold=$! >/dev/null; cudawrap -n 2 -- true; \
                  echo $?; kill $!; cudawrap -n 2 --wait -- true; echo $?";
    let file = sandbox.file("work/inside", inside, 0o755);
    let line = format!("cudawrap -n 2 -- bash {}", file.display());
    let outcome = sandbox.shell("bash", &line).run();
    assert_eq!(outcome.exits(0).told(), ["75", "0"], "{outcome:#?}");
}

/// What others do in their part of a device is nothing to those who have another part.
#[test]
fn a_part_inside_another_lease_is_in_nobody_elses_way() {
    let sandbox = Sandbox::new("h200x1");
    let program = "cudawrap --share 1/2 -- sim-cuda --shared --max 4 --run forever";
    let other = format!("cudawrap --share 1/2 -- sh -c '{program}'");
    let other = sandbox.shell("sh", &other).spawn();
    sandbox.until_running(1);
    for inner in [
        "cudawrap -- true",
        "cudawrap -- cudawrap --share 1/2 -- cudawrap -- true",
    ] {
        let line = format!("cudawrap --share 1/2 -- sh -c '{inner}'");
        let outcome = sandbox.shell("sh", &line).run();
        outcome.exits(0).says(&[]);
    }
    drop(other);
}

#[test]
fn a_program_runs_on_a_reservation_inside_another_one() {
    let sandbox = Sandbox::new("mig4");
    for (first, second) in [
        ("getgpu -q -n 2", "getgpu"),
        ("getgpu", "getgpu --share 1/2"),
        ("getgpu --share 1/2", "getgpu --share 1/2"),
    ] {
        let script = format!(
            "export CUDA_VISIBLE_DEVICES=$({first} --hold); export CUDA_VISIBLE_DEVICES=$({second} --hold); \
             cudawrap -- sim-cuda --max 4 --run 0.1 && cudawrap -- sim-cuda --max 4 --run 0.1"
        );
        let outcome = sandbox.shell("bash", &script).run();
        assert_eq!(outcome.exits(0).says(&[]).stdout.lines().count(), 2);
        sandbox.assert_clean();
    }
    // More than the part that is reserved is not waited for.
    #[rustfmt::skip]
    let cases = [
        ("getgpu --share 4G --wait", "3\n",
            ["getgpu: --share 4G: your part of MIG-", " has 2432M of memory"]),
        ("cudawrap --share 4G true", "125\n",
            ["cudawrap: --share 4G: your part of MIG-", " has 2432M of memory"]),
    ];
    for (larger, status, lines) in cases {
        let part = "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold)";
        let script = format!("{part}; {larger}; echo $?");
        let outcome = sandbox.shell("bash", &script).run();
        outcome.exits(0).prints(status);
        outcome.mentions(lines[0]).mentions(lines[1]);
    }
}

#[test]
fn a_waiter_whose_reservation_ended_takes_no_device_of_others() {
    let sandbox = Sandbox::new("mig4");
    let ours = sandbox.line("-q -n 3 --for=600");
    let start = |line: &str| sandbox.words(line).visible(&ours).spawn();
    let run = |end: &str| start(&format!("cudawrap -- sim-cuda --until-file {end}"));
    let (first_to_end, last_to_end) = (run("first"), run("last"));
    sandbox.until_running(2);
    // It needs two of three; one is left.
    let waiter = start("getgpu -q -n 2 --wait=20 --for=600");
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    let first = ours.split(',').next().unwrap();
    // As one of all users it would keep what is free.
    waiter.signal(Signal::SIGSTOP);
    sandbox.ask(&format!("--release {first}")).exits(0);
    let theirs = somebody(&sandbox, &["-q", "-n", "2", "--for=600"]);
    let theirs = theirs.run().line();
    waiter.signal(Signal::SIGCONT);
    for (end, program) in [("first", first_to_end), ("last", last_to_end)] {
        sandbox.file(&format!("work/{end}"), "", 0o644);
        program.wait().exits(0);
    }
    let got = waiter.wait().line();
    let others = set(&got).is_disjoint(&set(&theirs));
    assert!(others, "{got} {theirs}");
    sandbox.assert_exclusive();
}

#[test]
fn a_program_inside_a_lease_keeps_it_when_the_outer_one_is_gone() {
    // As Python's subprocess starts it: without the descriptors that its parent
    // inherited.
    let sandbox = Sandbox::new("h200x1");
    let inner = "for fd in $(ls /proc/self/fd); do [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done 2>/dev/null; \
                 cudawrap -- sim-cuda --until-file go & until [ $(ls $SIM_NODE/running | grep -vc gate) = 1 ]; do sleep 0.01; done; \
                 kill -9 $$";
    let file = sandbox.file("work/inner", inner, 0o755);
    let outer = format!("rm -f go; cudawrap -- bash {}", file.display());
    sandbox.shell("bash", &outer).run();
    sandbox.until_running(1);
    sandbox.ask("--list").shows("leased");
    sandbox.ask("--share 1/848 --no-reserve").exits(1);
    sandbox.file("work/go", "", 0o644);
    wait::until("it has exited", || !sandbox.locked());
    sandbox.assert_exclusive();
}

#[test]
fn a_grant_that_nobody_reserved_is_divided_among_all_users() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let grant = uuids[..2].join(",");
    let first = sandbox.ask_within(&grant, "--for=60").line();
    let second = sandbox.words("cudawrap -- printenv CUDA_VISIBLE_DEVICES");
    let second = second.visible(&grant).run().line();
    assert_devices(&[first, second], &uuids[..2]);
    let three = sandbox.ask_within(&grant, "-n 3");
    three.refuses(3, "3 devices wanted: only 2 such devices exist here");
}

#[test]
fn losing_one_granted_device_leaves_the_others_running() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    // The inner reservation holds the outer one too: when the outer holder is killed,
    // nobody else gets the device.
    let sandbox = Sandbox::new("h200x1");
    sandbox.set_node("driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 2\n");
    let both = sandbox.line("-n 2 --for=600");
    let one = sandbox.ask_within(&both, "--for=600").line();
    wait::until("both hold", || sandbox.holders().len() == 2);
    let other = both.split(',').find(|uuid| *uuid != one).unwrap();
    let named = sandbox.leased().visible(other).spawn();
    sandbox.until_running(1);
    assert_eq!(sandbox.ask_within(&both, "--count-free").line(), "0");
    drop(named);
    // Who takes all of it gives way to who divides it.
    let all = sandbox.words("cudawrap -n 2 -- true").visible(&both);
    all.run().exits(75);
    let holders = sandbox.holders();
    let has_both = |holder: &&Holder| holder.words.iter().any(|word| word.contains(','));
    let outer = holders.iter().find(has_both).unwrap().pid;
    let killed = sandbox.shell("dash", &format!("kill -9 {outer}")).run();
    killed.exits(0);
    wait::until("one holds", || sandbox.holders().len() == 1);
    assert_eq!(sandbox.ask_as(OTHER, "--for=600").line(), other);
    let refused = sandbox.ask_as(OTHER, "--no-reserve");
    refused.refuses(1, "2 of 2 in use");
}

/// A reservation that is printed again is a part of what is around it, as the first one is: who wants
/// all of that does not get it when the first holder has ended.
#[test]
fn what_is_printed_again_stays_a_part_when_its_first_holder_has_ended() {
    let sandbox = Sandbox::new("gpus4");
    let both = sandbox.line("-q -n 2 --for=600");
    wait::until("it holds", || sandbox.holders().len() == 1);
    let around = sandbox.holders()[0].pid;
    let one = sandbox.ask_within(&both, "--for=600").line();
    wait::until("both hold", || sandbox.holders().len() == 2);
    let holders = sandbox.holders();
    let first = holders.iter().find(|holder| holder.pid != around);
    let first = first.unwrap().pid;
    assert_eq!(sandbox.ask_within(&one, "--for=600").line(), one);
    wait::until("all hold", || sandbox.holders().len() == 3);
    sandbox.shell("dash", &format!("kill -9 {first}")).run();
    wait::until("one has ended", || sandbox.holders().len() == 2);
    let all = sandbox.words("cudawrap -n 2 -- true").visible(&both);
    all.run().exits(75);
    let other = both.split(',').find(|uuid| *uuid != one).unwrap();
    assert_eq!(sandbox.ask_within(&both, "--for=600").line(), other);
}

/// Any call that tries to reserve a leased device write-locks its reservation for a moment. Who
/// reserves inside the lease meanwhile waits, since nothing else would keep the device once the
/// lease has ended.
#[test]
fn a_reservation_inside_a_lease_is_not_printed_without_its_outer_lock() {
    let sandbox = Sandbox::new("mig4");
    let script = "getgpu --share 1/2 --for=600; echo $?; rm tried; \
                  until [ -e over ]; do sleep 0.01; done; getgpu --share 1/2 --for=600; echo $?";
    let file = sandbox.file("work/inside", script, 0o755);
    let uuid = &sandbox.uuids()[0];
    let tried = bytes::open(&sandbox);
    let place = bytes::span(uuid) + bytes::RESERVATION;
    let line = format!(
        "touch tried; until [ -e on ]; do sleep 0.01; done; bash {}",
        file.display()
    );
    let outer = sandbox.words("cudawrap --").args(["bash", "-c", &line]);
    let outer = outer.visible(uuid).spawn();
    wait::until("it has its lease", || sandbox.path("work/tried").exists());
    bytes::lock(&tried, libc::F_WRLCK, place, bytes::UNITS).unwrap();
    sandbox.file("work/on", "", 0o644);
    wait::until("it was refused", || !sandbox.path("work/tried").exists());
    drop(tried);
    sandbox.file("work/over", "", 0o644);
    let outcome = outer.wait();
    assert_eq!(outcome.exits(0).told(), ["1", uuid, "0"], "{outcome:#?}");
    // It has the outer lock once the lease has ended.
    assert!(bytes::is_confirmed(
        &bytes::open(&sandbox),
        place,
        bytes::UNITS
    ));
}

/// As the tasks of a step that was granted one device do it, each in its own process.
#[test]
fn equal_requests_for_a_grant_at_one_instant_all_get_it() {
    let sandbox = Sandbox::new("gpus4");
    let uuid = &sandbox.uuids()[2];
    for words in [&["--for", "5"][..], &["--for", "5", "--wait=20"]] {
        let asking: Vec<_> = (0..8)
            .map(|_| sandbox.getgpu(words).visible("2").spawn())
            .collect();
        for asks in asking {
            assert_eq!(asks.wait().line(), *uuid, "{words:?}");
        }
        sandbox.ask("--release-all").exits(0);
    }
}

/// What lingers inside a script's own hold is waited for, as it is outside.
#[test]
fn a_lease_waits_for_what_lingers_inside_its_own_hold() {
    let sandbox = Sandbox::new("gpus4");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 2 --hold); \
        for i in 1 2; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.5 & done; wait; \
        cudawrap -n 2 -- true";
    sandbox.shell("bash", script).run().exits(0);
    free_again(&sandbox);
}
