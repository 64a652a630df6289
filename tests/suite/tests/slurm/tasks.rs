//! What a real Slurm makes of the TaskProlog's lines: where they go for root, for other users
//! and for batch scripts, and that `strict` keeps a task from starting.

use getgpu_tests::slurm::{self, Cluster, task_prolog};
use harness::{Outcome, Sandbox};

use crate::task_calls::{ASKED, as_nobody};
use crate::task_prolog_call::HIDDEN;

#[test]
fn a_task_prolog_serves_tasks_that_ask_and_reports_failures() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    sandbox.set_settings(&format!("[slurm]\n{ASKED}"));
    let cluster = Cluster::start(&sandbox, 1, &task_prolog(&sandbox, ""));
    let show = |words: &str, wish: Option<&str>| {
        let task = ["sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}"];
        let command = cluster.srun(words).args(task);
        match wish {
            Some(wish) => command.env("GETGPU_SLURM", wish).run(),
            None => command.run(),
        }
    };
    show("-n1", None).answers("unset\n");
    show("-n1 --gres=gpu:2", Some("no")).answers("0,1\n");
    assert!(sandbox.uuids().contains(&show("-n1", Some("yes")).line()));
    // Nothing is free.
    let _others = sandbox.occupy(&sandbox.uuids(), "");
    let hidden = |said: &Outcome, why: &str| {
        said.exits(0).prints("\n");
        let line = format!("{HIDDEN}{why}");
        let only = said.stderr.lines().count() == 1 && said.stderr.starts_with(&line);
        assert!(only, "{said:#?}");
    };
    hidden(&show("-n1", Some("yes")), "no free device: 4 of 4 in use");
    // In a grant, too: never all tasks on the first device.
    let said = show("-n2 --gres=gpu:2", Some("yes"));
    said.exits(0).prints("\n\n");
    assert_eq!(said.stderr.lines().count(), 2, "{said:#?}");
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
    let told = output.contains("started without a GPU") && output.ends_with("\none\ntwo\n");
    assert!(told, "{output}");
    sandbox.set_settings(&format!("[slurm]\n{ASKED}\nstrict = true"));
    let asking = cluster.srun("-n1 echo started").env("GETGPU_SLURM", "yes");
    let refused = asking.run();
    let line = "getgpu task-prolog: not started: no free device";
    refused.exits(1).prints("").mentions(line);
}
