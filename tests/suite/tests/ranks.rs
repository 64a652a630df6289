//! Ranks of parallel programs: each its own device, the nearest first, in blocks; shares
//! where they are more than the devices. The launchers are real where they are installed
//! (Open MPI, MPICH's hydra); what others set is set by hand.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use getgpu_tests::OTHER;
use getgpu_tests::wrapped::wrap;
use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, wait};

/// A rank of `size` as Open MPI starts it.
fn rank(sandbox: &Sandbox, local: usize, size: usize, words: &[&str]) -> Command {
    let command = sandbox
        .command("cudawrap")
        .args(words)
        .args(["--", "sim-cuda", "--run", "forever", "--shared"]);
    let command = command
        .args(["--tag", &local.to_string()])
        .limit(Duration::from_secs(60));
    command
        .env("OMPI_COMM_WORLD_LOCAL_RANK", local.to_string())
        .env("OMPI_COMM_WORLD_LOCAL_SIZE", size.to_string())
        .env("OMPI_COMM_WORLD_RANK", local.to_string())
}

/// The device of each rank, by the tag.
fn devices(sandbox: &Sandbox) -> BTreeMap<usize, String> {
    // A program is in the log a moment after it has its context.
    wait::until("all that run are in the log", || {
        sandbox.folder().runs().unwrap().len() >= sandbox.running()
    });
    sandbox
        .folder()
        .runs()
        .unwrap()
        .into_iter()
        .map(|run| (run.tag.parse().unwrap(), run.uuid))
        .collect()
}

/// How many ranks each device has, the fullest first.
fn counts(sandbox: &Sandbox) -> Vec<usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for device in devices(sandbox).into_values() {
        *counts.entry(device).or_default() += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
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

#[test]
fn every_rank_has_its_block_of_the_grant() {
    for (size, expected) in [
        (4, &[1, 1, 1, 1][..]),
        (8, &[2, 2, 2, 2]),
        (6, &[2, 2, 1, 1]),
        (3, &[1, 1, 1]),
        (1, &[1]),
    ] {
        let sandbox = Sandbox::new("gpus4");
        let ranks = all(&sandbox, size, &[]);
        assert_eq!(counts(&sandbox), expected, "{size} ranks");
        // In blocks: neighbours share, in the order of the devices.
        let uuids = sandbox.uuids();
        let places: Vec<usize> = devices(&sandbox)
            .values()
            .map(|device| uuids.iter().position(|uuid| uuid == device).unwrap())
            .collect();
        assert!(places.is_sorted(), "{size} ranks: {places:?}");
        let said: Vec<String> = ranks.iter().map(Running::stderr).collect();
        let line = match size {
            6 => "cudawrap: 6 ranks on 4 devices: 2, 2, 1, 1 of them on each\n",
            3 => "cudawrap: 3 ranks on 4 devices: 1 are not used\n",
            _ => "",
        };
        assert_eq!(said[0], line);
        assert!(said[1..].iter().all(String::is_empty), "once: {said:?}");
    }
}

#[test]
fn a_set_share_is_kept_and_a_whole_device_is_not_divided() {
    let sandbox = Sandbox::new("gpus4");
    let _ranks = all(&sandbox, 8, &["--share", "1/3"]);
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 8);
    let listing: serde_json::Value =
        serde_json::from_str(&sandbox.getgpu(["--list", "--json"]).run().stdout).unwrap();
    let shares = listing["devices"][0]["holders"][0]["share"]
        .as_f64()
        .unwrap();
    assert!((shares - 1.0 / 3.0).abs() < 1e-3);
    let sandbox = Sandbox::new("gpus4");
    let grant = sandbox.uuids().join(",");
    let start = |local: usize| {
        rank(&sandbox, local, 5, &["--share", "1"])
            .visible(&grant)
            .spawn()
    };
    let _first: Vec<Running> = (0..4).map(start).collect();
    sandbox.until_running(4);
    start(4).wait().refuses("cudawrap", 75, "no free device");
}

#[test]
fn without_a_grant_sharing_is_said() {
    let sandbox = Sandbox::new("gpus4");
    let ranks: Vec<Running> = (0..5)
        .map(|local| rank(&sandbox, local, 5, &[]).spawn())
        .collect();
    sandbox.until_running(4);
    let mut over: Vec<Running> = Vec::new();
    let mut ranks: Vec<Running> = ranks;
    wait::until("one found none free", || {
        if let Some(place) = ranks.iter_mut().position(Running::is_over) {
            over.push(ranks.swap_remove(place));
        }
        !over.is_empty()
    });
    over.pop()
        .unwrap()
        .wait()
        .refuses("cudawrap", 75, "no free device");
    let sandbox = Sandbox::new("gpus4");
    let _ranks: Vec<Running> = (0..8)
        .map(|local| rank(&sandbox, local, 8, &["--share", "auto"]).spawn())
        .collect();
    sandbox.until_running(8);
    assert_eq!(counts(&sandbox), [2, 2, 2, 2]);
    sandbox
        .getgpu(["--share", "auto"])
        .run()
        .refuses("getgpu", 2, "--share auto");
}

/// What a program sees is told by the probe.
#[test]
fn the_program_sees_its_own_device_or_more() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let grant = uuids.join(",");
    let see = |local: usize, words: &[&str], grant: Option<&str>| -> Vec<String> {
        let script = "printf %s \"$CUDA_VISIBLE_DEVICES\"";
        let command = sandbox
            .command("cudawrap")
            .args(words)
            .args(["--", "sh", "-c", script]);
        let command = command
            .env("LOCAL_RANK", local.to_string())
            .env("LOCAL_WORLD_SIZE", "4");
        let command = if let Some(grant) = grant {
            command.visible(grant)
        } else {
            command
        };
        let text = command.run().exits(0).says(&[]).stdout.clone();
        text.split(',').map(str::to_owned).collect()
    };
    for local in 0..4 {
        assert_eq!(see(local, &[], Some(&grant)), [uuids[local].clone()]);
        let mut first = vec![uuids[local].clone()];
        first.extend(uuids.iter().filter(|uuid| **uuid != uuids[local]).cloned());
        assert_eq!(see(local, &["--visible", "first"], Some(&grant)), first);
        assert_eq!(
            see(local, &["--visible", "all"], Some(&grant)),
            uuids,
            "the list as it is"
        );
        assert_eq!(
            see(local, &["--visible=all"], Some("3,1,0,2")),
            ["3", "1", "0", "2"],
            "also its form"
        );
    }
    assert_eq!(see(2, &["--visible", "all"], None), uuids);
    assert_eq!(see(2, &["--visible", "first"], None).len(), 4);
    // The rank leases the one at its place of the list.
    let listed = format!("{},{}", uuids[3], uuids[1]);
    let program = sandbox
        .command("cudawrap")
        .args(["--visible", "all", "--", "sleep", "100"])
        .visible(&listed);
    let program = program
        .env("LOCAL_RANK", "1")
        .env("LOCAL_WORLD_SIZE", "2")
        .spawn();
    wait::until("it is leased", || {
        sandbox.getgpu(["--count-free"]).run().line() == "3"
    });
    let busy = sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .visible(&uuids[1])
        .run();
    busy.refuses("cudawrap", 75, &uuids[1]);
    drop(program);
    for bad in [
        &["--visible", "two"][..],
        &["--visible"],
        &["--visible", "all", "-n", "2"],
        &["--visible", "first", "-n", "2"],
    ] {
        sandbox
            .command("cudawrap")
            .args(bad)
            .args(["--", "true"])
            .visible(&grant)
            .run()
            .exits(125)
            .prints("");
    }
    let variable =
        sandbox
            .command("cudawrap")
            .args(["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]);
    let shown = variable.env("CUDAWRAP_VISIBLE", "all").visible("1,2").run();
    shown.exits(0).prints("1,2\n");
}

#[test]
fn ranks_inside_a_reservation_of_several_divide_it() {
    let sandbox = Sandbox::new("gpus4");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu -n 2 --hold); for i in 0 1 2 3; do \
                  OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_LOCAL_SIZE=4 cudawrap -- sim-cuda --shared --run forever --tag $i & \
                  done; wait";
    let _shell = sandbox.shell("bash", script).spawn();
    sandbox.until_running(4);
    assert_eq!(counts(&sandbox), [2, 2]);
    assert_eq!(sandbox.getgpu(["--count-free"]).run().line(), "2");
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
        let listing: serde_json::Value =
            serde_json::from_str(&sandbox.getgpu(["--list", "--json"]).run().stdout).unwrap();
        let used: Vec<f64> = listing["devices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d["share_used"].as_f64().unwrap())
            .collect();
        assert!((used.iter().sum::<f64>() - 0.5).abs() < 0.01, "{used:?}");
        sandbox.file("work/go", "", 0o644);
        shell.wait().exits(0).says(&[]);
        sandbox.assert_clean(Duration::from_secs(6));
    }
    // What a rank reserved by itself is not divided by all of them.
    let own = "CUDA_VISIBLE_DEVICES=$(getgpu -q --share 1/2) exec cudawrap -- sim-cuda --max 2 --until-file go";
    sandbox.file("work/rank", &format!("#!/bin/bash\n{own}\n"), 0o755);
    let launcher = sandbox.file(
        "work/orted",
        "#!/bin/bash\nfor i in 0 1; do \
         OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_LOCAL_SIZE=2 ./rank & done; wait\n",
        0o755,
    );
    let shell = sandbox
        .shell("bash", &format!("rm -f go; {}", launcher.display()))
        .spawn();
    sandbox.until_running(2);
    let listing: serde_json::Value =
        serde_json::from_str(&sandbox.getgpu(["--list", "--json"]).run().stdout).unwrap();
    let leases: Vec<f64> = listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|d| d["holders"].as_array().unwrap().clone())
        .filter(|holder| holder["kind"] == "lease")
        .map(|holder| holder["share"].as_f64().unwrap())
        .collect();
    assert_eq!(leases, [0.5, 0.5], "{listing}");
    sandbox.file("work/go", "", 0o644);
    shell.wait().exits(0);
}

#[test]
fn a_job_that_has_gpus_and_no_variable_stays_in_them() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let app = wrap(&sandbox, "work", "app", "sim-cuda");
    let job = |program: &str, variables: &[(&str, &str)]| {
        let command = sandbox.command(program).env("SLURM_JOB_ID", "7");
        variables
            .iter()
            .fold(command, |command, (name, value)| command.env(name, value))
    };
    for variables in [
        &[("SLURM_JOB_GPUS", "2,3")][..],
        &[("SLURM_JOB_GPUS", "2-3"), ("SLURM_GPUS_ON_NODE", "2")],
        &[("SGE_HGR_gpu", "2 3")],
    ] {
        for _ in 0..4 {
            let printed = job("getgpu", variables).args(["--no-reserve"]).run().line();
            assert!(uuids[2..].contains(&printed), "{variables:?}: {printed}");
            let ran = job("cudawrap", variables)
                .args(["--", "sim-cuda"])
                .run()
                .line();
            assert!(
                uuids[2..]
                    .iter()
                    .any(|uuid| ran.starts_with(&format!("RUN {uuid} "))),
                "{variables:?}: {ran}"
            );
            let linked = job(app.to_str().unwrap(), variables).run().line();
            assert!(
                uuids[2..]
                    .iter()
                    .any(|uuid| linked.starts_with(&format!("RUN {uuid} "))),
                "{variables:?}: {linked}"
            );
        }
        assert_eq!(
            job("getgpu", variables)
                .args(["--no-reserve", "-n", "2"])
                .run()
                .line(),
            uuids[2..].join(",")
        );
    }
    // One device: leased without a choice, and named.
    let one = [("SLURM_JOB_GPUS", "1")];
    let lease = job(app.to_str().unwrap(), &one)
        .args(["--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    assert_eq!(sandbox.folder().running_on(&uuids[1]).unwrap().len(), 1);
    job("cudawrap", &one)
        .args(["--", "true"])
        .run()
        .exits(75)
        .mentions(&format!("cudawrap: {}: in use by ", uuids[1]));
    drop(lease);
    // All of the node's, or fewer and nothing says which.
    assert!(
        uuids.contains(
            &job("getgpu", &[("SLURM_GPUS_ON_NODE", "4")])
                .args(["--no-reserve"])
                .run()
                .line()
        )
    );
    let refused = job("getgpu", &[("SLURM_GPUS_ON_NODE", "2")]).run();
    refused.refuses(
        "getgpu",
        3,
        "this job has GPUs, but CUDA_VISIBLE_DEVICES is not set",
    );
    job("cudawrap", &[("SLURM_GPUS_ON_NODE", "2")])
        .args(["--", "true"])
        .run()
        .exits(125);
    // It is a grant: neither the list for interactive use nor the cap is asked.
    sandbox.set_settings(&format!(
        "allowed = ['{}']\nmax_per_user = 1\nwithout_grant = 'none'",
        uuids[0]
    ));
    let both = job("getgpu", &[("SLURM_JOB_GPUS", "2,3")])
        .args(["--no-reserve", "-n", "2"])
        .uid(OTHER)
        .run();
    assert_eq!(both.line(), uuids[2..].join(","));
}

#[test]
fn what_a_launcher_says_wrongly_is_one_line() {
    let sandbox = Sandbox::new("gpus4");
    let run = |name: &str, value: &str| {
        sandbox
            .command("cudawrap")
            .args(["--", "true"])
            .env(name, value)
            .run()
    };
    run("OMPI_COMM_WORLD_LOCAL_RANK", "x").refuses(
        "cudawrap",
        125,
        "OMPI_COMM_WORLD_LOCAL_RANK=x: not the number of a rank",
    );
    run("LOCAL_RANK", "-1").exits(0).says(&[]);
    run("LOCAL_RANK", "").exits(0);
    // Under a link, whose user may not know of ranks, it is a warning.
    let app = wrap(&sandbox, "work", "app", "sim-cuda");
    for visible in [None, Some(sandbox.uuids()[0].clone())] {
        let mut command = sandbox.command(&app).env("LOCAL_RANK", "x");
        if let Some(visible) = visible {
            command = command.visible(visible);
        }
        let outcome = command.run();
        outcome
            .exits(0)
            .says(&["cudawrap: LOCAL_RANK=x: not the number of a rank: ignored"]);
        assert!(outcome.stdout.starts_with("RUN "), "{outcome:#?}");
    }
}

/// Ranks on their CPUs, with a topology whose order is reversed: the last GPU is near the
/// first CPU.
#[test]
fn the_nearest_device_comes_first_whatever_the_numbers() {
    if skip::lacks(&[Need::Tool("taskset")]) {
        return;
    }
    let mask = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let cpus: Vec<usize> = (0..nix::sched::CpuSet::count())
        .filter(|cpu| mask.is_set(*cpu).unwrap_or(false))
        .take(2)
        .collect();
    let [low, high] = cpus[..] else {
        skip::say("fewer than two CPUs");
        return;
    };
    let gpu = |cpu: usize| format!("[[gpu]]\nmodel = 'T4'\ncount = 2\ncpus = '{cpu}'\n");
    let sandbox = Sandbox::new(&format!("driver = '550.54.15'\n{}{}", gpu(high), gpu(low)));
    let uuids = sandbox.uuids();
    for grant in [None, Some(uuids.join(","))] {
        let mut ranks = Vec::new();
        for (local, cpu) in [low, low, high, high].into_iter().enumerate() {
            let words = [
                "-c".to_owned(),
                cpu.to_string(),
                sandbox.text("bin/cudawrap"),
                "--".to_owned(),
            ];
            let command = sandbox.command("taskset").args(words);
            let command =
                command.args(["sim-cuda", "--run", "forever", "--tag", &local.to_string()]);
            let command = command
                .env("MPI_LOCALRANKID", local.to_string())
                .env("MPI_LOCALNRANKS", "4");
            let command = if let Some(grant) = &grant {
                command.visible(grant)
            } else {
                command
            };
            ranks.push(command.spawn());
        }
        sandbox.until_running(4);
        let given = devices(&sandbox);
        let near: BTreeSet<&String> = uuids[2..].iter().collect();
        assert_eq!(
            [&given[&0], &given[&1]]
                .into_iter()
                .collect::<BTreeSet<_>>(),
            near,
            "{grant:?}: {given:?}"
        );
        sandbox.assert_exclusive();
        drop(ranks);
        wait::until("all is free again", || {
            !sandbox.locked() && sandbox.running() == 0
        });
    }
}

/// Real launchers, in a grant: the ranks' devices, by the tag that a shell makes of the
/// launcher's own variable.
fn launched(launcher: &[&str], variable: &str, size: usize) -> (Vec<usize>, Sandbox) {
    let sandbox = Sandbox::new("gpus4");
    let grant = sandbox.uuids().join(",");
    let until = sandbox.text("work/go");
    let script =
        format!("exec cudawrap -- sim-cuda --shared --until-file {until} --tag ${variable}");
    let number = size.to_string();
    let command = sandbox
        .command(launcher[0])
        .args(&launcher[1..])
        .args(["-n", &number, "sh", "-c", &script]);
    let command = command
        .visible(&grant)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let running = command.limit(Duration::from_secs(60)).spawn();
    let all_run = wait::holds_within(wait::LONG, || sandbox.running() == size);
    assert!(
        all_run,
        "{launcher:?}: {} of {size}: {}",
        sandbox.running(),
        running.stderr()
    );
    let counts = counts(&sandbox);
    assert_eq!(devices(&sandbox).len(), size, "a rank each");
    std::fs::write(sandbox.path("work/go"), "").unwrap();
    running.wait().exits(0);
    (counts, sandbox)
}

#[test]
fn open_mpi_and_hydra_place_a_rank_on_each_device() {
    let launchers: [(&[&str], &str); 2] = [
        (
            &["mpirun.openmpi", "--oversubscribe"],
            "OMPI_COMM_WORLD_LOCAL_RANK",
        ),
        (&["mpiexec.hydra"], "MPI_LOCALRANKID"),
    ];
    for (launcher, variable) in launchers {
        if skip::tool(launcher[0]).is_none() {
            skip::say(&format!("{} is not installed", launcher[0]));
            continue;
        }
        for (size, expected) in [
            (4, &[1, 1, 1, 1][..]),
            (8, &[2, 2, 2, 2]),
            (6, &[2, 2, 1, 1]),
            (3, &[1, 1, 1]),
        ] {
            let (counts, sandbox) = launched(launcher, variable, size);
            assert_eq!(counts, expected, "{launcher:?} {size}");
            sandbox.assert_clean(Duration::from_secs(2));
        }
    }
}
