//! Ranks with `--bind`: a CPU mask that the launcher set is the rank's own, and ranks
//! without one divide the CPUs near their devices. By Open MPI and hydra where these are
//! installed, and by masks and variables as srun sets them.

use std::time::Duration;

use getgpu_tests::wrapped::Facts;
use harness::skip;
use harness::{Command, Sandbox, wait};

use crate::cpu_masks::{cores, cpus, mask, masked, near_all, told};

/// What `count` ranks of a launcher are told in a grant of all devices, each behind the
/// mask that the launcher gave it.
fn ranks(sandbox: &Sandbox, launcher: &[&str], count: usize) -> Vec<(Vec<usize>, Facts)> {
    let work = sandbox.text("work");
    let script = format!(
        "r=${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}; \
         grep Cpus_allowed_list /proc/self/status > {work}/mask.$r; \
         exec cudawrap --bind -- bash -c \"probe --out {work}/rank.$r; until [ -e {work}/go ]; do sleep 0.01; done\""
    );
    let line = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=@/work";
    let line = format!("{line} {} -n {count} bash -c", launcher.join(" "));
    let command = sandbox.words(&line).args([script]);
    let command = command.visible(sandbox.uuids().join(","));
    let mut running = command.limit(Duration::from_secs(60)).spawn();
    let has_told = |rank: usize| sandbox.path(&format!("work/rank.{rank}")).exists();
    wait::until("all ranks have a device", || {
        (0..count).all(has_told) || running.is_over()
    });
    std::fs::write(sandbox.path("work/go"), "").unwrap();
    running.wait().exits(0);
    let rank = |rank: usize| {
        let given = std::fs::read_to_string(sandbox.path(&format!("work/mask.{rank}"))).unwrap();
        let facts = Facts::read(&sandbox.path(&format!("work/rank.{rank}")));
        (mask(&Facts::parse(&given.replace(":\t", " "))), facts)
    };
    (0..count).map(rank).collect()
}

/// Open MPI and hydra where they are installed, each with these options.
fn launchers<'a>(open_mpi: &[&'a str], hydra: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut all = vec![
        [&["mpirun.openmpi"], open_mpi].concat(),
        [&["mpiexec.hydra"], hydra].concat(),
    ];
    all.retain(|words| {
        let found = skip::tool(words[0]).is_some();
        if !found {
            skip::say(&format!("{} is not installed", words[0]));
        }
        found
    });
    all
}

#[test]
fn ranks_that_a_launcher_bound_keep_all_of_their_cores() {
    let Some(_) = cores(2) else { return };
    // Beside idle devices, one each, and two on one.
    for (count, devices) in [(4, 4), (2, 4), (2, 2), (4, 2), (2, 1)] {
        let each = cpus().len() / count;
        if each == 0 {
            skip::say(&format!("fewer than {count} CPUs"));
            continue;
        }
        let (map, bind) = (format!("slot:pe={each}"), format!("core:{each}"));
        let open_mpi = ["--oversubscribe", "--map-by", &map, "--bind-to", "core"];
        for launcher in launchers(&open_mpi, &["-bind-to", &bind]) {
            for (given, facts) in ranks(&near_all(devices), &launcher, count) {
                let case = format!("{launcher:?}, {count} ranks, {devices} devices");
                assert_eq!(given.len(), each, "{case}");
                assert_eq!(mask(&facts), given, "{case}");
                let bind = told(&facts, "OMP_PROC_BIND");
                assert_eq!(bind.as_deref(), Some("true"), "{case}");
            }
        }
    }
}

/// Also where they find the first device taken, and use others of the grant.
#[test]
fn ranks_that_no_launcher_bound_divide_all_cores_among_them() {
    let Some(_) = cores(2) else { return };
    for launcher in launchers(&["--oversubscribe", "--bind-to", "none"], &[]) {
        for (devices, taken) in [(4, false), (4, true), (2, false), (1, false)] {
            let sandbox = near_all(devices);
            let other = sandbox.words("cudawrap --gpu 0 -- sim-cuda --run forever");
            let _other = taken.then(|| other.spawn());
            sandbox.until_running(usize::from(taken));
            let told = ranks(&sandbox, &launcher, 2);
            let mut all: Vec<usize> = told.iter().flat_map(|(_, facts)| mask(facts)).collect();
            all.sort_unstable();
            assert_eq!(all, cpus(), "{launcher:?}, {devices} devices, {taken}");
            let unbound = told.iter().all(|(given, _)| *given == cpus());
            assert!(unbound, "{launcher:?} binds");
        }
    }
}

/// A task as srun starts it, on CPUs that `srun -c` gave it.
fn task(sandbox: &Sandbox, cpus: &[usize], local: usize, tasks: usize) -> Command {
    let local = local.to_string();
    masked(sandbox, cpus, &["cudawrap", "--bind", "--", "probe"])
        .visible(sandbox.uuids().join(","))
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_STEP_ID", "0")
        .env("SLURM_STEP_TASKS_PER_NODE", tasks.to_string())
        .env("SLURM_LOCALID", &local)
        .env("SLURM_PROCID", &local)
}

/// Slurm has given each of two tasks one of the job's devices, and no CPUs of its own.
#[test]
fn tasks_with_a_device_each_and_one_mask_do_not_pin_threads() {
    if cores(2).is_none() {
        return;
    }
    let sandbox = near_all(2);
    let bound = |gpus: &str| {
        let command = task(&sandbox, &cpus(), 0, 2).visible(&sandbox.uuids()[0]);
        let command = command
            .env("SLURM_GPUS_ON_NODE", gpus)
            .env("CUDAWRAP_SHARE", "1");
        told(&crate::cpu_masks::facts(command), "OMP_PROC_BIND")
    };
    assert_eq!(bound("1").as_deref(), Some("true"), "the job's only device");
    assert_eq!(bound("2"), None);
}
