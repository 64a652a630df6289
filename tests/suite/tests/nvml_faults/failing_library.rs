//! A library that hangs, crashes, lies or is missing. One sick GPU never stops the others;
//! the faults are tried in the functions that this version calls.

use std::collections::BTreeSet;

use getgpu_tests::{assert_devices, listing, until_none_is_free};
use harness::{Damage, Outcome, Sandbox, skip, wait};

const TWO_GPUS: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 2\nmig = true\nlayout = '7x1g.5gb'\n";

/// The driver's files in /proc, of which containers see the host's, in a mount namespace
/// of one's own.
const DRIVER: &str = "mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && : >/proc/driver/nvidia/version";

/// A GPU's node in /dev. It is never opened.
const NODES: &str =
    "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && mknod /dev/nvidia0 c 195 0";

/// Calls whose failure says nothing of the device, but for a GPU that is lost
/// (`sick_gpus`).
const HEALTH: [&str; 2] = ["nvmlDeviceGetComputeMode", "nvmlDeviceGetFieldValues"];

/// The functions that a call with these arguments uses.
fn functions(arguments: &[&str]) -> BTreeSet<String> {
    let sandbox = Sandbox::new(TWO_GPUS);
    sandbox.log_calls();
    sandbox.getgpu(arguments).run().exits(0);
    let calls = sandbox.calls();
    let names = calls.into_iter().map(|call| call.function);
    let names: BTreeSet<String> = names.filter(|name| name != "attach").collect();
    assert!(names.len() >= 5, "{names:?}");
    names
}

fn rule(function: &str, what: &str) -> String {
    format!("[[rule]]\nfunction = '{function}'\n{what}\n")
}

/// Every function of `arguments`, each in a sandbox of its own where it does `what`; all
/// at once, since they take time.
fn each_function(arguments: &[&str], settings: &str, what: &str) -> Vec<(Sandbox, Outcome)> {
    let start = |function: String| {
        let sandbox = Sandbox::with("a100x1", settings);
        sandbox.faults(&rule(&function, what));
        let running = sandbox.getgpu(arguments).spawn();
        (sandbox, running)
    };
    let started: Vec<_> = functions(arguments).into_iter().map(start).collect();
    let started = started.into_iter();
    started
        .map(|(sandbox, running)| (sandbox, running.wait()))
        .collect()
}

#[test]
fn a_library_that_hangs_or_crashes_is_given_up_in_time() {
    let (silent, failed) = (
        "did not answer within ",
        "the process that asks NVML failed",
    );
    #[rustfmt::skip]
    let faults = [
        ("does = 'hang'", silent), ("does = 'stop'", silent), ("does = 'abort'", failed),
    ];
    for arguments in [&[][..], &["--list"], &["--count-free"], &["0"]] {
        for (what, line) in faults {
            for (sandbox, outcome) in each_function(arguments, "nvml_timeout = 1", what) {
                // Once the devices are named, only what they do is unknown.
                match (outcome.code(), arguments) {
                    (Some(0), ["--list"]) => drop(outcome.shows("unknown").shows(line)),
                    (Some(0), ["--count-free"]) => drop(outcome.prints("0\n")),
                    (Some(0), ["0"]) => drop(outcome.mentions(line)),
                    _ => drop(outcome.refuses(3, line).mentions("getgpu: hint: ")),
                }
                sandbox.assert_clean();
                wait::until("no process is left", || sandbox.processes().is_empty());
            }
        }
    }
}

#[test]
fn one_sick_gpu_leaves_the_others_in_use() {
    // nvmlInit, nvmlShutdown and the count are about no GPU. Without its name, and so
    // without its profile, a device can be judged all the same.
    let about = |name: &String| {
        name.starts_with("nvmlDevice")
            && !name.starts_with("nvmlDeviceGetCount")
            && name != "nvmlDeviceGetName"
            && !HEALTH.contains(&name.as_str())
    };
    for function in functions(&[]).into_iter().filter(about) {
        let sandbox = Sandbox::new(TWO_GPUS);
        let healthy = sandbox.uuids()[7..].to_vec();
        for code in [4, 6, 9, 15, 18, 999] {
            sandbox.faults(&rule(&function, &format!("gpu = 0\nreturns = {code}")));
            sandbox.ask("--count-free").exits(0).prints("7\n");
            for _ in 0..3 {
                let pick = sandbox.line("--no-reserve");
                assert!(healthy.contains(&pick), "{function} gives {code}: {pick}");
            }
        }
    }
}

/// A waiter asks again by UUID, without a list of the GPU's devices.
#[test]
fn one_sick_mig_device_leaves_the_others_to_calls_and_waiters() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox.ask("-n 4 --hold --tag all").exits(0);
    let sick = format!("device = '{}'\nreturns = 999", uuids[0]);
    sandbox.faults(&rule("nvmlDeviceGetUUID", &sick));
    let waiter = sandbox.words("getgpu --wait=20 --hold").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    sandbox.ask("--release all").exits(0);
    let served = waiter.wait().exits(0).line();
    assert!(uuids[1..].contains(&served), "{served}");
    sandbox.ask("--count-free").exits(0).prints("2\n");
}

#[test]
fn a_mig_device_that_may_not_be_seen_is_no_problem() {
    let sandbox = Sandbox::new("mig4");
    let hidden = "from = 2\nfirst = 1\nreturns = 4";
    sandbox.faults(&rule("nvmlDeviceGetMigDeviceHandleByIndex", hidden));
    let listed = sandbox.ask("--list").exits(0).says(&[]).stdout.clone();
    assert!(listed.ends_with("3 of 3 free\n"), "{listed}");
}

#[test]
fn a_gpu_that_is_lost_half_way_leaves_the_others_in_use() {
    for from in [1, 2, 3, 5, 8] {
        let sandbox = Sandbox::new(TWO_GPUS);
        sandbox.faults(&rule("*", &format!("gpu = 1\nfrom = {from}\nreturns = 15")));
        let (picks, uuids) = (until_none_is_free(&sandbox, &[]), sandbox.uuids());
        let all = uuids[..7].iter().all(|uuid| picks.contains(uuid));
        assert!(all, "from call {from}: {picks:?}");
    }
}

#[test]
fn when_every_gpu_is_sick_the_status_says_whether_waiting_helps() {
    for function in functions(&[]) {
        // What a device is doing may be told later; that it cannot be found will not
        // change by itself.
        let doing = function.contains("RunningProcesses") || function.contains("MemoryInfo");
        for code in [4, 6, 9, 15, 18, 999] {
            let sandbox = Sandbox::new("a100x1");
            sandbox.faults(&rule(&function, &format!("returns = {code}")));
            let outcome = sandbox.ask("");
            // None of these is needed for an answer.
            let idle = [
                "nvmlShutdown",
                "nvmlSystemGetDriverVersion",
                "nvmlDeviceGetName",
            ];
            let is_idle = idle.contains(&function.as_str());
            if is_idle || (HEALTH.contains(&function.as_str()) && code != 15) {
                outcome.line();
            } else if doing || HEALTH.contains(&function.as_str()) {
                let why = if code == 15 {
                    "unhealthy 7"
                } else {
                    "unknown to NVML 7"
                };
                outcome.refuses(1, &format!("no free device: 7 of 7 in use ({why})"));
            } else {
                outcome.refuses(3, "");
            }
        }
    }
}

#[test]
fn init_says_what_is_wrong_with_the_driver() {
    let sandbox = Sandbox::new("a100x1");
    #[rustfmt::skip]
    let cases = [
        (9, "getgpu: no NVIDIA driver on this node"), (18, "getgpu: NVML Init: "),
        (999, "(NVML code 999)"), (15, "(NVML code 15)"),
    ];
    for (code, line) in cases {
        sandbox.faults(&rule("nvmlInit_v2", &format!("returns = {code}")));
        for arguments in ["", "--count-free", "--list"] {
            let outcome = sandbox.ask(arguments);
            outcome.refuses(3, line);
            if code == 18 && arguments.is_empty() {
                // In a container the remedy is another one (`busy_or_idle`).
                outcome
                    .mentions("getgpu: hint: ")
                    .mentions("driver was updated");
            }
        }
    }
}

#[test]
fn a_driver_without_a_gpu_has_an_empty_list() {
    let sandbox = Sandbox::new("a100x1");
    // NVML_ERROR_GPU_NOT_FOUND, as newer drivers say it; older ones count 0.
    for faults in [rule("nvmlInit_v2", "returns = 28"), String::new()] {
        if faults.is_empty() {
            sandbox.set_node("driver = '550.54.15'\n");
        }
        sandbox.faults(&faults);
        let refused = sandbox.ask("");
        refused.refuses(3, "getgpu: no NVIDIA GPU on this node");
        assert_eq!(listing::free_devices(&sandbox), "0");
        let table = sandbox.ask("--list").output();
        assert_eq!(table.lines().count(), 2, "heading and total: {table}");
        let listing = sandbox.ask("--list --json").output();
        assert!(listing.contains("\"devices\":[]"), "{listing}");
    }
}

#[test]
fn garbage_is_no_uuid() {
    let sandbox = Sandbox::new(TWO_GPUS);
    sandbox.faults(&rule("nvmlDeviceGetUUID", "gpu = 0\ndoes = 'garbage'"));
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids()[7..]);
    let list = sandbox.ask("--list");
    list.mentions("GPU 0: DeviceGetUUID: the answer is not a UUID");
    sandbox.faults(&rule("*", "does = 'garbage'"));
    sandbox.ask("").refuses(3, "getgpu: no device answers: ");
}

/// A Jetson Orin's GPU; CUDA_VISIBLE_DEVICES takes no such name.
#[test]
fn a_gpu_whose_uuid_has_no_prefix_is_named_and_stops_no_other() {
    let uuid = "54b6e1a2-1c0d-5f4e-8a7b-0123456789ab";
    let orin = format!("[[gpu]]\nmodel = 'T4'\nuuid = '{uuid}'\n");
    let driver = "driver = '540.3.0'\n";
    let said = format!(
        "GPU 0: DeviceGetUUID: {uuid}: a UUID without GPU-, as on a Jetson Orin: \
         CUDA_VISIBLE_DEVICES cannot name it, so it is not used"
    );
    let hint = "hint: a Jetson has one GPU: run programs there without getgpu and cudawrap";
    let alone = Sandbox::new(&format!("{driver}{orin}"));
    let refused = alone.ask("");
    refused.refuses(3, &format!("no device can be used: {said}"));
    refused.mentions(hint);
    let refused = alone.words("cudawrap -- true").run();
    refused.refuses(125, &said);
    let check = alone.ask("--check");
    check.shows(&said).shows("a Jetson has one GPU");
    let sandbox = Sandbox::new(&format!("{driver}{orin}[[gpu]]\nmodel = 'T4'\n"));
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids()[1..]);
    sandbox.ask("--list").exits(0).mentions(&said);
    sandbox.ask("--explain --no-reserve").mentions(&said);
}

#[test]
fn what_a_library_prints_does_not_reach_the_answer() {
    let sandbox = Sandbox::new("a100x1");
    sandbox.faults("banner = 'THIS IS A STUB'");
    assert!(sandbox.uuids().contains(&sandbox.line("")));
    let list = sandbox.ask("--list --json");
    assert!(list.stdout.starts_with('{') && !list.stdout.contains("STUB"));
}

#[test]
fn a_node_without_a_driver_is_told_from_one_without_the_library() {
    let sandbox = Sandbox::new("a100x1");
    let line = "getgpu: no NVIDIA driver on this node";
    let salloc = "getgpu: hint: you are in an allocation but not on its node: srun --pty bash";
    for arguments in [&[][..], &["--list"], &["--count-free"], &["0"]] {
        let login = || sandbox.getgpu(arguments).env_remove("SIM_NODE");
        let job = || login().env("SLURM_JOB_ID", "7");
        let task = job().env("SLURM_PROCID", "0");
        for (command, lines) in [
            (login(), &[line][..]),
            (job(), &[line, salloc]),
            (task, &[line]),
        ] {
            command.run().exits(3).prints("").says(lines);
        }
    }
    let bare = Sandbox::builder("a100x1").without_library().build();
    bare.ask("").exits(3).prints("").says(&[line]);
    if skip::lacks(&[skip::Need::Mounts]) {
        return;
    }
    let script = format!("{DRIVER} && {NODES} && getgpu");
    let loaded = bare.apart(&script).run();
    loaded.refuses(3, "getgpu: cannot load libnvidia-ml.so.1: ");
    loaded.mentions("getgpu: hint: the NVIDIA driver is loaded but its library is not found");
}

#[test]
fn the_setting_names_another_library() {
    let sandbox = Sandbox::new("a100x1");
    let library = sandbox.text("lib/libnvidia-ml.so.1");
    sandbox.set_settings(&format!("library = '{library}'"));
    let outside = sandbox.words("env -u LD_LIBRARY_PATH getgpu --no-reserve");
    outside.run().line();
    sandbox.set_settings("library = '/nonexistent/library.so'");
    sandbox.ask("").exits(3).prints("");
}

/// What a machine says without a driver, or a container without GPUs, whatever file is
/// called libnvidia-ml.so.1 there.
#[test]
fn a_file_that_is_no_library_matters_only_where_there_is_a_gpu() {
    let damages = [Damage::Empty, Damage::Text, Damage::Elf32, Damage::Stub];
    for damage in damages {
        let sandbox = Sandbox::builder("a100x1").damaged(damage).build();
        let app = "#!/bin/sh\necho ran $CUDA_VISIBLE_DEVICES\n";
        sandbox.file("bin/CUDAWRAP_app", app, 0o755);
        std::os::unix::fs::symlink("cudawrap", sandbox.path("bin/app")).unwrap();
        let line = "no NVIDIA driver on this node";
        let said = format!("getgpu: {line}");
        sandbox.ask("").exits(3).prints("").says(&[&said]);
        sandbox.words("app").run().answers("ran\n");
        sandbox.words("cudawrap -- true").run().refuses(125, line);
        if skip::lacks(&[skip::Need::Mounts]) {
            continue;
        }
        let on = |nodes: &str, command: &str| {
            let script = format!("{DRIVER} && {nodes} && {command}");
            sandbox.apart(&script).run()
        };
        let none = "no NVIDIA GPU on this node";
        on("true", "getgpu").refuses(3, none);
        on("true", "app").answers("ran\n");
        on("true", "cudawrap -- true").refuses(125, none);
        let hint = "hint: the NVIDIA driver is loaded but this file is not its library";
        on(NODES, "getgpu")
            .refuses(3, "cannot load libnvidia-ml.so.1: ")
            .mentions(&format!("getgpu: {hint}"));
        on(NODES, "app")
            .refuses(125, "cannot load libnvidia-ml.so.1: ")
            .mentions(&format!("cudawrap: {hint}"));
    }
}
