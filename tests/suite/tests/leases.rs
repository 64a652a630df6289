//! What cudawrap leases, whom it leaves alone, and how it ends when there is nothing to
//! have: under a link and under its own name.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use getgpu_tests::{OTHER, somebody};
use harness::skip::{self, Need};
use harness::{Running, Sandbox, Signal, wait};

/// sim-cuda as a wrapped program.
fn wrapped(sandbox: &Sandbox) -> PathBuf {
    let directory = sandbox.path("opt");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::hard_link(sandbox.path("bin/sim-cuda"), directory.join("CUDAWRAP_app")).unwrap();
    symlink(sandbox.path("bin/cudawrap"), directory.join("app")).unwrap();
    directory.join("app")
}

/// The first line of a simulated program, which comes just after its context.
fn first_line(program: &Running) -> String {
    wait::until("it has said where it runs", || {
        program.stdout().contains('\n')
    });
    program.stdout()
}

fn free(sandbox: &Sandbox) -> String {
    sandbox.getgpu(["--count-free"]).run().line()
}

#[test]
fn a_linked_program_says_nothing_and_has_a_device_of_its_own() {
    let sandbox = Sandbox::new("mig4");
    let app = wrapped(&sandbox);
    let running: Vec<_> = (0..4)
        .map(|_| sandbox.command(&app).args(["--run", "forever"]).spawn())
        .collect();
    sandbox.until_running(4);
    assert_eq!(free(&sandbox), "0");
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
fn a_device_that_the_variable_names_is_leased_in_every_form() {
    let sandbox = Sandbox::new("mig4");
    let app = wrapped(&sandbox);
    let listing: serde_json::Value =
        serde_json::from_str(&sandbox.getgpu(["-l", "--json"]).run().stdout).unwrap();
    let device = &listing["devices"][1];
    let uuid = device["uuid"].as_str().unwrap();
    let old = format!(
        "MIG-{}/{}/{}",
        device["gpu_uuid"].as_str().unwrap(),
        device["gpu_instance"],
        device["compute_instance"]
    );
    for value in [uuid.to_owned(), old] {
        for command in [
            sandbox.command(&app),
            sandbox.command("cudawrap").args(["--", "sim-cuda"]),
        ] {
            let program = command.args(["--run", "forever"]).visible(&value).spawn();
            sandbox.until_running(1);
            assert!(
                first_line(&program).starts_with(&format!("RUN {uuid}")),
                "{value}"
            );
            let outcome = somebody(&sandbox, &["--explain", "--no-reserve"]).run();
            outcome.mentions(&format!("{uuid} (GPU 0 MIG device 1): leased by "));
            drop(program);
            wait::until("it is over", || sandbox.running() == 0);
        }
    }
    let whole = Sandbox::new("gpus4");
    let app = wrapped(&whole);
    let prefix = &whole.uuids()[2][..12];
    for value in ["2", prefix] {
        let program = whole
            .command(&app)
            .args(["--run", "forever"])
            .visible(value)
            .spawn();
        whole.until_running(1);
        assert_eq!(free(&whole), "3", "{value}");
        whole
            .getgpu(["--explain", "--no-reserve"])
            .run()
            .mentions(&format!("{} (GPU 2): leased by ", whole.uuids()[2]));
        drop(program);
        wait::until("it is over", || whole.running() == 0);
    }
}

/// As much of the UUID as fits no other.
fn shortened(uuid: &str, all: &[String]) -> String {
    let fits = |length: &usize| {
        all.iter()
            .filter(|other| other.starts_with(&uuid[..*length]))
            .count()
            == 1
    };
    uuid[..(1..=uuid.len()).find(fits).unwrap()].to_owned()
}

#[test]
fn a_shortened_uuid_is_the_device_that_it_fits() {
    for inventory in ["mig4", "gpus4"] {
        let sandbox = Sandbox::new(inventory);
        let uuids = sandbox.uuids();
        let short = shortened(&uuids[2], &uuids);
        assert!(short.len() < uuids[2].len());
        let several = &short[..short.len() - 1];
        for value in [
            short.clone(),
            short.to_uppercase(),
            format!("{short},{several},{}", uuids[1]),
        ] {
            assert_eq!(
                sandbox
                    .getgpu(["--no-reserve"])
                    .visible(&value)
                    .run()
                    .line(),
                uuids[2],
                "{value}"
            );
            let shown = sandbox
                .command("cudawrap")
                .args(["--", "printenv", "CUDA_VISIBLE_DEVICES"])
                .visible(&value);
            assert_eq!(shown.run().exits(0).line(), uuids[2], "{value}");
        }
        for value in [several, "bogus", "0x0"] {
            let outcome = sandbox.getgpu(["--no-reserve"]).visible(value).run();
            outcome.exits(3).prints("").mentions(&format!(
                "CUDA_VISIBLE_DEVICES={value}: no such device on this node"
            ));
        }
    }
}

#[test]
fn several_devices_or_none_are_run_as_they_are_under_a_link() {
    let sandbox = Sandbox::new("mig4");
    let app = wrapped(&sandbox);
    let uuids = sandbox.uuids();
    let both = format!("{},{}", uuids[0], uuids[1]);
    let program = sandbox
        .command(&app)
        .args(["--run", "forever"])
        .visible(&both)
        .spawn();
    sandbox.until_running(1);
    assert!(!sandbox.locked(), "nothing is leased");
    drop(program);
    for value in ["", "-1"] {
        sandbox
            .command(&app)
            .visible(value)
            .run()
            .exits(100)
            .prints("NODEVICE\n")
            .says(&[]);
        sandbox
            .command("cudawrap")
            .args(["--", "true"])
            .visible(value)
            .run()
            .exits(125)
            .mentions("it names no device");
    }
    let gone = "MIG-GPU-7a1b2c3d-0001-5abc-8def-000000000009/1/0";
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .visible(gone)
        .run();
    outcome
        .exits(125)
        .mentions(": no such device on this node")
        .mentions("re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again");
}

#[test]
fn a_named_device_that_somebody_has_is_said_and_run_or_refused() {
    let sandbox = Sandbox::new("mig4");
    let app = wrapped(&sandbox);
    let reserved = somebody(&sandbox, &["--for=60"]).run().line();
    let root = nix::unistd::geteuid().is_root();
    if root {
        let outcome = sandbox.command(&app).visible(&reserved).run();
        outcome
            .exits(0)
            .mentions(&format!("cudawrap: {reserved}: in use by "));
        outcome.mentions("running there because CUDA_VISIBLE_DEVICES names it");
        sandbox.set_settings("when_taken = 'fail'");
        sandbox
            .command(&app)
            .visible(&reserved)
            .run()
            .exits(75)
            .prints("");
        sandbox.set_settings("");
    }
    // Under its own name another user's reservation is as good as a lease; one of our own
    // is used.
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda"])
        .visible(&reserved)
        .run();
    if root {
        outcome
            .exits(75)
            .mentions(&format!("cudawrap: {reserved}: in use by "))
            .prints("");
    } else {
        outcome.exits(0).says(&[]);
    }
    let lessee = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--shared", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let leased = first_line(&lessee).split(' ').nth(1).unwrap().to_owned();
    let outcome = sandbox
        .command(&app)
        .args(["--shared"])
        .visible(&leased)
        .run();
    outcome.exits(0).mentions(&format!(
        "(pid {}, sim-cuda): running there because",
        lessee.pid()
    ));
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .visible(&leased)
        .run();
    outcome
        .exits(75)
        .mentions(&format!("cudawrap: {leased}: in use by "));
}

#[test]
fn nested_calls_stay_on_one_device() {
    let sandbox = Sandbox::new("mig4");
    let app = wrapped(&sandbox);
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
        assert_eq!(free(&sandbox), "3", "{shell}");
        assert!(sandbox.locked(), "{shell}");
        drop(program);
        wait::until("free again", || free(&sandbox) == "4");
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

#[test]
fn a_node_without_gpus_runs_linked_programs_as_they_are() {
    let sandbox = Sandbox::new("none");
    let app = wrapped(&sandbox);
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
    let app = wrapped(&sandbox);
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
    let app = wrapped(&sandbox);
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
    sandbox.set_settings("allowed_file = '/nowhere'\nnewer = 1");
    sandbox
        .command(&app)
        .run()
        .exits(0)
        .mentions("config.toml:2:1: unknown setting `newer`");
    sandbox
        .command("cudawrap")
        .args(["sim-cuda"])
        .run()
        .exits(125)
        .mentions("config.toml:2:1: unknown setting `newer`");
}

#[test]
fn another_users_program_is_named_in_the_message() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let program = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .uid(OTHER)
        .spawn();
    sandbox.until_running(1);
    let outcome = sandbox
        .getgpu(["--no-reserve"])
        .visible(first_line(&program).split(' ').nth(1).unwrap())
        .run();
    outcome.exits(1).mentions(&format!(
        "getgpu: no free device: 1 of 1 in use ({OTHER} 1)"
    ));
}
