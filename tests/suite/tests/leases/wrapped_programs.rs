//! A wrapped program leases a device of its own, keeps it through shells and children,
//! and does not run if no device can be leased.

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap;
use harness::{Sandbox, Terminal};

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
    sandbox.assert_clean();
}

/// A node without GPUs need not have what the lock needs, such as a directory of the site.
#[test]
fn a_node_without_gpus_runs_linked_programs_whatever_the_lock_is() {
    let sandbox = Sandbox::new("none");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let ways = [
        "GETGPU_LOCK=@/absent/lock @/opt/app",
        "GETGPU_LOCK=@/absent/lock CUDA_VISIBLE_DEVICES=0 @/opt/app",
        "GETGPU_LOCK=@/absent/lock env -u SIM_NODE @/opt/app",
    ];
    for way in ways {
        // As sim-cuda itself says and ends.
        sandbox.words(way).run().exits(100).says(&[]);
    }
    for (start, what) in [("env -u SIM_NODE", "driver"), ("env", "GPU")] {
        let outcome = sandbox.words(&format!("{start} cudawrap -- true")).run();
        let line = format!("cudawrap: no NVIDIA {what} on this node");
        outcome.exits(125).says(&[&line]);
    }
    sandbox.set_settings("when_no_gpu = 'fail'");
    sandbox.refuses(&ways.map(|way| (way, 125, "cudawrap: no NVIDIA ")));
    sandbox.set_settings("without_grant = 'none'");
    sandbox.words("SLURM_JOB_ID=7 @/opt/app").run().says(&[]);
    let job = "SLURM_JOB_ID=7 cudawrap -- true";
    sandbox.refuses(&[(job, 125, "this job was given no GPU")]);
    let with_gpus = Sandbox::new("mig4");
    wrap(&with_gpus, "opt", "app", "sim-cuda");
    let line = "cannot be opened: No such file or directory";
    with_gpus.refuses(&[(ways[0], 125, line)]);
}

/// It would run on the first GPU, beside the job that was given it.
#[test]
fn a_linked_program_in_a_job_without_a_gpu_sees_none() {
    let sandbox = Sandbox::with("gpus4", "without_grant = 'none'");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    wrap(&sandbox, "opt", "tell", "probe");
    for job in [
        "SLURM_JOB_ID=7",
        "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1",
        "PBS_JOBID=7",
    ] {
        for without in ["", " CUDAWRAP_IGNORE_GRANT=1"] {
            let start = format!("{job}{without}");
            let program = sandbox.words(&format!("{start} @/opt/app")).run();
            program.exits(100).says(&[]);
            let told = sandbox.words(&format!("{start} @/opt/tell env")).run();
            let visible = told.exits(0).stdout.lines();
            let visible: Vec<&str> = visible
                .filter(|line| line.contains("CUDA_VISIBLE"))
                .collect();
            assert_eq!(visible, ["env CUDA_VISIBLE_DEVICES "], "{start}");
        }
    }
    assert_eq!(sandbox.folder().runs().unwrap().len(), 0);
    let terminal = Terminal::new(200, 24);
    let shown = sandbox
        .words("SLURM_JOB_ID=7 @/opt/app")
        .stderr(terminal.slave());
    shown.run().exits(100);
    let text = terminal.rest();
    assert!(
        text.contains("this job was given no GPU: the program sees none"),
        "{text}"
    );
    assert!(
        text.contains("hint: ask the batch system for one"),
        "{text}"
    );
    // What the job was given is used.
    let granted = sandbox.words("SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=2 @/opt/app");
    granted.run().exits(0);
    sandbox.set_settings("without_grant = 'none'\nwhen_no_gpu = 'fail'");
    let refused = [("SLURM_JOB_ID=7 @/opt/app", 125, "this job was given no GPU")];
    sandbox.refuses(&refused);
    sandbox.assert_clean();
}

#[test]
fn a_hanging_library_is_125_and_no_program_runs() {
    let sandbox = Sandbox::with("mig4", "nvml_timeout = '500ms'");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    #[rustfmt::skip]
    let functions = [
        "Init_v2", "DeviceGetUUID", "DeviceGetComputeRunningProcesses_v3", "Shutdown",
    ];
    for function in functions {
        sandbox.faults(&format!(
            "[[rule]]\nfunction = 'nvml{function}'\ndoes = 'hang'\n"
        ));
        for line in ["@/opt/app", "cudawrap -- sim-cuda"] {
            let outcome = sandbox.words(line).run();
            outcome.refuses(125, "did not answer within 0.");
            assert!(!sandbox.locked(), "{function}");
        }
    }
    assert_eq!(sandbox.runs().len(), 0);
}

#[test]
fn variables_and_options_are_checked() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    #[rustfmt::skip]
    let cases = [
        ("CUDAWRAP_TYPE=migs @/opt/app", 125, "CUDAWRAP_TYPE: migs: not one of auto, mig, gpu, any"),
        ("CUDAWRAP_TYPE=gpu @/opt/app", 125, "no device of the request exists here"),
        ("cudawrap --wait 30 true", 125, "cudawrap: --wait 30: 30 would be the program"),
    ];
    sandbox.refuses(&cases);
    let both = "CUDAWRAP_TYPE=gpu cudawrap --type mig sim-cuda";
    sandbox.words(both).run().exits(0).says(&[]);
    for program in ["@/opt/app", "cudawrap sim-cuda"] {
        let line = format!("CUDAWRAP_DISABLE=1 env -u SIM_NODE {program}");
        sandbox.words(&line).run().says(&[]);
    }
    // It is the way around wrong settings.
    sandbox.set_settings("type = 'migs'");
    let line = "config.toml:2:8: `type`: migs: not one of auto";
    sandbox.refuses(&[("@/opt/app", 125, line)]);
    let disabled = sandbox.words("CUDAWRAP_DISABLE=1 env -u SIM_NODE @/opt/app");
    disabled.run().says(&[]);
    let line = "config.toml:2:1: unknown setting `newer`";
    for newer in ["newer = { x = 1 }", "newer = 1979-05-27", "newer = 1"] {
        sandbox.set_settings(&format!("allowed_file = '/nowhere'\n{newer}"));
        sandbox.words("@/opt/app").run().exits(0).says(&[]);
    }
    sandbox.refuses(&[("cudawrap sim-cuda", 125, line)]);
}
