//! Each rank leases a device of its own in the grant, in blocks, or an even share where the
//! ranks are more than the devices.

use std::time::Duration;

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap_script;
use harness::skip::Need;
use harness::{Command, Running, Sandbox, wait};

use crate::rank_calls::{counts, devices};

/// A rank of `size` as Open MPI starts it.
fn rank(sandbox: &Sandbox, local: usize, size: usize, words: &[&str]) -> Command {
    let variable = "OMPI_COMM_WORLD";
    let variables = format!("{variable}_LOCAL_RANK={local} {variable}_LOCAL_SIZE={size}");
    let line = format!("{variables} {variable}_RANK={local} cudawrap");
    let program = format!("-- sim-cuda --run forever --shared --tag {local}");
    let command = sandbox.words(&line).args(words).args(program.split(' '));
    command.limit(Duration::from_secs(60))
}

/// Starts all ranks at once in a grant of all devices, and waits until all run.
fn all(sandbox: &Sandbox, size: usize, words: &[&str]) -> Vec<Running> {
    let grant = sandbox.uuids().join(",");
    let ranks = (0..size)
        .map(|local| rank(sandbox, local, size, words).visible(&grant).spawn())
        .collect();
    sandbox.until_running(size);
    ranks
}

/// How many each device has is a table of the unit tests.
#[test]
fn every_rank_has_its_block_of_the_grant() {
    let sandbox = Sandbox::new("gpus4");
    let ranks = all(&sandbox, 6, &[]);
    assert_eq!(counts(&sandbox), [2, 2, 1, 1]);
    // In blocks: neighbours share, in the order of the devices.
    let uuids = sandbox.uuids();
    let given = devices(&sandbox).into_values();
    assert!(given.is_sorted_by_key(|device| uuids.iter().position(|uuid| *uuid == device)));
    let said: Vec<String> = ranks.iter().map(Running::stderr).collect();
    let line = "cudawrap: 6 ranks on 4 devices: 2, 2, 1, 1 of them on each\n";
    assert_eq!(said, [line, "", "", "", "", ""], "once");
}

/// All of them may run near two of the four devices only.
#[test]
fn ranks_that_are_not_even_use_every_device_as_it_is_printed() {
    let gpus = |cpus| format!("[[gpu]]\nmodel = 'A100-SXM4-80GB'\ncount = 2\ncpus = '{cpus}'\n");
    let node = format!("driver = '550.54.15'\n{}{}", gpus(0), gpus(1));
    let Some(sandbox) = Sandbox::given(&[Need::Tool("taskset")], &node, "") else {
        return;
    };
    let grant = sandbox.uuids().join(",");
    let near = |local: usize| {
        let variable = "OMPI_COMM_WORLD";
        let variables = format!("{variable}_LOCAL_RANK={local} {variable}_LOCAL_SIZE=5");
        let program = format!("sim-cuda --run forever --shared --tag {local}");
        let line =
            format!("{variables} {variable}_RANK={local} taskset -c 0 cudawrap -- {program}");
        sandbox.words(&line).visible(&grant).spawn()
    };
    // One after the other, so that each finds those before it in their places.
    let start = |local: usize| {
        let rank = near(local);
        sandbox.until_running(local + 1);
        rank
    };
    let ranks: Vec<Running> = (0..5).map(start).collect();
    assert_eq!(counts(&sandbox), [2, 1, 1, 1]);
    let line = "cudawrap: 5 ranks on 4 devices: 2, 1, 1, 1 of them on each\n";
    assert_eq!(ranks[0].stderr(), line);
}

/// By its UUID, for which NVML is not asked.
#[test]
fn ranks_share_a_mig_device_that_is_named_alone() {
    let sandbox = Sandbox::new("mig4");
    let uuid = &sandbox.uuids()[1];
    let start = |local: usize| rank(&sandbox, local, 3, &[]).visible(uuid).spawn();
    let ranks: Vec<Running> = (0..3).map(start).collect();
    // One that is refused is told so at once.
    wait::until("all run, or one is refused", || {
        sandbox.running() == 3 || ranks.iter().any(|rank| rank.stderr().contains("in use"))
    });
    let listed = listing::json(&sandbox);
    let shares = listing::shares(listing::device(&listed, uuid), "lease");
    assert_eq!(shares.len(), 3);
    let thirds = shares.iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-3);
    assert!(thirds, "{shares:?}");
}

#[test]
fn a_set_share_is_kept_and_a_whole_device_is_not_divided() {
    let sandbox = Sandbox::new("gpus4");
    let _ranks = all(&sandbox, 8, &["--share", "1/3"]);
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 8);
    let listing = listing::json(&sandbox);
    let share = listing::shares(&listing["devices"][0], "lease")[0];
    assert!((share - 1.0 / 3.0).abs() < 1e-3);
    let sandbox = Sandbox::new("gpus4");
    let grant = sandbox.uuids().join(",");
    let start = |local: usize| {
        rank(&sandbox, local, 5, &["--share", "1"])
            .visible(&grant)
            .spawn()
    };
    let _first: Vec<Running> = (0..4).map(start).collect();
    sandbox.until_running(4);
    start(4).wait().refuses(75, "no free device");
}

#[test]
fn without_a_grant_sharing_is_said() {
    let sandbox = Sandbox::new("gpus4");
    let start = |local| rank(&sandbox, local, 5, &[]).spawn();
    let mut ranks: Vec<Running> = (0..5).map(start).collect();
    sandbox.until_running(4);
    let mut over = None;
    wait::until("one found none free", || {
        over = ranks.iter_mut().position(Running::is_over);
        over.is_some()
    });
    let refused = ranks.swap_remove(over.unwrap()).wait();
    refused.refuses(75, "no free device");
    let sandbox = Sandbox::new("gpus4");
    let _ranks: Vec<Running> = (0..8)
        .map(|local| rank(&sandbox, local, 8, &["--share", "auto"]).spawn())
        .collect();
    sandbox.until_running(8);
    assert_eq!(counts(&sandbox), [2, 2, 2, 2]);
    sandbox.ask("--share auto").refuses(2, "--share auto");
}

/// What a program sees is told by the probe.
#[test]
fn the_program_sees_its_own_device_or_more() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let grant = uuids.join(",");
    let see = |local: usize, words: &[&str], grant: Option<&str>| -> Vec<String> {
        let line = format!("LOCAL_RANK={local} LOCAL_WORLD_SIZE=4 cudawrap");
        let shown = ["--", "printenv", "CUDA_VISIBLE_DEVICES"];
        let command = sandbox.words(&line).args(words).args(shown);
        let text = match grant {
            Some(grant) => command.visible(grant).run().says(&[]).line(),
            None => command.run().says(&[]).line(),
        };
        text.split(',').map(str::to_owned).collect()
    };
    for local in 0..4 {
        assert_eq!(see(local, &[], Some(&grant)), [uuids[local].clone()]);
        let mut first = vec![uuids[local].clone()];
        first.extend(uuids.iter().filter(|uuid| **uuid != uuids[local]).cloned());
        let mpi = format!("OMPI_COMM_WORLD_LOCAL_RANK={local} OMPI_COMM_WORLD_LOCAL_SIZE=4");
        let mpi = format!("{mpi} cudawrap --visible first -- printenv CUDA_VISIBLE_DEVICES");
        let seen = sandbox.words(&mpi).visible(&grant).run().line();
        assert_eq!(seen, first.join(","));
        // Its program would take cuda:LOCAL_RANK, and two of them one device.
        let torchrun = format!("LOCAL_RANK={local} LOCAL_WORLD_SIZE=4 cudawrap --visible first");
        let refused = sandbox
            .words(&format!("{torchrun} -- true"))
            .visible(&grant);
        refused
            .run()
            .refuses(
                125,
                "a program that takes cuda:LOCAL_RANK would use another rank's device",
            )
            .mentions("hint: --visible all: ");
        // More ranks than devices: some have no cuda:LOCAL_RANK.
        for few in [&uuids[..2], &uuids[..1]] {
            let torchrun = format!("LOCAL_RANK={local} LOCAL_WORLD_SIZE=4 cudawrap --visible all");
            let refused = sandbox.words(&format!("{torchrun} -- true"));
            let why = "--visible all: a program that takes cuda:LOCAL_RANK finds no device in some ranks: 4 ranks on ";
            refused.visible(few.join(",")).run().refuses(125, why);
        }
        // The list as it is, also in its form.
        assert_eq!(see(local, &["--visible", "all"], Some(&grant)), uuids);
        let other = see(local, &["--visible=all"], Some("3,1,0,2"));
        assert_eq!(other, ["3", "1", "0", "2"]);
    }
    assert_eq!(see(2, &["--visible", "all"], None), uuids);
    // Options of the program behind a link are its own.
    let link = wrap_script(&sandbox, "opt", "train", "#!/bin/sh\n");
    let link = format!(
        "CUDAWRAP_VISIBLE=first LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 {}",
        link.display()
    );
    let refused = sandbox.words(&link).run();
    refused.refuses(125, "CUDAWRAP_VISIBLE=first: a program that takes");
    refused.mentions("hint: CUDAWRAP_VISIBLE=all: ");
    let alone =
        "LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 cudawrap --visible first -- printenv CUDA_VISIBLE_DEVICES";
    let seen = sandbox.words(alone).run().line();
    assert_eq!(seen.split(',').count(), 4, "a rank alone has no sibling");
    // The rank leases the one at its place of the list.
    let listed = format!("{},{}", uuids[3], uuids[1]);
    let rank = "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 cudawrap --visible all -- sleep 100";
    let program = sandbox.words(rank).visible(&listed).spawn();
    wait::until("it is leased", || listing::free_devices(&sandbox) == "3");
    let busy = sandbox.words("cudawrap -- true").visible(&uuids[1]).run();
    busy.refuses(75, &uuids[1]);
    drop(program);
    #[rustfmt::skip]
    let bad = ["--visible two", "--visible", "--visible all -n 2", "--visible first -n 2"];
    for bad in bad {
        let command = sandbox.words(&format!("cudawrap {bad} -- true"));
        command.visible(&grant).run().exits(125).prints("");
    }
    sandbox.set_settings("visible = 'first'");
    let two = sandbox.words("cudawrap -n 2 -- true").run();
    two.exits(125)
        .mentions("config.toml:2 sets it; --visible one goes before that");
    let one = sandbox.words("cudawrap -n 2 --visible one -- true").run();
    one.exits(0).says(&[]);
    sandbox.set_settings("");
    let variable = sandbox.words("CUDAWRAP_VISIBLE=all cudawrap -- printenv CUDA_VISIBLE_DEVICES");
    variable.visible("1,2").run().exits(0).prints("1,2\n");
}

#[test]
fn ranks_divide_a_reserved_part_and_stay_inside_it() {
    let sandbox = Sandbox::new("gpus4");
    // Ranks as a launcher starts them, whose name tells that it is one, below a half that
    // was reserved for all of them.
    let launcher = sandbox.file("work/prterun", "#!/bin/bash\nfor i in $(seq 0 $(($1 - 1))); do \
         OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_LOCAL_SIZE=$1 cudawrap -- sim-cuda --max 12 --until-file go & done; wait\n", 0o755);
    for ranks in [2, 6] {
        let script = format!(
            "rm -f go; export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold); {} {ranks}",
            launcher.display()
        );
        let shell = sandbox.shell("bash", &script).spawn();
        sandbox.until_running(ranks);
        let used = listing::share_used(&sandbox);
        assert!((used - 0.5).abs() < 0.01, "{used}");
        sandbox.file("work/go", "", 0o644);
        shell.wait().exits(0).says(&[]);
        sandbox.assert_clean();
    }
    // What a rank reserved by itself is not divided by all of them.
    let own = "CUDA_VISIBLE_DEVICES=$(getgpu -q --share 1/2) exec cudawrap -- sim-cuda --max 2 --until-file go";
    sandbox.file("work/rank", &format!("#!/bin/bash\n{own}\n"), 0o755);
    let script = "#!/bin/bash\nfor i in 0 1; do OMPI_COMM_WORLD_LOCAL_RANK=$i \
                  OMPI_COMM_WORLD_LOCAL_SIZE=2 ./rank & done; wait\n";
    sandbox.file("work/orted", script, 0o755);
    let shell = sandbox.shell("bash", "rm -f go; ./orted").spawn();
    sandbox.until_running(2);
    let listing = listing::json(&sandbox);
    let devices = listing::devices(&listing).iter();
    let leases = devices.flat_map(|device| listing::shares(device, "lease"));
    assert_eq!(leases.collect::<Vec<_>>(), [0.5, 0.5], "{listing}");
    sandbox.file("work/go", "", 0o644);
    shell.wait().exits(0);
}

/// What a rank has leased is not divided among all ranks, though each call below it is a rank, too.
#[test]
fn calls_below_a_rank_all_have_what_the_rank_leased() {
    let sandbox = Sandbox::new("gpus4");
    let rank = "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2";
    let launcher = format!("#!/bin/bash\n{rank} cudawrap --share 1/2 -- bash below; true\n");
    sandbox.file("work/orted", &launcher, 0o755);
    let below = "for i in 1 2 3; do cudawrap -- sim-cuda --max 3 --until-file go & done; wait";
    sandbox.file("work/below", below, 0o644);
    let shell = sandbox.shell("bash", "./orted; true").spawn();
    sandbox.until_running(3);
    sandbox.file("work/go", "", 0o644);
    shell.wait().exits(0).says(&[]);
}
