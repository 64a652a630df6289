//! Tasks that know nothing of the commands get a device each from TaskProlog, for as long
//! as they run.

use std::time::Duration;

use getgpu_tests::slurm::{self, Cluster, task_prolog};
use harness::{Outcome, Sandbox, wait};

use crate::task_calls::{ASKED, NOBODY, as_nobody, devices};

#[test]
fn plain_tasks_get_a_device_each_while_they_run() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let cluster = Cluster::start(&sandbox, 1, &task_prolog(&sandbox, "tasks = 'all'"));
    // Without a grant, in one, and in two of two.
    for jobs in [
        &["-n4"][..],
        &["-n4 --gres=gpu:4"],
        &["-n2 --gres=gpu:2", "-n2 --gres=gpu:2"],
    ] {
        let start = |words: &&str| {
            as_nobody(cluster.srun(&format!("{words} sim-cuda --until-file go"))).spawn()
        };
        let steps: Vec<_> = jobs.iter().map(start).collect();
        sandbox.until_running(4);
        assert_eq!(devices(&sandbox).len(), 4, "{jobs:?}");
        let holders = sandbox.holders();
        assert!(
            holders.len() == 4 && holders.iter().all(|holder| holder.uid == NOBODY),
            "{holders:?}"
        );
        let go = sandbox.file("work/go", "", 0o644);
        for step in steps {
            // What the hook printed was obeyed, and nothing of it reached the output.
            let outcome = step.wait();
            outcome.exits(0).says(&[]);
            assert!(
                outcome.stdout.lines().all(|line| line.starts_with("RUN ")),
                "{outcome:#?}"
            );
        }
        sandbox.assert_clean(Duration::from_secs(1));
        std::fs::remove_file(go).unwrap();
    }
    sandbox.assert_exclusive();
    // It goes with the process, whoever ends it.
    let step = cluster.srun("-n2 sim-cuda --run forever").spawn();
    sandbox.until_running(2);
    sandbox.kill_programs();
    wait::until_within(Duration::from_secs(1), "all is free", || !sandbox.locked());
    assert_ne!(step.wait().code(), Some(0));
}

#[test]
fn a_task_prolog_serves_tasks_that_ask_and_reports_failures() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    sandbox.set_settings(&format!("[slurm]\n{ASKED}"));
    let cluster = Cluster::start(&sandbox, 1, &task_prolog(&sandbox, ""));
    let show = |words: &str, wish: Option<&str>| {
        let command = cluster
            .srun(words)
            .args(["sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}"]);
        match wish {
            Some(wish) => command.env("GETGPU_SLURM", wish).run(),
            None => command.run(),
        }
    };
    show("-n1", None).answers("unset\n");
    show("-n1 --gres=gpu:2", Some("no")).answers("0,1\n");
    assert!(sandbox.uuids().contains(&show("-n1", Some("yes")).line()));
    let two = show("-n1 --gres=gpu:3", Some("-n 2")).line();
    assert!(
        two.split(',')
            .all(|uuid| sandbox.uuids()[..3].iter().any(|known| known == uuid)),
        "{two}"
    );
    // Eight parts of four devices.
    let step = cluster
        .srun("-n8 --gres=gpu:4 sim-cuda --until-file go --max 2")
        .env("GETGPU_SLURM", "--share 1/2")
        .spawn();
    sandbox.until_running(8);
    assert_eq!(devices(&sandbox).len(), 4);
    sandbox.file("work/go", "", 0o644);
    step.wait().exits(0).says(&[]);
    // Nothing is free.
    let _others = sandbox.occupy(&sandbox.uuids(), "");
    let hidden = |said: &Outcome, why: &str| {
        said.exits(0).prints("\n");
        let line = format!(
            "getgpu task-prolog: started without a GPU, CUDA_VISIBLE_DEVICES is empty: {why}"
        );
        assert!(
            said.stderr.starts_with(&line) && said.stderr.lines().count() == 1,
            "{said:#?}"
        );
    };
    hidden(&show("-n1", Some("yes")), "no free device: 4 of 4 in use");
    // In a grant, too: never all tasks on the first device.
    let said = show("-n2 --gres=gpu:2", Some("yes"));
    assert_eq!(
        (said.exits(0).stdout.as_str(), said.stderr.lines().count()),
        ("\n\n", 2),
        "{said:#?}"
    );
    // A wish that is no option, and characters that a shell would take for more.
    hidden(&show("-n1", Some("--share 1/2; id *")), "");
    // Another user than root may not open the task's stderr: Slurm brings the line to the
    // job.
    let asking = cluster.command(&["srun", "-n1", "sleep", "1"]);
    let said = as_nobody(asking.env("GETGPU_SLURM", "yes")).run();
    let line = "task 0: started without a GPU, CUDA_VISIBLE_DEVICES is empty: no free device";
    said.exits(0).prints("").mentions(line);
    // A batch script's output has the line, and all that the script writes.
    let job = cluster.sbatch("-n1 --export=ALL,GETGPU_SLURM=yes", "echo one; echo two");
    cluster.until_empty();
    let output = cluster.output(&job);
    assert!(
        output.contains("started without a GPU") && output.ends_with("\none\ntwo\n"),
        "{output}"
    );
    sandbox.set_settings(&format!("[slurm]\n{ASKED}\nstrict = true"));
    let asking = cluster.srun("-n1 echo started").env("GETGPU_SLURM", "yes");
    let refused = asking.run();
    let line = "getgpu task-prolog: not started: no free device";
    refused.exits(1).prints("").mentions(line);
}
