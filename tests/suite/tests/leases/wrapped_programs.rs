//! A wrapped program leases a device of its own, keeps it through shells and children,
//! and does not run if no device can be leased.

use std::time::Duration;

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap;
use harness::skip::{self, Need};
use harness::{Outcome, Sandbox, Signal, wait};

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
    let outcome = sandbox.command(&app).run();
    outcome
        .exits(75)
        .prints("")
        .mentions("cudawrap: no free device: 4 of 4 in use (");
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .run()
        .exits(75)
        .mentions("cudawrap: no free device: 4 of 4 in use (");
    drop(running);
    sandbox.assert_clean(Duration::from_secs(5));
}

#[test]
fn nested_calls_stay_on_one_device() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let script = format!(
        "cudawrap -- sim-cuda; {} ; CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda; getgpu",
        app.display()
    );
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "sh", "-c", &script])
        .limit(Duration::from_secs(20))
        .run();
    let lines: Vec<&str> = outcome.exits(0).says(&[]).stdout.lines().collect();
    let device = lines[3];
    assert!(
        lines[..3]
            .iter()
            .all(|line| line.starts_with(&format!("RUN {device} "))),
        "{lines:?}"
    );
    // A program that closed its descriptors starts others: the lease is gone, and there
    // is no deadlock.
    let script = format!(
        "exec 3>&- ; for fd in /proc/self/fd/*; do n=${{fd##*/}}; [ $n -gt 2 ] && eval \"exec $n>&-\"; done 2>/dev/null; {}",
        app.display()
    );
    sandbox
        .command("cudawrap")
        .args(["--", "bash", "-c", &script])
        .limit(Duration::from_secs(20))
        .run()
        .exits(0);
    let own = "export CUDA_VISIBLE_DEVICES=$(getgpu); cudawrap -- sim-cuda; APP; getgpu"
        .replace("APP", &app.display().to_string());
    let outcome = sandbox.shell("bash", &own).run();
    assert_eq!(outcome.exits(0).says(&[]).stdout.lines().count(), 3);
}

#[test]
fn a_lease_outlives_shells_that_close_low_descriptors_and_ends_with_its_last_process() {
    let sandbox = Sandbox::new("mig4");
    for shell in ["bash", "tcsh", "zsh", "dash"] {
        if skip::lacks(&[Need::Tool(shell)]) {
            continue;
        }
        let script = match shell {
            "tcsh" => "sim-cuda --run forever",
            _ => "exec 3>/dev/null; sim-cuda --run forever; true",
        };
        let program = sandbox
            .command("cudawrap")
            .args(["--", shell, "-c", script])
            .spawn();
        sandbox.until_running(1);
        assert_eq!(listing::free_devices(&sandbox), "3", "{shell}");
        assert!(sandbox.locked(), "{shell}");
        drop(program);
        wait::until("free again", || listing::free_devices(&sandbox) == "4");
    }
    let script = "sim-cuda --run forever & echo $! ; exit 0";
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "sh", "-c", script])
        .run();
    assert!(sandbox.locked(), "a child that goes on holds it");
    let child: i32 = outcome
        .stdout
        .lines()
        .find_map(|line| line.parse().ok())
        .unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), Signal::SIGKILL).unwrap();
    wait::until("free again", || !sandbox.locked());
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
    command.run().refuses(
        "cudawrap",
        125,
        "cannot be opened: No such file or directory",
    );
}

#[test]
fn a_node_without_gpus_runs_linked_programs_unchanged() {
    let sandbox = Sandbox::new("none");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let no_driver = |command: harness::Command| command.env_remove("SIM_NODE");
    no_driver(sandbox.command(&app)).run().says(&[]);
    no_driver(sandbox.command("cudawrap").args(["--", "true"]))
        .run()
        .exits(125)
        .says(&["cudawrap: no NVIDIA driver on this node"]);
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
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
        .command("cudawrap")
        .args(["--", "true"])
        .env("SLURM_JOB_ID", "7")
        .run()
        .exits(125)
        .mentions("this job was given no GPU");
}

#[test]
fn a_library_that_is_missing_or_hangs_is_125_and_the_program_never_runs() {
    let sandbox = Sandbox::builder("mig4")
        .settings("nvml_timeout = '500ms'")
        .build();
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let ran = || sandbox.folder().runs().unwrap().len();
    for function in [
        "nvmlInit_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlShutdown",
    ] {
        sandbox.faults(&format!(
            "[[rule]]\nfunction = '{function}'\ndoes = 'hang'\n"
        ));
        for command in [
            sandbox.command(&app),
            sandbox.command("cudawrap").args(["--", "sim-cuda"]),
        ] {
            let outcome = command.run();
            outcome
                .exits(125)
                .prints("")
                .mentions("cudawrap: NVML did not answer within 0.5 s");
            assert!(
                outcome.elapsed < Duration::from_millis(1500),
                "{function}: {:?}",
                outcome.elapsed
            );
            assert!(!sandbox.locked(), "{function}");
        }
    }
    assert_eq!(ran(), 0);
    sandbox.faults("");
    let program = sandbox.command(&app).args(["--run", "forever"]).spawn();
    sandbox.until_running(1);
    drop(program);
    sandbox.assert_clean(Duration::from_secs(5));
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    std::fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
    for command in [app.display().to_string(), "cudawrap -- sim-cuda".to_owned()] {
        let script = format!(
            "mount -t tmpfs driver /proc/driver && mkdir /proc/driver/nvidia && echo x > /proc/driver/nvidia/version && \
             mount -t tmpfs -o mode=755 dev /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && \
             mknod -m 666 /dev/nvidia0 c 195 0 && {command}"
        );
        let outcome = sandbox
            .command("unshare")
            .args(["-m", "sh", "-c", &script])
            .run();
        outcome
            .exits(125)
            .prints("")
            .mentions("cudawrap: cannot load libnvidia-ml.so.1: ");
    }
}

#[test]
fn killing_cudawrap_while_the_library_hangs_leaves_no_process() {
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = 'nvmlInit_v2'\ndoes = 'hang'\n");
    let folder = sandbox.folder();
    folder.log_calls().unwrap();
    let asked = || {
        folder
            .calls()
            .unwrap()
            .iter()
            .any(|call| call.function == "nvmlInit_v2")
    };
    for signal in [
        Signal::SIGKILL,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        folder.log_calls().unwrap();
        let program = sandbox.command("cudawrap").args(["--", "true"]).spawn();
        wait::until("the helper asks", asked);
        program.signal(signal);
        assert_eq!(program.wait().signal(), Some(signal as i32));
        wait::until("nothing is left", || sandbox.processes().is_empty());
    }
}

#[test]
fn variables_and_options_are_checked() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    sandbox
        .command(&app)
        .env("CUDAWRAP_TYPE", "migs")
        .run()
        .exits(125)
        .mentions("CUDAWRAP_TYPE: migs: not one of auto, mig, gpu, any");
    sandbox
        .command(&app)
        .env("CUDAWRAP_TYPE", "gpu")
        .run()
        .exits(125)
        .mentions("no device of the request exists here");
    let both = sandbox
        .command("cudawrap")
        .args(["--type", "mig", "sim-cuda"])
        .env("CUDAWRAP_TYPE", "gpu");
    both.run().exits(0).says(&[]);
    for command in [
        sandbox.command(&app),
        sandbox.command("cudawrap").args(["sim-cuda"]),
    ] {
        let outcome = command
            .env("CUDAWRAP_DISABLE", "1")
            .env_remove("SIM_NODE")
            .run();
        outcome.says(&[]);
    }
    sandbox
        .command("cudawrap")
        .args(["--wait", "30", "true"])
        .run()
        .exits(125)
        .prints("")
        .mentions("cudawrap: --wait 30: 30 would be the program");
    for newer in ["newer = { x = 1 }", "newer = 1979-05-27", "newer = 1"] {
        sandbox.set_settings(&format!("allowed_file = '/nowhere'\n{newer}"));
        sandbox
            .command(&app)
            .run()
            .exits(0)
            .mentions("config.toml:2:1: unknown setting `newer`");
    }
    sandbox
        .command("cudawrap")
        .args(["sim-cuda"])
        .run()
        .exits(125)
        .mentions("config.toml:2:1: unknown setting `newer`");
}
