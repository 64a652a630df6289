//! A GPU that does not answer: it keeps its index, no call is given another GPU under its number,
//! and it costs the others a part of the time limit and no more.

use std::time::Duration;

use getgpu_tests::wrapped::wrap_shell;
use getgpu_tests::{OTHER, assert_devices, listing, root, until_none_is_free};
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

const HANDLE: &str = "nvmlDeviceGetHandleByIndex_v2";
const PROCESSES: &str = "nvmlDeviceGetComputeRunningProcesses_v3";
/// So short that a test ends soon, and so long that a busy machine asks each GPU in its part.
const LIMIT: &str = "nvml_timeout = 3";

fn rule(function: &str, gpu: u32, what: &str) -> String {
    format!("[[rule]]\nfunction = '{function}'\ngpu = {gpu}\n{what}\n")
}

/// Four whole GPUs, one of which has a fault.
fn with_fault(function: &str, gpu: u32, what: &str) -> Sandbox {
    let sandbox = Sandbox::with("gpus4", LIMIT);
    sandbox.faults(&rule(function, gpu, what));
    sandbox
}

fn others(sandbox: &Sandbox, gpu: usize) -> Vec<String> {
    let mut uuids = sandbox.uuids();
    uuids.remove(gpu);
    uuids
}

#[test]
fn no_index_means_another_gpu_because_one_is_silent() {
    for function in [HANDLE, "nvmlDeviceGetMigMode", "nvmlDeviceGetUUID"] {
        let sandbox = with_fault(function, 1, "returns = 15");
        let uuids = sandbox.uuids();
        for index in [0, 2, 3] {
            let line = sandbox.line(&format!("{index} --no-reserve"));
            assert_eq!(line, uuids[index], "{function}: INDEX {index}");
        }
        let refused = sandbox.ask("1");
        refused.refuses(3, "device 1 does not answer: GPU 1: ");
        // Nor is the number of a GPU certain that is printed for CUDA.
        let numbers = |index: usize| sandbox.ask(&format!("{index} --no-reserve --format index"));
        numbers(0).answers("0\n");
        numbers(2).refuses(
            3,
            "--format index: it is not certain which index CUDA gives a GPU",
        );
        let listed = listing::json(&sandbox);
        let indices = listing::devices(&listed)
            .iter()
            .map(|device| device["index"].as_u64());
        assert!(indices.eq([0, 2, 3].map(Some)), "{listed}");
        assert_eq!(listed["silent"][0]["index"], 1);
        assert_eq!(listed["silent"][0]["gpu"], 1);
        let table = sandbox.ask("--list").output();
        let row = table.lines().nth(2).unwrap();
        assert!(
            row.starts_with("1     1   ") && row.contains("unknown"),
            "{table}"
        );
        assert!(row.contains("NVML code 15"), "{table}");
        let metrics = sandbox.ask("--list --format prometheus").output();
        assert!(
            metrics.contains("getgpu_gpu_silent{gpu=\"1\",mig_index=\"\"} 1"),
            "{metrics}"
        );
    }
}

#[test]
fn no_grant_by_index_means_another_gpu_because_one_is_silent() {
    let sandbox = with_fault(HANDLE, 1, "returns = 15");
    let uuids = sandbox.uuids();
    let ran = |grant: &str| sandbox.words("cudawrap -- sim-cuda").visible(grant).run();
    ran("0").exits(0).shows(&uuids[0]);
    ran(&uuids[3]).exits(0).shows(&uuids[3]);
    let [at, behind] = [
        "index 1 is a GPU that does not answer: GPU 1: ",
        "it is not certain which GPU has index 2, since one before it does not answer: GPU 1: ",
    ];
    for (grant, line) in [("1", at), ("2", behind), ("0,2", behind)] {
        ran(grant).refuses(125, &format!("CUDA_VISIBLE_DEVICES={grant}: {line}"));
        sandbox.ask_within(grant, "").refuses(3, line);
    }
    // Where the numbers of CUDA are those of NVML, and the kernel has all GPUs on the bus.
    let ordered = |script: &str| {
        let command = sandbox.apart(&format!("{script} cudawrap -- sim-cuda"));
        let command = command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        command.visible("2").run()
    };
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    ordered("").refuses(125, behind);
    let gpus = "mount -t tmpfs none /proc/driver && mount -t tmpfs none /sys/bus/pci/devices && \
         for bus in 07 0f 17 1f; do mkdir -p /proc/driver/nvidia/gpus/0000:$bus:00.0 /sys/bus/pci/devices/0000:$bus:00.0; \
         printf '\\336\\020' >/sys/bus/pci/devices/0000:$bus:00.0/config; done;";
    ordered(gpus).exits(0).shows(&uuids[2]);
    let gone = format!("{gpus} printf '\\377\\377' >/sys/bus/pci/devices/0000:0f:00.0/config;");
    ordered(&gone).refuses(125, behind);
}

/// Its user named a GPU, so it runs as it would without cudawrap, unless the site says no.
#[test]
fn a_linked_program_whose_gpu_is_not_certain_has_no_lease() {
    let sandbox = with_fault(HANDLE, 1, "returns = 15");
    let app = wrap_shell(&sandbox, "apps", "app");
    let run = || {
        let shell = sandbox
            .command(&app)
            .args(["-c", "echo $CUDA_VISIBLE_DEVICES; getgpu --list --json"]);
        shell.visible("2").run()
    };
    let ran = run();
    ran.exits(0)
        .mentions("it is not certain which GPU has index 2");
    ran.mentions("the program runs on what CUDA_VISIBLE_DEVICES names");
    assert!(ran.stdout.starts_with("2\n"), "{ran:#?}");
    assert!(!ran.stdout.contains("leased"), "{ran:#?}");
    sandbox.set_settings(&format!("{LIMIT}\nwhen_taken = 'fail'"));
    run().refuses(125, "it is not certain which GPU has index 2");
}

#[test]
fn where_the_number_of_devices_is_not_known_nothing_behind_has_an_index() {
    let node = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 3\nmig = true\nlayout = '2x3g.20gb'\n";
    let sandbox = Sandbox::with(node, LIMIT);
    sandbox.faults(&rule(HANDLE, 1, "returns = 15"));
    let uuids = sandbox.uuids();
    assert_eq!(sandbox.line("1 --no-reserve"), uuids[1]);
    let refused = sandbox.ask("4");
    refused.refuses(3, "it is not certain which device has index 4");
    // One MIG device that does not answer is one, and so has one index.
    let sick = format!("device = '{}'\nreturns = 999", uuids[2]);
    sandbox.faults(&format!("[[rule]]\nfunction = 'nvmlDeviceGetUUID'\n{sick}"));
    assert_eq!(sandbox.line("4 --no-reserve"), uuids[4]);
    sandbox
        .ask("2")
        .refuses(3, "device 2 does not answer: GPU 1 MIG device 0: ");
}

#[test]
fn a_gpu_that_hangs_leaves_the_others_to_every_call() {
    for (function, what, why) in [
        (PROCESSES, "does = 'hang'", "did not answer within 0.5 s"),
        (HANDLE, "does = 'hang'", "did not answer within 0.6 s"),
        (
            PROCESSES,
            "does = 'abort'",
            "the process that asks NVML failed there",
        ),
    ] {
        let sandbox = with_fault(function, 3, what);
        let healthy = others(&sandbox, 3);
        let listed = sandbox.ask("--list");
        listed.exits(0).shows(why);
        let states = listing::states(&sandbox);
        assert_eq!(
            states.iter().filter(|state| *state == "free").count(),
            3,
            "{states:?}"
        );
        for options in [
            "--policy spread",
            "--min-memory 1G",
            "--policy first",
            "--gpu 0",
            "",
        ] {
            let line = sandbox.line(&format!("--no-reserve {options}"));
            assert!(
                healthy.contains(&line),
                "{function} {what} {options}: {line}"
            );
        }
        let two = sandbox.line("-n 2 --no-reserve");
        assert!(
            two.split(',').all(|one| healthy.contains(&one.to_owned())),
            "{two}"
        );
        sandbox.ask("--count-free").answers("3\n");
        let within = sandbox.ask_within(healthy.join(","), "--no-reserve").line();
        assert!(healthy.contains(&within));
        let four = sandbox.ask("-n 4 --explain");
        four.mentions(why);
        assert_ne!(four.code(), Some(0), "{four:#?}");
        sandbox.assert_clean();
        wait::until("no process is left", || sandbox.processes().is_empty());
    }
}

/// It once read as if no GPU of the node answered, or as if there were no such GPU.
#[test]
fn a_request_for_a_gpu_that_is_silent_says_which_one_that_is() {
    let cases = [
        (HANDLE, "does = 'hang'"),
        (HANDLE, "returns = 15"),
        (HANDLE, "does = 'abort'"),
        (PROCESSES, "does = 'hang'"),
    ];
    for (function, what) in cases {
        let sandbox = with_fault(function, 3, what);
        for gpu in ["3", &sandbox.uuids()[3]] {
            let refused = sandbox.ask(&format!("--gpu {gpu}"));
            assert_eq!(refused.code(), Some(3), "{refused:#?}");
            refused.mentions(" of the request answers ");
            refused.mentions("GPU 3: ");
            refused.mentions("getgpu --list shows the GPUs that do not answer");
        }
        // It is not to blame where it was not asked for.
        let other = sandbox.ask("--gpu 0 --type mig");
        other.refuses(3, "no device of the request exists here: ");
    }
}

/// Forty random picks, as many as once failed six times.
#[test]
fn random_picks_pass_by_a_gpu_that_hangs() {
    let sandbox = with_fault(PROCESSES, 3, "does = 'hang'");
    assert_devices(&until_none_is_free(&sandbox, &[]), &others(&sandbox, 3));
    let all = sandbox.ask("");
    all.refuses(1, "no free device: 4 of 4 in use (");
    all.mentions("unknown to NVML 1");
}

#[test]
fn a_waiter_outlasts_a_gpu_that_hangs() {
    let sandbox = with_fault(PROCESSES, 3, "does = 'hang'");
    let uuids = sandbox.uuids();
    for uuid in &uuids[..3] {
        sandbox
            .ask_within(uuid, &format!("--hold --tag {uuid}"))
            .exits(0);
    }
    sandbox.log_calls();
    let waiter = sandbox.words("getgpu --wait=60 --hold").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    let hung = || {
        let calls = sandbox.calls().into_iter();
        calls.filter(|call| call.function == PROCESSES).count()
    };
    wait::until("it has asked the GPU that hangs", || hung() >= 1);
    let asked = hung();
    // Longer than the whole limit, after which it once gave up.
    std::thread::sleep(Duration::from_secs(4));
    assert!(
        hung() <= asked + 1,
        "asked again and again: {} times",
        hung() - asked
    );
    sandbox.ask(&format!("--release {}", uuids[1])).exits(0);
    let served = waiter.wait().exits(0).line();
    assert_eq!(served, uuids[1]);
}

#[test]
fn what_cannot_be_chosen_is_asked_for_no_more_than_its_name() {
    let sandbox = with_fault(PROCESSES, 3, "does = 'hang'");
    let uuids = sandbox.uuids();
    sandbox.set_settings(&format!("{LIMIT}\nexcluded = ['{}']", uuids[3]));
    sandbox.log_calls();
    let names = [
        "attach",
        HANDLE,
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMigMode",
    ];
    let is_about = |args: &str| args.contains("GPU 3") || args.contains(&uuids[3]);
    for options in ["--policy spread", "--min-memory 1G", "-n 2", "--count-free"] {
        sandbox.ask(&format!("--no-reserve {options}"));
    }
    for call in sandbox.calls().iter().filter(|call| is_about(&call.args)) {
        assert!(names.contains(&call.function.as_str()), "{call:?}");
    }
    // GPUs that the call does not want by their index are not touched at all.
    sandbox.faults(&rule(HANDLE, 3, "does = 'hang'"));
    let attached = sandbox.folder().attaches().unwrap().len();
    let line = sandbox.line("--gpu 0 --no-reserve");
    assert_eq!(
        (line, sandbox.folder().attaches().unwrap().len() - attached),
        (uuids[0].clone(), 1)
    );
}

/// Root drains it, and has to see what still runs there.
#[test]
fn an_excluded_gpu_that_hangs_is_waited_for_by_root_alone() {
    let Some(sandbox) = root("gpus4") else { return };
    let sick = sandbox.uuids()[3].clone();
    sandbox.faults(&rule(PROCESSES, 3, "does = 'hang'"));
    sandbox.set_settings(&format!("{LIMIT}\nexcluded = ['{sick}']"));
    sandbox.log_calls();
    let listed = sandbox.ask_as(OTHER, "--list");
    assert!(
        !listed.exits(0).stdout.contains("did not answer"),
        "{listed:#?}"
    );
    listed.shows("excluded");
    let calls = sandbox.calls();
    let mut calls = calls.iter();
    assert!(!calls.any(|call| call.function == PROCESSES && call.args.contains("GPU 3")));
    sandbox
        .ask("--list")
        .exits(0)
        .shows("did not answer within");
}

/// Eight GPUs without persistence mode: each takes its time when it is first touched.
#[test]
fn gpus_that_are_slow_to_attach_do_not_end_a_call() {
    let node = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 8\n";
    let sandbox = Sandbox::with(node, "nvml_timeout = 6");
    sandbox.faults("latency = { attach_ms = 1000 }");
    sandbox.line("--no-reserve");
    let listed = sandbox.ask("--list");
    listed
        .exits(0)
        .shows("free")
        .shows("not asked: the other GPUs took most of 6 s");
    sandbox.line("--no-reserve --min-memory 1G");
}

/// The more of them hang, the shorter each is waited for.
#[test]
fn half_of_the_gpus_may_hang_and_the_others_are_used() {
    let node = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 8\n";
    let sandbox = Sandbox::with(node, "nvml_timeout = 10");
    let uuids = sandbox.uuids();
    let rules: String = (0..4)
        .map(|gpu| rule(HANDLE, gpu, "does = 'hang'"))
        .collect();
    sandbox.faults(&rules);
    let listed = sandbox.ask("--list");
    listed.exits(0).shows("did not answer within").shows("free");
    assert_eq!(sandbox.line("--hold --policy first"), uuids[4]);
    let waits = "cudawrap --wait=60 -- printenv CUDA_VISIBLE_DEVICES";
    let ran = sandbox.words(waits).run();
    let given = ran.exits(0).stdout.trim_end().to_owned();
    assert!(uuids[5..].contains(&given), "{given}");
}
