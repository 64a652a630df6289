//! A wrapped program leases a device of its own, keeps it through shells and children,
//! and does not run if no device can be leased.

use std::time::Duration;

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap;
use harness::{Outcome, Sandbox, wait};

#[test]
fn a_linked_program_says_nothing_and_has_a_device_of_its_own() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let running: Vec<_> = (0..4)
        .map(|_| sandbox.command(&app).args(["--run", "forever"]).spawn())
        .collect();
    sandbox.until_running(4);
    assert_eq!(listing::free_devices(&sandbox), "0");
    for program in &running {
        assert_eq!(program.stderr(), "");
    }
    for command in [sandbox.command(&app), sandbox.words("cudawrap -- true")] {
        let line = "no free device: 4 of 4 in use (";
        command.run().refuses(75, line);
    }
    drop(running);
    sandbox.assert_clean(Duration::from_secs(5));
}

/// A node without GPUs need not have what the lock needs, such as a directory of the site.
#[test]
fn a_lock_that_cannot_be_used_matters_only_where_there_is_a_gpu() {
    let sandbox = Sandbox::new("none");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let lock = sandbox.path("absent/lock");
    let ways = |what: &dyn Fn(&Outcome)| {
        let unset = sandbox.command(&app).env("GETGPU_LOCK", &lock);
        what(&unset.run());
        let named = sandbox.command(&app).env("GETGPU_LOCK", &lock);
        what(&named.visible("0").run());
        let no_driver = sandbox.command(&app).env("GETGPU_LOCK", &lock);
        what(&no_driver.env_remove("SIM_NODE").run());
    };
    // As sim-cuda itself says and ends.
    ways(&|outcome| assert_eq!(outcome.exits(100).stderr, "", "{outcome:#?}"));
    sandbox.set_settings("when_no_gpu = 'fail'");
    ways(&|outcome| {
        outcome.exits(125).mentions("cudawrap: no NVIDIA ");
    });
    let with_gpus = Sandbox::new("mig4");
    let app = wrap(&with_gpus, "opt", "app", "sim-cuda");
    let command = with_gpus.command(&app).env("GETGPU_LOCK", &lock);
    command
        .run()
        .refuses(125, "cannot be opened: No such file or directory");
}

#[test]
fn a_node_without_gpus_runs_linked_programs_unchanged() {
    let sandbox = Sandbox::new("none");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let no_driver = |command: harness::Command| command.env_remove("SIM_NODE");
    no_driver(sandbox.command(&app)).run().says(&[]);
    no_driver(sandbox.words("cudawrap -- true"))
        .run()
        .exits(125)
        .says(&["cudawrap: no NVIDIA driver on this node"]);
    sandbox
        .words("cudawrap -- true")
        .run()
        .exits(125)
        .says(&["cudawrap: no NVIDIA GPU on this node"]);
    sandbox.set_settings("when_no_gpu = 'fail'");
    no_driver(sandbox.command(&app))
        .run()
        .exits(125)
        .says(&["cudawrap: no NVIDIA driver on this node"]);
    sandbox.set_settings("without_grant = 'none'");
    sandbox
        .command(&app)
        .env("SLURM_JOB_ID", "7")
        .run()
        .says(&[]);
    sandbox
        .words("cudawrap -- true")
        .env("SLURM_JOB_ID", "7")
        .run()
        .refuses(125, "this job was given no GPU");
}

#[test]
fn a_hanging_library_is_125_and_no_program_runs() {
    let sandbox = Sandbox::with("mig4", "nvml_timeout = '500ms'");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    for function in [
        "nvmlInit_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlShutdown",
    ] {
        sandbox.faults(&format!(
            "[[rule]]\nfunction = '{function}'\ndoes = 'hang'\n"
        ));
        for command in [sandbox.command(&app), sandbox.words("cudawrap -- sim-cuda")] {
            let outcome = command.run();
            outcome.refuses(125, "NVML did not answer within 0.5 s");
            outcome.within(wait::SOON);
            assert!(!sandbox.locked(), "{function}");
        }
    }
    assert_eq!(sandbox.runs().len(), 0);
}

#[test]
fn variables_and_options_are_checked() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    sandbox
        .command(&app)
        .env("CUDAWRAP_TYPE", "migs")
        .run()
        .refuses(125, "CUDAWRAP_TYPE: migs: not one of auto, mig, gpu, any");
    sandbox
        .command(&app)
        .env("CUDAWRAP_TYPE", "gpu")
        .run()
        .refuses(125, "no device of the request exists here");
    let both = sandbox
        .words("cudawrap --type mig sim-cuda")
        .env("CUDAWRAP_TYPE", "gpu");
    both.run().exits(0).says(&[]);
    for command in [sandbox.command(&app), sandbox.words("cudawrap sim-cuda")] {
        let outcome = command
            .env("CUDAWRAP_DISABLE", "1")
            .env_remove("SIM_NODE")
            .run();
        outcome.says(&[]);
    }
    sandbox
        .words("cudawrap --wait 30 true")
        .run()
        .refuses(125, "cudawrap: --wait 30: 30 would be the program");
    for newer in ["newer = { x = 1 }", "newer = 1979-05-27", "newer = 1"] {
        sandbox.set_settings(&format!("allowed_file = '/nowhere'\n{newer}"));
        sandbox
            .command(&app)
            .run()
            .exits(0)
            .mentions("config.toml:2:1: unknown setting `newer`");
    }
    sandbox
        .words("cudawrap sim-cuda")
        .run()
        .refuses(125, "config.toml:2:1: unknown setting `newer`");
}
