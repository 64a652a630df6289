//! A node of different GPUs, which CUDA counts with the fastest first and NVML by their PCI
//! addresses: a program runs on the device that was leased for it.

use getgpu_tests::wrapped::{wrap, wrap_script};
use getgpu_tests::{first_line, listing};
use harness::{Sandbox, wait};

/// The slowest first, as NVML lists them.
const MIXED: &str =
    "driver = '550.54.15'\n[[gpu]]\nmodel = 'T4'\n[[gpu]]\nmodel = 'H100-80GB'\ncount = 3\n";

/// What a program runs on by an index, and by which order.
#[track_caller]
fn runs_on(sandbox: &Sandbox, start: &str, value: &str, order: Option<&str>) -> String {
    let mut command = sandbox.words(start).visible(value);
    if let Some(order) = order {
        command = command.env("CUDA_DEVICE_ORDER", order);
    }
    let program = command.spawn();
    let line = first_line(&program);
    let uuid = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let device = listing::device(&listing::json(sandbox), &uuid)["state"].clone();
    assert_eq!(device, "leased", "{start} {value}: {line}");
    drop(program);
    wait::until("it has exited", || sandbox.running() == 0);
    uuid
}

#[test]
fn an_index_runs_where_it_is_leased() {
    let sandbox = Sandbox::new(MIXED);
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let uuids = sandbox.uuids();
    for order in [None, Some("FASTEST_FIRST"), Some("PCI_BUS_ID")] {
        for index in [0, 1, 3] {
            for start in [
                "@/opt/app --run forever",
                "cudawrap -- sim-cuda --run forever",
            ] {
                let uuid = runs_on(&sandbox, start, &index.to_string(), order);
                assert_eq!(uuid, uuids[index], "{order:?}");
            }
        }
        let all = "cudawrap --visible all -- sim-cuda --run forever";
        assert_eq!(runs_on(&sandbox, all, "0,3", order), uuids[0], "{order:?}");
    }
}

#[test]
fn an_index_that_is_printed_and_the_check_name_the_order() {
    let sandbox = Sandbox::new(MIXED);
    let said = "GPUs of different models";
    let index = sandbox.ask("-v --format index --no-reserve");
    index
        .exits(0)
        .mentions(said)
        .mentions("CUDA_DEVICE_ORDER=PCI_BUS_ID");
    sandbox.ask("--check").shows(said);
    let equal = Sandbox::new("gpus4");
    let index = equal.ask("-v --format index --no-reserve");
    assert!(!index.stderr.contains(said), "{index:?}");
    let check = equal.ask("--check");
    assert!(!check.stdout.contains(said), "{check:?}");
}

/// Only there the variable changes, and not where the user has the order of NVML.
#[test]
fn the_variable_stays_where_the_order_is_one() {
    let (mixed, equal) = (Sandbox::new(MIXED), Sandbox::new("gpus4"));
    for sandbox in [&mixed, &equal] {
        wrap_script(
            sandbox,
            "opt",
            "app",
            "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\n",
        );
    }
    let shown = |sandbox: &Sandbox, order: &str| {
        let command = sandbox.words("@/opt/app").visible("1");
        let run = command.env("CUDA_DEVICE_ORDER", order).run();
        run.exits(0).line()
    };
    assert_eq!(shown(&equal, "FASTEST_FIRST"), "1");
    assert_eq!(shown(&mixed, "PCI_BUS_ID"), "1");
    assert_eq!(shown(&mixed, "FASTEST_FIRST"), mixed.uuids()[1]);
}
