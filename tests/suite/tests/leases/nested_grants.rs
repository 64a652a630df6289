//! A call inside a reservation or a lease divides what its caller owns: fewer devices
//! than the grant names are some of them, all different; as many are the grant itself;
//! one level deeper nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_tests::{OTHER, free_again, listing, somebody};
use harness::{Sandbox, skip, wait};

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
    assert_eq!(
        (lines[1], lines[2], lines[4]),
        ("75", "1", "0"),
        "{outcome:#?}"
    );
    assert_eq!(
        set(lines[3]),
        set(lines[0]),
        "as many as there are: printed again"
    );
    let ran: BTreeSet<String> = sandbox.runs().into_iter().map(|run| run.uuid).collect();
    assert_eq!(
        ran.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        set(lines[0])
    );
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
    assert_eq!(
        (set(lines[0]).len(), set(lines[0])),
        (3, set(lines[1])),
        "{outcome:#?}"
    );
    assert_eq!(
        (&lines[3..], outcome.stderr.contains("no\n")),
        (&["none", "deeper"][..], false),
        "{outcome:#?}"
    );
    let third: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(
        lines[2], third[2],
        "the lease of a program that has exited is free again"
    );
    assert_eq!(
        outcome.stderr.lines().next(),
        Some(third[2]),
        "inside its own lease it is printed again"
    );
    free_again(&sandbox);
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
        outcome.exits(0).says(&[]);
        assert_eq!(
            outcome.stdout.lines().count(),
            2,
            "{first}, {second}: {outcome:#?}"
        );
        sandbox.assert_clean(Duration::from_secs(6));
    }
    // More than the part that is reserved is not waited for.
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold); getgpu --share 4G --wait; echo $?";
    sandbox
        .shell("bash", script)
        .run()
        .exits(0)
        .prints("3\n")
        .mentions("getgpu: --share 4G: larger than the part");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold); cudawrap --share 4G true; echo $?";
    sandbox
        .shell("bash", script)
        .run()
        .exits(0)
        .prints("125\n")
        .mentions("cudawrap: --share 4G: your part of MIG-")
        .mentions(" has 2432M of memory");
}

#[test]
fn a_waiter_whose_reservation_ended_takes_no_device_of_others() {
    let sandbox = Sandbox::new("mig4");
    let ours = sandbox.line("-q -n 3 --for=600");
    let run = |time: &str| {
        sandbox
            .command("cudawrap")
            .args(["--", "sim-cuda", "--run", time])
            .visible(&ours)
            .spawn()
    };
    let (short, long) = (run("1.5"), run("3.5"));
    sandbox.until_running(2);
    // It needs two of three; one is left.
    sandbox.set_settings("");
    let waiter = sandbox
        .words("getgpu -q -n 2 --wait=20 --for=600")
        .visible(&ours)
        .spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    sandbox
        .getgpu(["--release", ours.split(',').next().unwrap()])
        .run()
        .exits(0);
    let theirs = somebody(&sandbox, &["-q", "-n", "2", "--for=600"])
        .run()
        .line();
    short.wait().exits(0);
    long.wait().exits(0);
    let got = waiter.wait();
    assert!(
        set(&got.line()).is_disjoint(&set(&theirs)),
        "{got:?} {theirs}"
    );
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
    sandbox
        .shell(
            "bash",
            &format!("rm -f go; cudawrap -- bash {}", file.display()),
        )
        .run();
    sandbox.until_running(1);
    let listing = sandbox.ask("--list").stdout;
    assert!(listing.contains("leased"), "{listing}");
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
    let second = sandbox
        .command("cudawrap")
        .args(["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"])
        .visible(&grant)
        .run()
        .line();
    assert_eq!(
        BTreeSet::from([first, second]),
        uuids[..2].iter().cloned().collect()
    );
    sandbox
        .ask_within(&grant, "-n 3")
        .refuses(3, "3 devices wanted: only 2 such devices exist here");
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
    let outer = sandbox
        .holders()
        .into_iter()
        .find(|holder| holder.words.iter().any(|word| word.contains(',')))
        .unwrap();
    sandbox
        .shell("dash", &format!("kill -9 {}", outer.pid))
        .run()
        .exits(0);
    wait::until("one holds", || sandbox.holders().len() == 1);
    assert_eq!(somebody(&sandbox, &["--for=600"]).run().line(), other);
    sandbox
        .ask_as(OTHER, "--no-reserve")
        .refuses(1, "2 of 2 in use");
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
