//! A plain getgpu prints a free device, each equally likely, at little cost, on every kind
//! of node. The lock and NVML decide what is free; what NVML cannot tell is not free.

use std::time::Duration;

use getgpu_tests::{assert_devices, bytes, chi_square, listing, until_none_is_free};
use harness::skip::{self, Need};
use harness::{Sandbox, Signal};
use nix::libc::F_WRLCK;

/// NVML calls and GPUs touched by one pick.
fn cost(sandbox: &Sandbox, arguments: &[&str]) -> (usize, usize) {
    sandbox.log_calls();
    sandbox.getgpu(arguments).run().line();
    let (calls, attaches) = (sandbox.calls(), sandbox.folder().attaches().unwrap());
    (calls.len() - attaches.len(), attaches.len())
}

#[test]
fn a_pick_costs_the_same_on_any_node_and_touches_one_gpu() {
    let mut costs = Vec::new();
    for node in ["a100x1", "a100x8", "16x7"] {
        let sandbox = Sandbox::new(node);
        for _ in 0..5 {
            costs.push((node, cost(&sandbox, &["--no-reserve"])));
        }
        costs.push((node, cost(&sandbox, &[])));
    }
    println!("calls and GPUs: {costs:?}");
    let (_, (calls, _)) = costs[0];
    assert!(
        costs.iter().all(|(_, cost)| *cost == (calls, 1)),
        "{costs:?}"
    );
    // Three of them are about the health of the candidate.
    assert!(calls <= 15, "{calls} calls");
    let sandbox = Sandbox::new("gpus4");
    let (calls, gpus) = cost(&sandbox, &["--type", "gpu"]);
    assert!(calls <= 15 && gpus == 1, "{calls} calls, {gpus} GPUs");
}

/// A prefix for a shell line that lets the driver show so many GPUs, none of which has a GPU instance.
fn without_instances(gpus: u32) -> String {
    format!(
        "mount -t tmpfs none /proc/driver && cd /proc/driver && mkdir -p nvidia/capabilities/mig && \
         for n in $(seq 0 {}); do mkdir -p nvidia/capabilities/gpu$n/mig; done && cd / && ",
        gpus - 1
    )
}

#[test]
fn where_the_driver_shows_no_instance_a_pick_of_a_whole_gpu_touches_one() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let shown = without_instances(4);
    sandbox.log_calls();
    let picked = sandbox.apart(&format!("{shown} exec getgpu")).run().line();
    let (calls, attaches) = (sandbox.calls(), sandbox.folder().attaches().unwrap());
    assert_eq!(attaches.len(), 1, "{attaches:?}");
    assert!(calls.len() - attaches.len() <= 15, "{calls:?}");
    // As random as any other pick, and until all are taken.
    let loop_ = "while d=$(getgpu -q); do echo $d; done";
    let rest = sandbox.apart(&format!("{shown} {loop_}")).run();
    let mut all: Vec<String> = rest.stdout.lines().map(str::to_owned).collect();
    all.push(picked);
    assert_devices(&all, &sandbox.uuids());
}

/// The tree of another driver, or of a container: it saves a look, and proves nothing.
#[test]
fn a_driver_that_shows_no_instance_although_there_are_some_changes_no_answer() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    for node in ["a100x1", "mixed"] {
        let sandbox = Sandbox::new(node);
        let shown = without_instances(4);
        let script = format!("{shown} while d=$(getgpu -q --type any); do echo $d; done");
        sandbox.line("--no-reserve");
        let any = sandbox.apart(&script).run();
        let devices: Vec<String> = any.stdout.lines().map(str::to_owned).collect();
        assert_devices(&devices, &sandbox.uuids());
        sandbox.ask("--release-all").exits(0);
        let script = format!("{shown} while d=$(getgpu -q); do echo $d; done");
        let auto = sandbox.apart(&script).run();
        let devices: Vec<String> = auto.stdout.lines().map(str::to_owned).collect();
        let set: std::collections::BTreeSet<&String> = devices.iter().collect();
        assert!(set.len() == devices.len() && !set.is_empty(), "{devices:?}");
    }
}

/// Also beside holes and odd GPUs.
#[test]
fn every_free_device_is_equally_likely() {
    // The limits are those for 6 and for 2 degrees of freedom with p = 0.001.
    for (node, count, picks, limit) in [("a100x1", 7, 200, 22.5), ("mixed", 3, 150, 13.8)] {
        let sandbox = Sandbox::new(node);
        let picks: Vec<String> = (0..picks).map(|_| sandbox.line("--no-reserve")).collect();
        let chi = chi_square(&picks, &sandbox.uuids()[..count]);
        println!("chi-square over {count} devices: {chi:.1}");
        assert!(chi < limit, "{node}: {chi}");
    }
}

#[test]
fn devices_handed_out_are_all_different_and_then_there_are_none() {
    let sandbox = Sandbox::new("a100x1");
    let picks = until_none_is_free(&sandbox, &[]);
    assert_devices(&picks, &sandbox.uuids());
    let none = sandbox.ask("");
    let hint = "getgpu: hint: an empty CUDA_VISIBLE_DEVICES hides all GPUs and many programs silently fall back to the CPU";
    let line = "getgpu: no free device: 7 of 7 in use (reserved 7)";
    none.refuses(1, line).mentions(hint);
    sandbox.ask("-q").exits(1).says(&[line]);
}

#[test]
fn a_gpu_in_mig_mode_without_instances_is_no_device() {
    let empty = "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n";
    let driver = "driver = '550.54.15'\n";
    let sandbox = Sandbox::new(&format!("{driver}{empty}"));
    for kind in ["auto", "mig", "gpu", "any"] {
        let outcome = sandbox.ask(&format!("--type {kind}"));
        outcome.refuses(3, "have no MIG devices");
    }
    let sandbox = Sandbox::new(&format!("{driver}{empty}[[gpu]]\nmodel = 'T4'\n"));
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids());
    assert!(sandbox.uuids()[0].starts_with("GPU-"));
    Sandbox::new("none")
        .ask("")
        .refuses(3, "no NVIDIA GPU on this node");
}

#[test]
fn two_compute_instances_in_one_gpu_instance_are_two_devices() {
    let sandbox = Sandbox::new("one-gpu-two-cis");
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids());
    let sandbox = Sandbox::new("one-gpu-two-cis");
    let uuids = sandbox.uuids();
    let _neighbour = sandbox.occupy(&uuids[..1], "--memory 2000000000");
    assert_devices(&until_none_is_free(&sandbox, &[]), &uuids[1..]);
}

#[test]
fn a_device_of_a_program_that_never_asked_is_not_handed_out() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let mut programs = sandbox.occupy(&uuids, "");
    let line = "no free device: 7 of 7 in use (other programs 7)";
    sandbox.ask("").refuses(1, line);
    programs.pop().unwrap().signal(Signal::SIGKILL);
    sandbox.until_running(6);
    assert_devices(&until_none_is_free(&sandbox, &[]), &uuids[6..]);
    let mixed = "no free device: 7 of 7 in use (reserved 1, other programs 6)";
    sandbox.ask("").refuses(1, mixed);
    let gpus = Sandbox::new("gpus4");
    let _programs = gpus.occupy(&gpus.uuids()[1..], "--memory 1000");
    assert_devices(&until_none_is_free(&gpus, &[]), &gpus.uuids()[..1]);
}

#[test]
fn a_display_server_makes_a_device_busy_only_if_a_site_says_so() {
    let sandbox = Sandbox::new("gpus4");
    std::fs::hard_link(sandbox.path("bin/probe"), sandbox.path("work/Xorg")).unwrap();
    let flags = ["--out", "xorg", "--until", "never"];
    let display = sandbox
        .command(sandbox.path("work/Xorg"))
        .args(flags)
        .spawn();
    sandbox.until_file("work/xorg");
    let [pid, first] = [display.pid().to_string(), sandbox.uuids()[0].clone()];
    let entry = |memory: u32| {
        format!(
            "[[process]]\ndevice = '{first}'\npid = {pid}\nmemory_mib = {memory}\nkind = 'graphics'\n"
        )
    };
    sandbox.faults(&entry(600));
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids());
    sandbox.ask("--release-all").exits(0);
    sandbox.set_settings("ignore_processes = ['Xwayland']");
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids()[1..]);
}

#[test]
fn a_device_that_nvml_cannot_report_is_not_free() {
    let rule = "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\nreturns = 4\n";
    let sandbox = Sandbox::new("a100x1");
    sandbox.faults(&format!("{rule}device = '{}'\n", sandbox.uuids()[2]));
    let mut others = sandbox.uuids();
    others.remove(2);
    assert_devices(&until_none_is_free(&sandbox, &[]), &others);
    let sandbox = Sandbox::new("a100x1");
    sandbox.faults(rule);
    let line = "no free device: 7 of 7 in use (unknown to NVML 7)";
    sandbox.ask("").refuses(1, line);
    sandbox.faults("[[rule]]\nfunction = 'nvmlDeviceGetMemoryInfo_v2'\nreturns = 4");
    sandbox.ask("").refuses(1, "unknown to NVML 7");
    // On whole GPUs a program may be on the list of those that draw alone.
    let sandbox = Sandbox::new("gpus4");
    let graphics = |code: u32| {
        format!("[[rule]]\nfunction = 'nvmlDeviceGetGraphicsRunningProcesses_v3'\nreturns = {code}")
    };
    for (code, free) in [(3, "4"), (13, "4"), (4, "0"), (15, "0"), (999, "0")] {
        sandbox.faults(&graphics(code));
        assert_eq!(listing::free_devices(&sandbox), free, "{code}");
    }
    let line = "no free device: 4 of 4 in use (unknown to NVML 4)";
    sandbox.ask("").refuses(1, line);
}

/// A call that gives way to another one would leave both without, where one is to have it.
#[test]
fn what_another_call_is_only_trying_is_waited_for() {
    let sandbox = Sandbox::new("h200x1");
    let stranger = bytes::open(&sandbox);
    let lease = bytes::span(&sandbox.uuids()[0]) + bytes::LEASE;
    bytes::lock(&stranger, F_WRLCK, lease, bytes::UNITS).unwrap();
    for (words, least) in [("", 100), ("--share 1/2", 1000)] {
        let refused = sandbox.ask(words);
        refused.refuses(1, "no free device: 1 of 1 in use");
        let least = Duration::from_millis(least);
        assert!(refused.elapsed >= least, "{refused:?}");
    }
}
