//! On a node whose devices are shared by parts a job has its part and nothing else, whatever its
//! environment says, and no user gives up what the prolog has reserved.

use getgpu_tests::slurm::{self, Cluster};
use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, listing};
use harness::skip::{self, Need};
use harness::{Command, Sandbox};

use crate::hook_calls::{epilog, job, prolog, quiet};
use crate::task_calls::as_nobody;

const SHARES: &str = "[slurm]\nshares = ['gpushare4=1/4']\ntasks = 'asked'";

/// A program of a job, as its user starts it.
fn of_job(sandbox: &Sandbox, job: &str, line: &str) -> Command {
    let line = format!("SLURM_JOB_ID={job} SLURM_STEP_ID=0 {line}");
    sandbox.words(&line).uid(OTHER)
}

#[test]
fn a_job_has_its_part_whatever_its_environment_says() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::with("gpus4", SHARES);
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let own = job(0);
    quiet(prolog(&sandbox, &own));
    let holders = sandbox.holders();
    let uuids = sandbox.uuids();
    let mut devices = uuids.iter();
    let part = devices
        .find(|uuid| holders[0].words.contains(uuid))
        .unwrap();
    let other = uuids.iter().find(|uuid| *uuid != part).unwrap();
    let ways = [
        "cudawrap -- sim-cuda --max 4 --run forever".to_owned(),
        format!("CUDA_VISIBLE_DEVICES={other} cudawrap -- sim-cuda --max 4 --run forever"),
        format!(
            "CUDA_VISIBLE_DEVICES={other} {} --max 4 --run forever",
            app.display()
        ),
        format!("{} --max 4 --run forever", app.display()),
        "cudawrap --ignore-grant -- sim-cuda --max 4 --run forever".to_owned(),
    ];
    for way in &ways {
        // It is given up by no user.
        of_job(&sandbox, &own, "getgpu --release-all")
            .run()
            .exits(0)
            .says(&[&format!(
                "getgpu: the part of job {own} left alone: it is the job's until it ends"
            )]);
        let program = of_job(&sandbox, &own, way).spawn();
        sandbox.until_running(1);
        let listed = listing::json(&sandbox);
        let leases = listing::shares(listing::device(&listed, part), "lease");
        assert_eq!(leases, [0.25], "{way}: {listed}");
        drop(program);
        harness::wait::until("it has exited", || sandbox.running() == 0);
    }
    of_job(&sandbox, &own, &format!("getgpu --release slurm-{own}"))
        .run()
        .exits(1)
        .mentions("left alone");
    of_job(&sandbox, &own, "getgpu")
        .run()
        .answers(&format!("{part}\n"));
    quiet(epilog(&sandbox, &own));
    sandbox.assert_clean();
}

#[test]
fn a_job_without_a_part_has_no_device() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::with("gpus4", SHARES);
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let own = job(0);
    let none = "this job has no part of a GPU on this node";
    let run = |line: &str| of_job(&sandbox, &own, line).run();
    run("cudawrap -- sim-cuda").refuses(125, none);
    run("getgpu --ignore-grant").refuses(3, none);
    run("CUDA_VISIBLE_DEVICES=2 cudawrap -- sim-cuda").refuses(125, none);
    let linked = format!("CUDA_VISIBLE_DEVICES=2 {}", app.display());
    run(&linked).exits(100).prints("NODEVICE\n");
    // Slurm has given it a device.
    let granted = "CUDA_VISIBLE_DEVICES=2 SLURM_STEP_GPUS=2 SLURM_GPUS_ON_NODE=1";
    let shown = run(&format!("{granted} cudawrap -- sim-cuda"));
    shown.exits(0).shows(&sandbox.uuids()[2]);
    // But not if it was promised a part that could not be given.
    sandbox.file(&format!("run/slurm-{own}"), "", 0o644);
    run(&format!("{granted} cudawrap -- sim-cuda")).refuses(125, none);
    std::fs::remove_file(sandbox.path(&format!("run/slurm-{own}"))).unwrap();
    // In no job, and where the site wants it.
    sandbox
        .words("cudawrap -- sim-cuda")
        .uid(OTHER)
        .run()
        .exits(0);
    sandbox.set_settings(&format!("without_grant = 'all'\n{SHARES}"));
    run("cudawrap -- sim-cuda").exits(0).says(&[]);
    sandbox.set_settings(&SHARES.replace("asked", "ungranted"));
    run("cudawrap -- sim-cuda").exits(0).says(&[]);
}

/// Slurm's daemon above a process, or its cgroup, tells its job.
#[test]
fn a_job_is_known_without_its_variables() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::with("gpus4", SHARES);
    let cluster = Cluster::start(&sandbox, 1, &slurm::hooks(&sandbox, ""));
    let hidden = "env -u SLURM_JOB_ID -u SLURM_JOBID -u SLURM_STEP_ID -u CUDA_VISIBLE_DEVICES";
    let show = format!(
        "getgpu --release-all; {hidden} cudawrap -- printenv CUDA_VISIBLE_DEVICES; echo $CUDA_VISIBLE_DEVICES"
    );
    let step = cluster.srun("-n1 --constraint=gpushare4");
    let said = as_nobody(step.args(["sh", "-c", &show])).run();
    let lines: Vec<&str> = said.exits(0).stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{said:#?}");
    said.mentions("left alone");
    let none = cluster
        .srun("-n1")
        .args(["sh", "-c", &format!("{hidden} cudawrap -- true")]);
    as_nobody(none)
        .run()
        .exits(125)
        .mentions("this job has no part of a GPU on this node");
    cluster.until_empty();
    sandbox.assert_clean();
}
