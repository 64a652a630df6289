//! Where a rank's number comes from: real launchers where they are installed (Open MPI,
//! MPICH's hydra), and wrong or missing variables. The nearest device comes first.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_tests::somebody;
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip;
use harness::{Sandbox, wait};

use crate::cpu_masks::{cores, masked};
use crate::rank_calls::{counts, devices};

/// The index of each device in the list.
#[track_caller]
fn indices(getgpu: harness::Command) -> Vec<Option<u64>> {
    let printed = getgpu.args(["--list", "--json"]).run().output();
    let listing: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let devices = getgpu_tests::listing::devices(&listing).iter();
    devices.map(|device| device["index"].as_u64()).collect()
}

#[test]
fn a_job_that_has_gpus_and_no_variable_stays_in_them() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let app = wrap(&sandbox, "work", "app", "sim-cuda");
    let app = app.to_str().unwrap();
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
        &[("SGE_HGR_nvidia_gpu", "2 3")],
    ] {
        for _ in 0..4 {
            let typed = job("cudawrap", variables).args(["--", "sim-cuda"]);
            let printed = job("getgpu", variables).args(["--no-reserve"]);
            for command in [printed, typed, job(app, variables)] {
                let line = command.run().line();
                let device = |uuid: &String| line.contains(uuid.as_str());
                assert!(uuids[2..].iter().any(device), "{variables:?}: {line}");
            }
        }
        let ask = |words: &[&str]| job("getgpu", variables).args(words).run().line();
        assert_eq!(ask(&["--no-reserve", "-n", "2"]), uuids[2..].join(","));
        // The list's numbers are those that INDEX takes.
        let listed = indices(job("getgpu", variables));
        assert_eq!(listed, [None, None, Some(0), Some(1)]);
        assert_eq!(ask(&["--no-reserve", "1"]), uuids[3]);
        assert_eq!(ask(&["--count-free"]), "2", "{variables:?}");
    }
    // A program that is to see all sees those of the job, which no variable names.
    let linked = wrap(&sandbox, "opt", "shown", "probe");
    for (gpus, expected) in [("2,3", uuids[2..].join(",")), ("3", uuids[3].clone())] {
        for program in ["cudawrap", linked.to_str().unwrap()] {
            let variables = [("SLURM_JOB_GPUS", gpus), ("CUDAWRAP_VISIBLE", "all")];
            let words: &[&str] = match program {
                "cudawrap" => &["--", "probe"],
                _ => &[],
            };
            let ran = job(program, &variables).args(words).run();
            let facts = Facts::parse(&ran.exits(0).stdout);
            assert_eq!(facts.visible(), Some(&*expected), "{program} {gpus}");
        }
    }
    // One device: leased without a choice, and named.
    let one = [("SLURM_JOB_GPUS", "1")];
    let lease = job(app, &one).args(["--run", "forever"]).spawn();
    sandbox.until_running(1);
    assert_eq!(sandbox.folder().running_on(&uuids[1]).unwrap().len(), 1);
    let second = job("cudawrap", &one).args(["--", "true"]).run();
    second.refuses(75, &format!("cudawrap: {}: in use by ", uuids[1]));
    drop(lease);
    // All of the node's, or fewer and nothing says which.
    let all = job("getgpu", &[("SLURM_GPUS_ON_NODE", "4")]);
    assert!(uuids.contains(&all.args(["--no-reserve"]).run().line()));
    let why = "this job has GPUs, but CUDA_VISIBLE_DEVICES is not set";
    // Named in a form that tells nothing here: never all of the node's.
    #[rustfmt::skip]
    let cases = [
        ("SLURM_GPUS_ON_NODE", "2"), ("SLURM_JOB_GPUS", "MIG-x"), ("SGE_HGR_gpu", "gpu2 gpu3"),
    ];
    for unclear in cases {
        job("getgpu", &[unclear]).run().refuses(3, why);
        assert_eq!(indices(job("getgpu", &[unclear])), [None; 4], "{unclear:?}");
        let free = job("getgpu", &[unclear]).args(["--count-free"]).run();
        assert_eq!(free.line(), "0", "{unclear:?}");
        let typed = job("cudawrap", &[unclear]).args(["--", "true"]);
        for command in [typed, job(app, &[unclear])] {
            command.run().refuses(125, why);
        }
    }
    // It is a grant: neither the list for interactive use nor the cap is asked.
    sandbox.set_settings(&format!(
        "allowed = ['{}']\nmax_per_user = 1\nwithout_grant = 'none'",
        uuids[0]
    ));
    let both = somebody(&sandbox, &["--no-reserve", "-n", "2"])
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_GPUS", "2,3")
        .run();
    assert_eq!(both.line(), uuids[2..].join(","));
}

#[test]
fn a_launchers_wrong_variables_are_one_line() {
    let sandbox = Sandbox::new("gpus4");
    let run = |name: &str, value: &str| sandbox.words("cudawrap -- true").env(name, value).run();
    let line = "OMPI_COMM_WORLD_LOCAL_RANK=x: not the number of a rank";
    run("OMPI_COMM_WORLD_LOCAL_RANK", "x").refuses(125, line);
    run("LOCAL_RANK", "-1").exits(0).says(&[]);
    run("LOCAL_RANK", "").exits(0);
    // Under a link, whose user may not know of ranks, it is a warning.
    let app = wrap(&sandbox, "work", "app", "sim-cuda");
    let linked = || sandbox.command(&app).env("LOCAL_RANK", "x");
    for command in [linked(), linked().visible(&sandbox.uuids()[0])] {
        let outcome = command.run();
        let line = "cudawrap: LOCAL_RANK=x: not the number of a rank: ignored";
        outcome.exits(0).says(&[line]);
        assert!(outcome.stdout.starts_with("RUN "), "{outcome:#?}");
    }
}

/// The variables of each of two launchers are there, and those of the outer one say the same to
/// all ranks.
#[test]
fn a_rank_is_what_the_innermost_launcher_says() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let ranks = |names: [&str; 2]| {
        let [local, size] = names;
        format!(
            "#!/bin/bash\nfor i in 0 1; do {local}=$i {size}=2 cudawrap -- printenv CUDA_VISIBLE_DEVICES; done\n"
        )
    };
    let open_mpi = ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"];
    let hydra = ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"];
    for (inner, names, outer) in [
        ("hydra_pmi_proxy", hydra, open_mpi),
        ("prterun", open_mpi, hydra),
    ] {
        sandbox.file(&format!("work/{inner}"), &ranks(names), 0o755);
        let command = sandbox.shell("bash", &format!("./{inner}; true"));
        let command = command.env(outer[0], "0").env(outer[1], "2");
        let ran = command.visible(uuids[..2].join(",")).run();
        let each = format!("{}\n{}\n", uuids[0], uuids[1]);
        ran.exits(0).prints(&each);
    }
}

/// Ranks on their CPUs, with a topology whose order is reversed: the last GPU is near the
/// first CPU.
#[test]
fn the_nearest_device_comes_first_whatever_the_numbers() {
    let Some(cores) = cores(2) else { return };
    let (low, high) = (cores[0], cores[1]);
    let gpu = |cpu: usize| format!("[[gpu]]\nmodel = 'T4'\ncount = 2\ncpus = '{cpu}'\n");
    for granted in [false, true] {
        // A node each: `devices` would take the runs before for these.
        let sandbox = Sandbox::new(&format!("driver = '550.54.15'\n{}{}", gpu(high), gpu(low)));
        let uuids = sandbox.uuids();
        let grant = granted.then(|| uuids.join(","));
        let mut ranks = Vec::new();
        for (local, cpu) in [low, low, high, high].into_iter().enumerate() {
            let line = format!("cudawrap -- sim-cuda --run forever --tag {local}");
            let words: Vec<&str> = line.split(' ').collect();
            let command = masked(&sandbox, &[cpu], &words);
            let command = command.env("MPI_LOCALRANKID", local.to_string());
            let command = command.env("MPI_LOCALNRANKS", "4");
            let command = match &grant {
                Some(grant) => command.visible(grant),
                None => command,
            };
            ranks.push(command.spawn());
        }
        sandbox.until_running(4);
        let given = devices(&sandbox);
        let near: BTreeSet<&String> = uuids[2..].iter().collect();
        let low = BTreeSet::from([&given[&0], &given[&1]]);
        assert_eq!(low, near, "{grant:?}: {given:?}");
        sandbox.assert_exclusive();
        drop(ranks);
    }
}

/// Real launchers, in a grant: the ranks' devices, by the tag that a shell makes of the
/// launcher's own variable.
fn launched(launcher: &str, variable: &str, size: usize) -> (Vec<usize>, Sandbox) {
    let sandbox = Sandbox::new("gpus4");
    let grant = sandbox.uuids().join(",");
    let until = sandbox.text("work/go");
    let script =
        format!("exec cudawrap -- sim-cuda --shared --until-file {until} --tag ${variable}");
    // Two of them at once fail to make one directory in /tmp.
    let line = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=@/work";
    let line = format!("{line} {launcher} -n {size} sh -c");
    let command = sandbox.words(&line).args([script]).visible(&grant);
    let running = command.limit(Duration::from_secs(60)).spawn();
    let all_run = wait::holds_within(wait::LONG, || sandbox.running() == size);
    assert!(all_run, "{launcher:?}: {running:#?}");
    let counts = counts(&sandbox);
    assert_eq!(devices(&sandbox).len(), size, "a rank each");
    std::fs::write(sandbox.path("work/go"), "").unwrap();
    running.wait().exits(0);
    (counts, sandbox)
}

#[test]
fn open_mpi_and_hydra_place_a_rank_on_each_device() {
    #[rustfmt::skip]
    let launchers = [
        ("mpirun.openmpi --oversubscribe", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("mpiexec.hydra", "MPI_LOCALRANKID"),
    ];
    for (launcher, variable) in launchers {
        let program = launcher.split(' ').next().unwrap();
        if skip::tool(program).is_none() {
            skip::say(&format!("{program} is not installed"));
            continue;
        }
        let (counts, sandbox) = launched(launcher, variable, 6);
        assert_eq!(counts, [2, 2, 1, 1], "{launcher:?}");
        sandbox.assert_clean();
    }
}
