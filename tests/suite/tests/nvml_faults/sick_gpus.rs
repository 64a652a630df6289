//! A GPU of which NVML says that CUDA cannot, or should not, start there is never handed out,
//! although no program uses it; what is only reported stops no program.

use getgpu_tests::{listing, until_none_is_free};
use harness::{Sandbox, wait};

/// Four whole GPUs with a driver that tells everything.
const GPUS: &str = "driver = '580.65.06'\n[[gpu]]\nmodel = 'H100-80GB'\ncount = 4\n";
/// One with MIG devices.
const MIG: &str =
    "driver = '580.65.06'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '3x2g.10gb'\n";

/// A value of nvmlDeviceGetFieldValues, which has a return code of its own.
const VALUE: &str = "nvmlFieldValue_t";

/// The same with a driver that has all that is asked.
fn newest() -> String {
    GPUS.replace("580.65.06", "595.45.04")
}

fn health(target: &str, what: &str) -> String {
    format!("[[health]]\n{target}\n{what}\n")
}

/// This function returns this code for GPU 1.
fn returning(function: &str, code: i32) -> String {
    if function == VALUE {
        return health("gpu = 1", &format!("field_returns = {code}"));
    }
    format!("[[rule]]\nfunction = '{function}'\ngpu = 1\nreturns = {code}\n")
}

#[test]
fn a_gpu_on_which_cuda_cannot_start_is_never_handed_out() {
    #[rustfmt::skip]
    let cases = [
        ("compute_mode = 2", "prohibited", "compute mode Prohibited", "nvidia-smi -i 2 -c 0"),
        ("recovery_action = 1", "needs_reset", "the GPU needs a reset", "--gpu-reset -i 2"),
        ("recovery_action = 2", "needs_reboot", "the GPU needs a reboot of the node", "reboot the node"),
        ("recovery_action = 4", "needs_drain_and_reset", "the GPU needs a drain and a reset", "--gpu-reset -i 2"),
        ("recovery_action = 6", "needs_bus_reset", "the GPU needs a reset of its PCIe bus", "--gpu-reset -i 2"),
        ("recovery_action = 7", "needs_reboot", "the GPU needs a reboot of the node", "reboot the node"),
        ("recovery_action = 8", "unknown_state", "NVML reports a state of it that", "nvidia-smi -q -i 2"),
        ("compute_mode = 4", "unknown_state", "NVML reports a state of it that", "nvidia-smi -q -i 2"),
        ("fabric = [1, 0]", "fabric_not_ready", "its NVLink fabric is not ready", "nvidia-fabricmanager"),
        ("fabric = [2, 0]", "fabric_not_ready", "its NVLink fabric is not ready", "nvidia-fabricmanager"),
        ("fabric = [4, 0]", "unknown_state", "NVML reports a state of it that", "nvidia-smi -q -i 2"),
        ("unrepairable = true", "unrepairable_memory", "its memory has an error that cannot be repaired", "replaced"),
        ("rows_failed = true", "row_remap_failed", "a faulty memory row could not be remapped", "replaced"),
    ];
    for (fault, word, text, remedy) in cases {
        let sandbox = Sandbox::new(&newest());
        sandbox.faults(&health("gpu = 2", fault));
        let sick = sandbox.uuids()[2].clone();
        sandbox.ask("--count-free").answers("3\n");
        let picks = until_none_is_free(&sandbox, &[]);
        assert!(
            picks.len() == 3 && !picks.contains(&sick),
            "{fault}: {picks:?}"
        );
        sandbox
            .ask("")
            .refuses(1, "no free device: 4 of 4 in use (");
        sandbox
            .ask("--explain")
            .mentions(&format!("{sick} (GPU 2): unhealthy: {text}"));
        sandbox
            .ask("--list")
            .exits(0)
            .shows("unhealthy")
            .shows(text);
        let listed = listing::json(&sandbox);
        let device = listing::device(&listed, &sick);
        assert_eq!(
            (&device["state"], &device["health"][0]),
            (&"unhealthy".into(), &word.into())
        );
        let check = sandbox.ask("--check");
        check.shows(&format!("GPU 2: {text}")).shows(remedy);
        // What a node is drained for: an administrator's mode is no damage, and what is not
        // known may be none.
        let repair = sandbox.ask("-q --check --health");
        if ["prohibited", "unknown_state"].contains(&word) {
            repair.exits(0).prints("");
        } else {
            repair.exits(1).shows(&format!("GPU 2: {text}"));
        }
        let metrics = sandbox.ask("--list --format prometheus").output();
        assert!(
            metrics.contains(&format!("ailment=\"{word}\"}} 1")),
            "{metrics}"
        );
        let run = sandbox.words("cudawrap -- sim-cuda").visible("2").run();
        assert_eq!(run.code(), Some(0), "a device that its user names is used");
        // A program that runs there hides nothing.
        let _program = sandbox.occupy(std::slice::from_ref(&sick), "");
        let listed = listing::json(&sandbox);
        let device = listing::device(&listed, &sick);
        let seen = (&device["processes"][0]["name"], &device["health"][0]);
        assert_eq!(seen, (&"sim-cuda".into(), &word.into()), "{device}");
    }
}

/// It is the whole node's, and MIG devices know nothing of it.
#[test]
fn where_confidential_computing_accepts_no_work_no_gpu_is_handed_out() {
    let sandbox = Sandbox::new(GPUS);
    sandbox.faults(&health("", "accepts_work = false"));
    let text = "confidential computing is on and its GPUs accept no work";
    sandbox
        .ask("")
        .refuses(1, "no free device: 4 of 4 in use (unhealthy 4)");
    sandbox.ask("--list").exits(0).shows(text);
    sandbox
        .ask("--check")
        .shows("nvidia-smi conf-compute -srs 1");
    // It is set up, and no repair is due.
    sandbox.ask("-q --check --health").exits(0).prints("");
    sandbox.faults(&health("", "accepts_work = true"));
    sandbox.ask("--count-free").answers("4\n");
    let mig = Sandbox::new(MIG);
    mig.faults(&health("", "accepts_work = false"));
    mig.ask("--count-free").answers("3\n");
}

#[test]
fn what_is_told_only_stops_nobody() {
    #[rustfmt::skip]
    let cases = [
        ("compute_mode = 3", "exclusive_process"), ("recovery_action = 3", "needs_drain_of_p2p"),
        ("recovery_action = 5", "needs_imex_recovery"), ("rows_pending = true", "row_remap_pending"),
        ("fabric = [3, 999]", "fabric_error"), ("banks_pending = true", "bank_remap_pending"),
    ];
    for (fault, word) in cases {
        let sandbox = Sandbox::new(&newest());
        sandbox.faults(&health("gpu = 0", fault));
        sandbox.ask("--count-free").answers("4\n");
        let listed = listing::json(&sandbox);
        let device = &listing::devices(&listed)[0];
        assert_eq!(
            (&device["state"], &device["health"][0]),
            (&"free".into(), &word.into())
        );
        assert_eq!(until_none_is_free(&sandbox, &[]).len(), 4, "{fault}");
    }
    let older = Sandbox::new("driver = '580.65.06'\n[[gpu]]\nmodel = 'T4'\n");
    older.faults(&health("gpu = 0", "pages_pending = true"));
    let listed = listing::json(&older);
    assert_eq!(
        listing::devices(&listed)[0]["health"][0],
        "page_retirement_pending"
    );
    older.line("--no-reserve");
}

/// The queue was lost there: the broken GPU is always the free one.
#[test]
fn a_sick_gpu_swallows_no_queue() {
    let sandbox = Sandbox::new(GPUS);
    sandbox.faults(&health("gpu = 3", "recovery_action = 1"));
    let sick = sandbox.uuids()[3].clone();
    let job = || {
        sandbox
            .words("cudawrap --wait=60 -- sim-cuda --run 20ms")
            .spawn()
    };
    let jobs: Vec<_> = (0..24).map(|_| job()).collect();
    for job in jobs {
        let ran = job.wait();
        ran.exits(0);
        assert!(!ran.stdout.contains(&sick), "{ran:#?}");
    }
}

#[test]
fn a_call_that_says_the_gpu_is_lost_is_enough() {
    for (code, word) in [(15, "lost"), (16, "needs_reset")] {
        for function in [
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetComputeMode",
            "nvmlDeviceGetFieldValues",
            VALUE,
            "nvmlDeviceGetRemappedRows",
            "nvmlDeviceGetGpuFabricInfoV",
        ] {
            let sandbox = Sandbox::new(GPUS);
            sandbox.faults(&returning(function, code));
            sandbox.ask("--count-free").answers("3\n");
            let listed = listing::json(&sandbox);
            let device = &listing::devices(&listed)[1];
            let found = (&device["state"], &device["health"][0]);
            assert_eq!(found, (&"unhealthy".into(), &word.into()), "{function}");
        }
    }
}

/// A driver, or a library, that does not tell is as one that has nothing to tell.
#[test]
fn what_is_not_supported_changes_nothing() {
    for function in [
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetFieldValues",
        VALUE,
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetGpuFabricInfoV",
    ] {
        for code in [3, 4, 13, 999] {
            let sandbox = Sandbox::new(GPUS);
            sandbox.faults(&returning(function, code));
            sandbox.ask("--count-free").answers("4\n");
        }
    }
}

#[test]
fn a_mig_device_has_a_compute_mode_of_its_own_or_its_gpus() {
    let sandbox = Sandbox::new(MIG);
    let uuids = sandbox.uuids();
    sandbox.faults(&health(
        &format!("device = '{}'", uuids[1]),
        "compute_mode = 2",
    ));
    let picks = until_none_is_free(&sandbox, &[]);
    assert!(picks.len() == 2 && !picks.contains(&uuids[1]), "{picks:?}");
    let check = sandbox.ask("--check");
    check.shows(&format!("{}: compute mode Prohibited", uuids[1]));
    check.shows(&format!("nvidia-smi -i {} -c 0", uuids[1]));
    check.shows(&format!("Prohibited: {}", uuids[1]));
    let listed = listing::json(&sandbox);
    let mode = |uuid: &str| listing::device(&listed, uuid)["compute_mode"].clone();
    assert_eq!(
        (mode(&uuids[0]), mode(&uuids[1])),
        ("default".into(), "prohibited".into())
    );
    // Older drivers have only the GPU's.
    let older = Sandbox::new(&MIG.replace("580.65.06", "550.54.15"));
    older.faults(&health("gpu = 0", "compute_mode = 2"));
    older.ask("--count-free").answers("0\n");
    // A MIG device is as sick as its GPU.
    sandbox.faults(&health("gpu = 0", "recovery_action = 1"));
    sandbox.ask("--release-all").exits(0);
    sandbox.ask("--count-free").answers("0\n");
}

#[test]
fn an_exclusive_device_has_one_share_at_a_time() {
    let sandbox = Sandbox::new(&GPUS.replace("count = 4", "count = 1"));
    sandbox.faults(&health("gpu = 0", "compute_mode = 3"));
    sandbox.ask("--count-free --share 1/2").answers("1\n");
    let first = sandbox
        .words("cudawrap --share 1/2 -- sim-cuda --run forever --shared")
        .spawn();
    wait::until("it runs", || listing::share_used(&sandbox) > 0.0);
    sandbox.ask("--count-free --share 1/2").answers("0\n");
    let second = sandbox.ask("--share 1/2 --explain");
    second
        .exits(1)
        .mentions("unhealthy: compute mode Exclusive_Process: one program at a time");
    // Without the mode there is room for it.
    sandbox.faults("");
    sandbox.ask("--share 1/2 --no-reserve").line();
    drop(first);
}

/// A program that has hung there, with its part of the device, kept the queue going to it.
#[test]
fn a_sick_device_has_no_further_share() {
    let sandbox = Sandbox::new(&GPUS.replace("count = 4", "count = 1"));
    let first = sandbox
        .words("cudawrap --share 1/4 -- sim-cuda --run forever --shared")
        .spawn();
    wait::until("it runs", || listing::share_used(&sandbox) > 0.0);
    sandbox.ask("--count-free --share 1/4").answers("3\n");
    let lost = "[[rule]]\nfunction = 'nvmlDeviceGetComputeMode'\ngpu = 0\nreturns = 15\n";
    let reset = health("gpu = 0", "recovery_action = 1");
    #[rustfmt::skip]
    let cases = [
        (reset.as_str(), "unhealthy: the GPU needs a reset"),
        (&health("gpu = 0", "rows_failed = true"), "unhealthy: a faulty memory row"),
        (lost, "unhealthy: the GPU is lost"),
        (&lost.replace("returns = 15", "does = 'abort'"), "unknown: the process that asks NVML failed there"),
    ];
    for (fault, why) in cases {
        sandbox.faults(fault);
        sandbox.ask("--count-free --share 1/4").answers("0\n");
        let refused = sandbox.ask("--share 1/4 --explain");
        refused.mentions(why);
        assert_ne!(refused.code(), Some(0), "{refused:#?}");
        let run = sandbox.words("cudawrap --share 1/4 -- sim-cuda").run();
        assert_ne!(run.code(), Some(0), "{run:#?}");
    }
    sandbox.faults(&health("gpu = 0", "rows_pending = true"));
    sandbox.ask("--count-free --share 1/4").answers("3\n");
    sandbox.ask("--share 1/4 --no-reserve").line();
    drop(first);
}

#[test]
fn a_pick_asks_one_candidate_and_each_call_once() {
    let sandbox = Sandbox::new("a100x8");
    sandbox.log_calls();
    sandbox.line("--no-reserve");
    let calls = sandbox.calls();
    let count = |name: &str| calls.iter().filter(|call| call.function == name).count();
    assert_eq!(count("attach"), 1, "one GPU is touched");
    let counts = [
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetGpuFabricInfoV",
    ]
    .map(count);
    // Of the MIG device and, as this driver has no mode of that, of its GPU.
    assert_eq!(counts, [2, 1, 0, 0], "{calls:?}");
}

/// The fabric of a GPU in MIG mode is no matter of its MIG devices.
#[test]
fn a_mig_device_needs_no_fabric() {
    let sandbox = Sandbox::new(MIG);
    sandbox.faults(&health("gpu = 0", "fabric = [2, 0]"));
    sandbox.ask("--count-free").answers("3\n");
}

#[test]
fn persistence_mode_that_is_off_is_told() {
    let sandbox = Sandbox::new(GPUS);
    sandbox.faults(&health("gpu = 1", "persistence = false"));
    let check = sandbox.ask("--check");
    check
        .shows("persistence mode is off on GPU 1: ")
        .shows("nvidia-persistenced");
}
