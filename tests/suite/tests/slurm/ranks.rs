//! Every `cudawrap -- program` of a step gets its own device of the job's grant, or an
//! even share of one. Inside a batch script the launcher's own numbers count, not
//! Slurm's.

use std::time::Duration;

use getgpu_tests::loads;
use getgpu_tests::slurm::{self, Cluster};
use harness::Sandbox;

#[test]
fn ranks_under_srun_get_one_device_each_or_even_parts() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let cluster = Cluster::start(&sandbox, 1, "");
    for (ranks, gpus, expected) in [
        (4, "--gres=gpu:4", [1, 1, 1, 1]),
        (8, "--gres=gpu:4", [2, 2, 2, 2]),
        (6, "--gres=gpu:4", [1, 1, 2, 2]),
        (3, "--gres=gpu:4", [0, 1, 1, 1]),
        (4, "--gpus-per-task=1", [1, 1, 1, 1]),
        (4, "", [1, 1, 1, 1]),
    ] {
        let rank = format!("cudawrap -- sim-cuda --until-file go --max {}", expected[3]);
        let step = cluster.srun(&format!("-n{ranks} {gpus} {rank}")).spawn();
        sandbox.until_running(ranks);
        let mut found: Vec<usize> = loads(&sandbox).into_values().collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{ranks} ranks {gpus}");
        let go = sandbox.file("work/go", "", 0o644);
        let said = step.wait();
        std::fs::remove_file(go).unwrap();
        // Uneven counts are reported once.
        let uneven = usize::from(!gpus.is_empty() && 4 % ranks != 0 && ranks % 4 != 0);
        let lines = said.exits(0).stderr.matches(" ranks on 4 devices: ");
        assert_eq!(lines.count(), uneven, "{said:?}");
    }
    assert_eq!(sandbox.collisions().len(), 0);
    sandbox.assert_clean(Duration::from_secs(1));
}
