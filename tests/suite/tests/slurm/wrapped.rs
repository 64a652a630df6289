//! Wrapped programs in a job with several devices, whose users start them as before: each has a
//! device of its own, whether they are tasks of a step or run in the background of a script.

use std::collections::BTreeSet;

use getgpu_tests::slurm::{self, Cluster};
use getgpu_tests::wrapped::wrap;
use harness::Sandbox;

use crate::task_calls::devices;

#[test]
fn wrapped_programs_of_a_job_never_meet_on_a_device() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let uuids = sandbox.uuids();
    let cluster = Cluster::start(&sandbox, 1, "");
    let granted: BTreeSet<String> = uuids[..2].iter().cloned().collect();
    let app = format!("{} --until-file go", app.display());
    let step = cluster.srun(&format!("-n2 --gres=gpu:2 {app}")).spawn();
    sandbox.until_running(2);
    assert_eq!(devices(&sandbox), granted);
    sandbox.file("work/go", "", 0o644);
    step.wait().exits(0).says(&[]);
    std::fs::remove_file(sandbox.path("work/go")).unwrap();
    // A third one finds none.
    let script = format!("{app} & {app} & while ! [ -e both ]; do sleep 0.02; done; {app}; wait");
    let job = cluster.sbatch("-n1 --gres=gpu:2", &script);
    sandbox.until_running(2);
    assert_eq!(devices(&sandbox), granted);
    sandbox.file("work/both", "", 0o644);
    harness::wait::until("the third one was refused", || {
        cluster
            .output(&job)
            .contains("no free device: 2 of 2 in use")
    });
    sandbox.file("work/go", "", 0o644);
    cluster.until_empty();
    sandbox.assert_clean();
    assert!(sandbox.collisions().is_empty());
}
