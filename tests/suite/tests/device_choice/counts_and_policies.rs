//! Several devices in one call are all different, all or none; policies order the
//! candidates. The same for getgpu, `cudawrap --`, wrapped programs and settings.

use std::collections::BTreeSet;

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{assert_devices, listing};
use harness::{Sandbox, wait};

#[test]
fn several_are_all_different_and_all_or_none() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let line = sandbox.getgpu(["-n", "3"]).run();
    line.says(&["getgpu: with this driver (before 570) a CUDA program sees only the first of several MIG devices"]);
    let three: Vec<String> = line.line().split(',').map(str::to_owned).collect();
    assert_eq!(three.iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(sandbox.holders().len(), 1, "one holder for all");
    sandbox.getgpu(["--count=5"]).run().refuses(
        "getgpu",
        1,
        "too few free devices: 3 of 7 in use (reserved 3)",
    );
    assert_eq!(
        listing::free_devices(&sandbox),
        "4",
        "a refused call leaves nothing behind"
    );
    let four = sandbox.getgpu(["-q", "--count", "4"]).run().line();
    let all: Vec<String> = four
        .split(',')
        .map(str::to_owned)
        .chain(three.iter().cloned())
        .collect();
    assert_devices(&all, &uuids);
    sandbox.getgpu(["--release", &three[1]]).run().exits(0);
    assert_eq!(listing::free_devices(&sandbox), "3");
}

#[test]
fn cudawrap_leases_several_gpus_and_refuses_several_mig_devices_of_old_drivers() {
    let sandbox = Sandbox::new("a100x1");
    let refused = sandbox
        .command("cudawrap")
        .args(["-n", "2", "--", "true"])
        .run();
    refused.refuses(
        "cudawrap",
        125,
        "2 MIG devices: with this driver (before 570) a program sees only the first of them",
    );
    sandbox.assert_clean(std::time::Duration::ZERO);
    let sandbox = Sandbox::new("gpus4");
    let script = "echo $CUDA_VISIBLE_DEVICES; unset CUDA_VISIBLE_DEVICES; getgpu --count-free; getgpu -q -n 3; getgpu -n 2 --no-reserve";
    let outcome = sandbox
        .command("cudawrap")
        .args(["--count", "2", "--", "sh", "-c", script])
        .run();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, "2"), "{outcome:#?}");
    let all: Vec<String> = [lines[0], lines[2]]
        .iter()
        .flat_map(|line| line.split(','))
        .map(str::to_owned)
        .collect();
    assert_devices(&all, &sandbox.uuids());
    assert_eq!(
        sandbox
            .getgpu(["-n", "2", "--format", "index", "--no-reserve"])
            .run()
            .line()
            .split(',')
            .count(),
        2
    );
}

/// From driver 570 on a program sees several MIG devices, but one compute instance of
/// each GPU instance.
/// The choice ends as soon as too few are left, in an order of its own.
#[test]
fn too_few_devices_are_counted_alike_every_time() {
    let sandbox = Sandbox::new("mig4");
    let _programs = sandbox.occupy(&sandbox.uuids()[1..], "");
    for _ in 0..12 {
        sandbox.getgpu(["-n", "4"]).run().refuses(
            "getgpu",
            1,
            "too few free devices: 3 of 4 in use (other programs 3)",
        );
    }
}

#[test]
fn several_mig_devices_come_from_different_gpu_instances() {
    let instance = |gi: u32, ci: u32| format!("{{ gi = {gi}, ci = {ci}, profile = '1c.3g.20gb' }}");
    let node = |devices: &[String]| {
        let devices = devices.join(", ");
        format!(
            "driver = '570.86.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\ndevice = [{devices}]\n"
        )
    };
    let sandbox = Sandbox::new(&node(&[
        instance(1, 0),
        instance(1, 1),
        instance(1, 2),
        instance(2, 0),
    ]));
    let uuids = sandbox.uuids();
    let last = &uuids[3];
    for policy in ["random", "first", "last", "pack"] {
        let picked = sandbox
            .getgpu(["-n", "2", "--no-reserve", "--policy", policy])
            .run();
        assert!(picked.line().contains(last.as_str()), "{picked:#?}");
        picked.says(&[]);
        let script = [
            "-n",
            "2",
            "--policy",
            policy,
            "--",
            "sh",
            "-c",
            "echo $CUDA_VISIBLE_DEVICES",
        ];
        let ran = sandbox.command("cudawrap").args(script).run();
        assert!(ran.line().contains(last.as_str()), "{ran:#?}");
    }
    // What is printed may be for several programs.
    let line = "getgpu: a CUDA program sees only 2 of these 3 devices: one compute instance of each GPU instance";
    sandbox
        .getgpu(["-n", "3", "--no-reserve"])
        .run()
        .exits(0)
        .says(&[line]);
    let refused =
        "3 devices: a program sees only one compute instance of each GPU instance, here 2 of them";
    for wait in [&[][..], &["--wait=60"]] {
        let outcome = sandbox
            .command("cudawrap")
            .args(wait)
            .args(["-n", "3", "--", "true"])
            .run();
        outcome.refuses("cudawrap", 125, refused);
    }
    let _program = sandbox.occupy(std::slice::from_ref(last), "");
    sandbox
        .command("cudawrap")
        .args(["-n", "2", "--", "true"])
        .run()
        .refuses("cudawrap", 75, "too few free devices");
    sandbox
        .getgpu(["-n", "2", "--no-reserve"])
        .run()
        .exits(0)
        .mentions("sees only 1 of these 2 devices");
    sandbox.assert_clean(std::time::Duration::ZERO);
}

#[test]
fn policies_decide_between_the_ends_and_between_gpus() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    let pick = |policy: &str| {
        sandbox
            .getgpu(["--no-reserve", "--policy", policy])
            .run()
            .line()
    };
    assert_eq!(
        (pick("first"), pick("last")),
        (uuids[0].clone(), uuids[55].clone())
    );
    let gpu = |uuid: &String| uuids.iter().position(|known| known == uuid).unwrap() / 7;
    let spread: Vec<usize> = (0..8)
        .map(|_| gpu(&sandbox.getgpu(["--policy=spread"]).run().line()))
        .collect();
    assert_eq!(
        spread.iter().collect::<BTreeSet<_>>().len(),
        8,
        "one on each GPU first: {spread:?}"
    );
    let packed: Vec<usize> = (0..7)
        .map(|_| gpu(&sandbox.getgpu(["--policy=pack"]).run().line()))
        .collect();
    assert_eq!(
        packed[..6],
        [packed[0]; 6],
        "one GPU is filled, and then another: {packed:?}"
    );
    assert_ne!(packed[5], packed[6]);
}

#[test]
fn the_devices_of_one_call_are_spread_and_packed_too() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    let gpus = |count: &str, policy: &str| -> BTreeSet<usize> {
        let words = ["-q", "--no-reserve", "-n", count, "--policy", policy];
        let line = sandbox.getgpu(words).run().line();
        let gpu = |uuid: &str| uuids.iter().position(|known| known == uuid).unwrap() / 7;
        line.split(',').map(gpu).collect()
    };
    assert_eq!((gpus("8", "spread").len(), gpus("7", "pack").len()), (8, 1));
}

#[test]
fn a_program_that_never_asked_counts_for_spread_and_pack() {
    let sandbox = Sandbox::new("gpus4");
    sandbox.set_node(TWO);
    let uuids = sandbox.uuids();
    let _stranger = sandbox.occupy(&uuids[..1], "--memory 1000");
    let picks = |policy: &str| -> BTreeSet<usize> {
        let one = || {
            sandbox
                .getgpu(["--no-reserve", "--policy", policy])
                .run()
                .line()
        };
        (0..8)
            .map(|_| one())
            .map(|uuid| uuids.iter().position(|known| *known == uuid).unwrap() / 7)
            .collect()
    };
    assert_eq!((picks("spread"), picks("pack")), ([1].into(), [0].into()));
}

const TWO: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\ncount = 2\nlayout = '7x1g.5gb'\n";

#[test]
fn settings_and_variables_choose_for_wrapped_programs() {
    let sandbox = Sandbox::builder("mixed")
        .settings("[program.'eddy_*']\nmin_memory = '9G'\n")
        .build();
    let uuids = sandbox.uuids();
    let eddy = wrap(&sandbox, "opt", "eddy_cuda10", "sim-cuda");
    let other = wrap(&sandbox, "opt", "other", "sim-cuda");
    let device = |outcome: harness::Outcome| outcome.line().split(' ').nth(1).unwrap().to_owned();
    for _ in 0..6 {
        assert_eq!(
            device(sandbox.command(&eddy).run()),
            uuids[1],
            "the administrator's table"
        );
    }
    let run = |name: &str, value: &str| device(sandbox.command(&other).env(name, value).run());
    assert_eq!(run("CUDAWRAP_MIN_MEMORY", "19G"), uuids[0]);
    assert_eq!(run("CUDAWRAP_PROFILE", "1g.5gb"), uuids[2]);
    assert_eq!(run("CUDAWRAP_GPU", "2"), uuids[3]);
    assert_eq!(run("CUDAWRAP_POLICY", "last"), uuids[2]);
    assert_eq!(
        device(
            sandbox
                .command(&eddy)
                .env("CUDAWRAP_MIN_MEMORY", "12G")
                .run()
        ),
        uuids[0],
        "a variable is later"
    );
    let bad = sandbox
        .command(&other)
        .env("CUDAWRAP_MIN_MEMORY", "-1")
        .run();
    bad.refuses("cudawrap", 125, "CUDAWRAP_MIN_MEMORY: `-1` is not a size");
    sandbox
        .command(&other)
        .env("CUDAWRAP_MIN_MEMORY", "")
        .run()
        .exits(0);
    let shown = sandbox
        .getgpu(["--show-config", "--min-memory", "5G", "-w", "30"])
        .run()
        .stdout;
    assert!(
        shown.contains("min_memory = 5368709120  # --min-memory\n"),
        "{shown}"
    );
    assert!(
        shown.contains("wait = \"30s\"  # -w\n")
            && shown.contains("program.\"eddy_*\".min_memory = \"9G\"")
    );
}

#[test]
fn twenty_who_want_two_of_seven_each_get_both_or_neither() {
    let sandbox = Sandbox::new("a100x1");
    // Slow enough that all of them are choosing at the same time.
    sandbox.faults("latency = { call_us = 3000 }");
    let start = |_| sandbox.getgpu(["-q", "-n", "2"]).spawn();
    let outcomes: Vec<_> = (0..20)
        .map(start)
        .collect::<Vec<_>>()
        .into_iter()
        .map(harness::Running::wait)
        .collect();
    let given: Vec<String> = outcomes
        .iter()
        .filter(|outcome| outcome.code() == Some(0))
        .map(|o| o.line())
        .collect();
    let devices: Vec<&str> = given.iter().flat_map(|line| line.split(',')).collect();
    assert_eq!(
        (given.len(), devices.iter().collect::<BTreeSet<_>>().len()),
        (3, 6),
        "{outcomes:#?}"
    );
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome.code(), Some(0 | 1)))
    );
    wait::until("one is left", || listing::free_devices(&sandbox) == "1");
}
