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
    let line = sandbox.ask("-n 3");
    line.says(&["getgpu: 3 MIG devices: with this driver (before 570) a program sees only the first of them"]);
    let three: Vec<String> = line.line().split(',').map(str::to_owned).collect();
    assert_eq!(three.iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(sandbox.holders().len(), 1, "one holder for all");
    let refused = sandbox.ask("--count=5");
    refused.refuses(1, "too few free devices: 3 of 7 in use (reserved 3)");
    // A refused call leaves nothing behind.
    assert_eq!(listing::free_devices(&sandbox), "4");
    let four = sandbox.line("-q --count 4");
    let mut all: Vec<String> = four.split(',').map(str::to_owned).collect();
    all.extend_from_slice(&three);
    assert_devices(&all, &uuids);
    sandbox.getgpu(["--release", &three[1]]).run().exits(0);
    assert_eq!(listing::free_devices(&sandbox), "3");
}

#[test]
fn cudawrap_leases_several_gpus_but_not_old_drivers_mig_devices() {
    let sandbox = Sandbox::new("a100x1");
    let refused = sandbox.words("cudawrap -n 2 -- true").run();
    let line = "2 MIG devices: with this driver (before 570) a program sees only the first of them";
    refused.refuses(125, line);
    // What getgpu prints all the same, for a launcher whose programs take one each.
    refused.mentions("hint: start one program on each; for a launcher that divides the list among its programs: CUDA_VISIBLE_DEVICES=$(getgpu -n 2) LAUNCHER");
    sandbox.assert_clean();
    let sandbox = Sandbox::new("gpus4");
    let script = "echo $CUDA_VISIBLE_DEVICES; unset CUDA_VISIBLE_DEVICES; getgpu --count-free; getgpu -q -n 3; getgpu -n 2 --no-reserve";
    let outcome = sandbox.words("cudawrap --count 2 -- sh -c").args([script]);
    let outcome = outcome.run();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, "2"), "{outcome:#?}");
    let all = [lines[0], lines[2]].join(",");
    let all: Vec<String> = all.split(',').map(str::to_owned).collect();
    assert_devices(&all, &sandbox.uuids());
    let indices = sandbox.line("-n 2 --format index --no-reserve");
    assert_eq!(indices.split(',').count(), 2);
}

/// The choice ends as soon as too few are left, in an order of its own.
#[test]
fn too_few_devices_are_counted_alike_every_time() {
    let sandbox = Sandbox::new("mig4");
    let _programs = sandbox.occupy(&sandbox.uuids()[1..], "");
    for _ in 0..12 {
        let line = "too few free devices: 3 of 4 in use (other programs 3)";
        sandbox.ask("-n 4").refuses(1, line);
    }
}

/// From driver 570 on a program sees several MIG devices, but one compute instance of
/// each GPU instance.
#[test]
fn several_mig_devices_come_from_different_gpu_instances() {
    let instances = [(1, 0), (1, 1), (1, 2), (2, 0)];
    let devices = instances
        .map(|(gi, ci)| format!("{{ gi = {gi}, ci = {ci}, profile = '1c.3g.20gb' }}"))
        .join(", ");
    let sandbox = Sandbox::new(&format!(
        "driver = '570.86.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\ndevice = [{devices}]\n"
    ));
    let uuids = sandbox.uuids();
    let last = &uuids[3];
    for policy in ["random", "first", "last", "pack"] {
        let picked = sandbox.ask(&format!("-n 2 --no-reserve --policy {policy}"));
        picked.exits(0).says(&[]).shows(last);
        let line = format!("cudawrap -n 2 --policy {policy} -- printenv CUDA_VISIBLE_DEVICES");
        sandbox.words(&line).run().exits(0).shows(last);
    }
    // What is printed may be for several programs.
    let refused =
        "3 devices: a program sees only one compute instance of each GPU instance, here 2 of them";
    let line = format!("getgpu: {refused}");
    sandbox.ask("-n 3 --no-reserve").exits(0).says(&[&line]);
    for words in ["cudawrap -n 3 -- true", "cudawrap --wait=60 -n 3 -- true"] {
        sandbox.words(words).run().refuses(125, refused);
    }
    let _program = sandbox.occupy(std::slice::from_ref(last), "");
    let leased = sandbox.words("cudawrap -n 2 -- true").run();
    leased.refuses(75, "too few free devices");
    let printed = sandbox.ask("-n 2 --no-reserve");
    printed.exits(0).mentions("instance, here 1 of them");
    sandbox.assert_clean();
}

#[test]
fn policies_decide_between_the_ends_and_between_gpus() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    let pick = |policy| sandbox.line(&format!("--no-reserve --policy {policy}"));
    let ends = [pick("first"), pick("last")];
    assert_eq!(ends.each_ref(), [&uuids[0], &uuids[55]]);
    let gpu = |uuid: &String| uuids.iter().position(|known| known == uuid).unwrap() / 7;
    let spread = |_| gpu(&sandbox.line("--policy=spread"));
    let spread: BTreeSet<usize> = (0..8).map(spread).collect();
    assert_eq!(spread.len(), 8, "one on each GPU first: {spread:?}");
    let pack = |_| gpu(&sandbox.line("--policy=pack"));
    let packed: Vec<usize> = (0..7).map(pack).collect();
    // One GPU is filled, and then another.
    assert_eq!(packed[..6], [packed[0]; 6], "{packed:?}");
    assert_ne!(packed[5], packed[6]);
    // So are the devices of one call.
    sandbox.ask("--release-all").exits(0);
    let gpus = |count: &str, policy: &str| -> BTreeSet<usize> {
        let line = sandbox.line(&format!("-q --no-reserve -n {count} --policy {policy}"));
        line.split(',').map(|uuid| gpu(&uuid.to_owned())).collect()
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
        let one = || sandbox.line(&format!("--no-reserve --policy {policy}"));
        let place = |uuid| uuids.iter().position(|known| *known == uuid).unwrap();
        (0..8).map(|_| place(one()) / 7).collect()
    };
    assert_eq!((picks("spread"), picks("pack")), ([1].into(), [0].into()));
}

const TWO: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\ncount = 2\nlayout = '7x1g.5gb'\n";

/// A program numbers its devices by their order, in which the caller has put them.
#[test]
fn all_devices_of_a_grant_keep_its_order_and_some_have_that_of_the_node() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let named = |places: &[usize]| {
        let named = places.iter().map(|place| uuids[*place].as_str());
        named.collect::<Vec<_>>().join(",")
    };
    let reverse = named(&[3, 0]);
    for words in [
        "cudawrap -n 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES'",
        "cudawrap -n 2 --share 1/2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES'",
        "getgpu -n 2 --no-reserve",
        "getgpu -n 2 --policy last --no-reserve",
        "CUDA_VISIBLE_DEVICES=$(getgpu -n 2) sh -c 'getgpu -n 2; cudawrap -n 2 -- getgpu -n 2'",
    ] {
        let told = |grant: &str| sandbox.shell("bash", words).visible(grant).run();
        for grant in ["3,0", &reverse] {
            let told = told(grant);
            let mut lines: Vec<&str> = told.exits(0).stdout.lines().collect();
            lines.dedup();
            assert_eq!(lines, [&reverse], "{words}: {grant}");
        }
        let some = told("3,2,0");
        let in_order = |line: &str| {
            let place = |uuid| uuids.iter().position(|known| known == uuid);
            line.split(',').map(place).is_sorted()
        };
        assert!(some.exits(0).stdout.lines().all(in_order), "{some:#?}");
        sandbox.ask("-q --release-all").exits(0);
    }
}

#[test]
fn settings_and_variables_choose_for_wrapped_programs() {
    let sandbox = Sandbox::with("mixed", "[program.'eddy_*']\nmin_memory = '9G'\n");
    let uuids = sandbox.uuids();
    let eddy = wrap(&sandbox, "opt", "eddy_cuda10", "sim-cuda");
    let other = wrap(&sandbox, "opt", "other", "sim-cuda");
    let device = |outcome: harness::Outcome| outcome.line().split(' ').nth(1).unwrap().to_owned();
    for _ in 0..6 {
        // By the administrator's table.
        assert_eq!(device(sandbox.command(&eddy).run()), uuids[1]);
    }
    let run = |name: &str, value: &str| device(sandbox.command(&other).env(name, value).run());
    assert_eq!(run("CUDAWRAP_MIN_MEMORY", "19G"), uuids[0]);
    assert_eq!(run("CUDAWRAP_PROFILE", "1g.5gb"), uuids[2]);
    assert_eq!(run("CUDAWRAP_GPU", "2"), uuids[3]);
    assert_eq!(run("CUDAWRAP_POLICY", "last"), uuids[2]);
    // A variable is later.
    let memory = |app, value| sandbox.command(app).env("CUDAWRAP_MIN_MEMORY", value).run();
    assert_eq!(device(memory(&eddy, "12G")), uuids[0]);
    let bad = memory(&other, "-1");
    bad.refuses(125, "CUDAWRAP_MIN_MEMORY: `-1` is not a size");
    memory(&other, "").exits(0);
    let shown = sandbox.ask("--show-config --min-memory 5G -w 30");
    shown
        .shows("min_memory = 5368709120  # --min-memory\n")
        .shows("wait = \"30s\"  # --wait\n")
        .shows("program.\"eddy_*\".min_memory = \"9G\"");
}

/// `2..3`: as many as there are, at least two, for getgpu, cudawrap and a limit of the user.
#[test]
fn a_range_takes_as_many_as_there_are() {
    let count = |line: &str| line.split(',').filter(|word| !word.is_empty()).count();
    let sandbox = Sandbox::new("gpus4");
    assert_eq!(count(&sandbox.line("-n 2..3")), 3);
    sandbox
        .ask("-n 2..4")
        .refuses(1, "too few free devices: 3 of 4 in use");
    assert_eq!(count(&sandbox.line("-n 1..4")), 1, "what is left");
    sandbox.ask("-n 1..2").refuses(1, "no free device");
    sandbox.ask("--release-all").exits(0);
    let shown = sandbox.words("cudawrap --count=3..8 -- printenv CUDA_VISIBLE_DEVICES");
    assert_eq!(count(&shown.run().line()), 4);
    let granted = sandbox.words("cudawrap -n 1..4 -- printenv CUDA_VISIBLE_DEVICES");
    let grant = sandbox.uuids()[1..3].join(",");
    assert_eq!(granted.visible(&grant).run().line(), grant);
    let held = "export CUDA_VISIBLE_DEVICES=$(getgpu -n 3 --hold); getgpu -n 2..4 --no-reserve; cudawrap -n 1..2 -- printenv CUDA_VISIBLE_DEVICES";
    let held = sandbox.shell("bash", held).run();
    let counts: Vec<usize> = held.exits(0).stdout.lines().map(count).collect();
    assert_eq!(counts, [3, 2], "{held:#?}");
    for wrong in ["3..2", "0..2", "..2", "2..", "1..2..3", "all..2"] {
        let line = "is not a range of whole numbers of 1 or more, such as 2..4";
        sandbox.ask(&format!("-n {wrong}")).refuses(2, line);
    }
    sandbox.set_settings("count = '1..2'\n");
    sandbox.ask("--show-config").shows("count = \"1..2\"  # /");
    wait::until("the hold has ended", || {
        listing::free_devices(&sandbox) == "4"
    });
    assert_eq!(count(&sandbox.line("--no-reserve")), 2);
    // One program could not use two of them.
    let sandbox = Sandbox::new("a100x1");
    let one = sandbox.words("cudawrap -n 1..4 -- printenv CUDA_VISIBLE_DEVICES");
    assert_eq!(count(&one.run().line()), 1);
}

/// A grant as large as the range is chosen from, and not taken as a whole.
#[test]
fn a_range_inside_a_grant_leaves_what_others_use() {
    let count = |line: &str| line.split(',').filter(|word| !word.is_empty()).count();
    let sandbox = Sandbox::with("gpus4", "[program.app]\ncount = '1..4'\n");
    let uuids = sandbox.uuids();
    let all = uuids.join(",");
    let busy = sandbox.occupy(&uuids[..1], "");
    sandbox.file("bin/show", "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\n", 0o755);
    let app = wrap(&sandbox, "opt", "app", "show");
    for outcome in [
        sandbox
            .words("cudawrap -n 2..4 -- printenv CUDA_VISIBLE_DEVICES")
            .visible(&all)
            .run(),
        sandbox
            .words("getgpu -n 1..4 --no-reserve")
            .visible(&all)
            .run(),
        sandbox.command(&app).visible(&all).run(),
    ] {
        let line = outcome.line();
        assert!(
            count(&line) == 3 && !line.contains(&uuids[0]),
            "{outcome:#?}"
        );
    }
    drop(busy);
    let rank = |rank: u32| {
        let rank = format!(
            "OMPI_COMM_WORLD_LOCAL_RANK={rank} OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK={rank}"
        );
        let line =
            format!("{rank} cudawrap -n 2..4 -- sh -c 'echo $CUDA_VISIBLE_DEVICES; sleep 1'");
        sandbox.shell("bash", &line).visible(&all).spawn()
    };
    for rank in [rank(0), rank(1)] {
        assert_eq!(count(&rank.wait().line()), 2, "ranks divide the grant");
    }
    assert_eq!(count(&sandbox.line("-n 1..4000000000 --no-reserve")), 4);
    for nested in [
        "cudawrap -n 1..4 -- cudawrap -n 1..4 -- cudawrap -n 1..4 -- printenv CUDA_VISIBLE_DEVICES",
        "cudawrap -n 4 -- sh -c 'd=$(getgpu -n 1..4) && CUDA_VISIBLE_DEVICES=$d cudawrap -n 1..4 -- printenv CUDA_VISIBLE_DEVICES'",
    ] {
        let outcome = sandbox.shell("sh", nested).run();
        assert_eq!(count(&outcome.line()), 4, "{nested}: {outcome:#?}");
    }
    // As a whole GPU that is in MIG mode stands for its devices.
    let sandbox = Sandbox::new("mig4");
    let one = sandbox.words("cudawrap -n 1..4 -- printenv CUDA_VISIBLE_DEVICES");
    assert_eq!(count(&one.visible("0").run().line()), 1);
}

/// A waiter for a range is served by the least, and takes what there is then.
#[test]
fn a_waiter_for_a_range_begins_with_the_least() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let three = sandbox.occupy(&uuids[..3], "");
    let waiting = sandbox.words("getgpu -n 2..4 --wait").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    drop(three);
    let got = waiting.wait().line();
    assert!(got.split(',').count() >= 2, "{got}");
}
