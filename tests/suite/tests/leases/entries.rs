//! CUDA_VISIBLE_DEVICES is read as CUDA reads it, and what can name no device is told with its
//! reason.

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{first_line, listing};
use harness::{Sandbox, wait};

/// CUDA reads the leading digits of an entry, and so does what leases the device.
#[test]
fn a_number_counts_as_cuda_counts_it() {
    let sandbox = Sandbox::new("gpus4");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let uuid = &sandbox.uuids()[1];
    for value in ["1:2", "1 2", "1-2", "1;2", "1.0", "+1"] {
        for start in ["@/opt/app", "cudawrap -- sim-cuda"] {
            let command = sandbox.words(&format!("{start} --run forever"));
            let program = command.visible(value).spawn();
            assert!(
                first_line(&program).starts_with(&format!("RUN {uuid}")),
                "{value}"
            );
            assert_eq!(listing::free_devices(&sandbox), "3", "{value}");
            drop(program);
            wait::until("it has exited", || sandbox.running() == 0);
        }
    }
}

/// crontab and supervisors start programs without a shell.
#[test]
fn a_substitution_that_no_shell_made_is_named() {
    let sandbox = Sandbox::new("gpus4");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let said = "CUDA_VISIBLE_DEVICES=$(getgpu): no shell expanded this";
    let run = sandbox.words("cudawrap -- sim-cuda").visible("$(getgpu)");
    let refused = run.run();
    refused.mentions(said).mentions("cudawrap -- PROGRAM");
    assert_eq!(refused.code(), Some(125), "{refused:#?}");
    let run = sandbox.words("@/opt/app").visible("$(getgpu)").run();
    run.mentions(&format!("{said}: the program runs on what"));
}

#[test]
fn a_gpu_in_mig_mode_without_mig_devices_is_named() {
    let node = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n";
    let sandbox = Sandbox::new(node);
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let said = "CUDA_VISIBLE_DEVICES=1: GPU 1 is in MIG mode and has no MIG devices";
    for start in ["@/opt/app", "cudawrap -- sim-cuda", "getgpu"] {
        sandbox.words(start).visible("1").run().mentions(said);
    }
}
