//! `torchrun --no_python cudawrap -- python3 train.py`: ranks are on different devices and
//! find each other.

use std::time::Duration;

use getgpu_tests::assert_devices;
use harness::Sandbox;
use harness::skip::Need;

/// `cuda:0` of every rank is its own device, and the ranks talk to each other as without.
#[test]
fn a_training_script_sees_one_device_and_all_ranks() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("torchrun")], "gpus4", "") else {
        return;
    };
    let text = "import os, torch.distributed as d\nd.init_process_group('gloo')\nall = [None] * d.get_world_size()\n\
                d.all_gather_object(all, os.environ['CUDA_VISIBLE_DEVICES'])\nif d.get_rank() == 0: print(*all)\n";
    let script = sandbox.file("work/train.py", text, 0o644);
    // The ranks' standard output goes into files and to the terminal: torch 1.13 cannot leave
    // it alone under Python 3.11 (which Debian 12 has).
    let words = "torchrun --standalone --redirects 1 --tee 1 --log_dir logs --nproc_per_node 4 \
                 --no_python cudawrap -- /usr/bin/python3";
    let command = sandbox.words(words).args([script]);
    let outcome = command.limit(Duration::from_secs(120)).run();
    let mut lines = outcome.exits(0).stdout.lines();
    let line = lines.find_map(|line| line.strip_prefix("[default0]:"));
    let seen: Vec<String> = line.unwrap().split(' ').map(str::to_owned).collect();
    assert_devices(&seen, &sandbox.uuids());
    sandbox.assert_clean();
}
