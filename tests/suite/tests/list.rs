//! `--list`, `--list --json` and `--count-free`: what people and programs read, on every
//! kind of node.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, bytes, somebody};
use harness::{Sandbox, wait};
use serde_json::Value;

const NODES: [&str; 13] = [
    "a30x1-4",
    "a100x1",
    "a100x8",
    "16x7",
    "h100x1",
    "h200x1",
    "h200x1-mig",
    "mig4",
    "gpus4",
    "mixed",
    "one-gpu-two-cis",
    "pre470",
    "none",
];

fn json(sandbox: &Sandbox) -> Value {
    let outcome = sandbox.getgpu(["--list", "--json"]).run();
    outcome.exits(0).says(&[]);
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn device<'a>(listing: &'a Value, uuid: &str) -> &'a Value {
    listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|device| device["uuid"] == uuid)
        .unwrap()
}

#[test]
fn the_table_fits_eighty_columns_and_has_a_line_per_device() {
    for node in NODES {
        let sandbox = Sandbox::new(node);
        let _program =
            (node == "a100x1").then(|| sandbox.occupy(&sandbox.uuids()[..1], "--run forever"));
        for option in ["-l", "-L", "--list"] {
            let outcome = sandbox.getgpu([option]).run();
            outcome.exits(0).says(&[]);
            let lines: Vec<&str> = outcome.stdout.lines().collect();
            assert!(
                lines.iter().all(|line| line.chars().count() <= 80),
                "{node}: {}",
                outcome.stdout
            );
            let devices = if node == "none" {
                0
            } else {
                json(&sandbox)["devices"].as_array().unwrap().len()
            };
            assert_eq!(lines.len(), devices + 1, "{node}: {}", outcome.stdout);
        }
    }
}

/// Who keeps a device from everybody is named, to root always and to others where it is a
/// process of their own.
#[test]
fn a_device_under_a_strangers_claim_is_shown_with_the_stranger() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let stranger = bytes::open(&sandbox);
    for (uuid, region) in [(&uuids[1], bytes::LEASE), (&uuids[2], bytes::RESERVATION)] {
        bytes::lock(
            &stranger,
            nix::libc::F_WRLCK,
            bytes::span(uuid) + region,
            bytes::UNITS,
        )
        .unwrap();
    }
    let listing = json(&sandbox);
    let states: Vec<&Value> = uuids
        .iter()
        .map(|uuid| &device(&listing, uuid)["state"])
        .collect();
    assert_eq!(states, ["free", "claimed", "claimed", "free"]);
    let holder = &device(&listing, &uuids[1])["holders"][0];
    assert_eq!(
        (&holder["kind"], &holder["pid"]),
        (&"claim".into(), &std::process::id().into()),
        "{listing}"
    );
    assert_eq!(holder["uid"], nix::unistd::geteuid().as_raw());
    let table = sandbox.getgpu(["--list"]).run();
    let line = table
        .exits(0)
        .says(&[])
        .stdout
        .lines()
        .nth(2)
        .unwrap()
        .to_owned();
    assert!(
        line.contains(" claimed ") && line.contains(&std::process::id().to_string()),
        "{line}"
    );
    if nix::unistd::geteuid().is_root() {
        let table = sandbox.getgpu(["--list"]).uid(OTHER).run();
        table.exits(0).mentions(&format!(
            "getgpu: {}: claimed by a process of another user",
            uuids[1]
        ));
        table.mentions("getgpu: hint: as root, getgpu --list names the process");
    }
    drop(stranger);
    assert!(
        json(&sandbox)["devices"]
            .as_array()
            .unwrap()
            .iter()
            .all(|device| device["state"] == "free")
    );
}

#[test]
fn schema_1_has_these_names() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    sandbox.getgpu(["2"]).run().exits(0);
    let _busy = sandbox.occupy(&uuids[1..2], "--run forever");
    let listing = json(&sandbox);
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(
        names(&listing),
        sorted("schema host time driver lock lock_shared waiting devices problems")
    );
    let fields = "index uuid gpu gpu_uuid gpu_name pci_bus_id mig gpu_instance compute_instance mig_index profile memory_total memory_used \
                  allowed usable excluded state share_used reason holders processes";
    assert_eq!(names(&listing["devices"][0]), sorted(fields));
    assert_eq!(
        (&listing["schema"], &listing["driver"]),
        (&1.into(), &"550.54.15".into())
    );
    let reserved = device(&listing, &uuids[2]);
    assert_eq!(
        names(&reserved["holders"][0]),
        sorted("kind uid user pid program share since tag job task")
    );
    assert_eq!(
        (&reserved["state"], &reserved["holders"][0]["kind"]),
        (&"reserved".into(), &"reservation".into())
    );
    assert_eq!(
        reserved["holders"][0]["pid"],
        std::process::id(),
        "a reservation is shown with its caller"
    );
    let busy = device(&listing, &uuids[1]);
    assert_eq!(names(&busy["processes"][0]), sorted("pid user name memory"));
    assert_eq!(
        (&busy["state"], &busy["processes"][0]["name"]),
        (&"busy".into(), &"sim-cuda".into())
    );
    let free = device(&listing, &uuids[0]);
    assert_eq!(
        (&free["state"], &free["reason"], &free["index"]),
        (&"free".into(), &Value::Null, &0.into())
    );
    assert_eq!(
        (&free["profile"], &free["gpu_instance"], &free["mig"]),
        (&"1g.5gb".into(), &7.into(), &true.into())
    );
}

#[test]
fn a_lease_is_shown_with_its_program_to_every_user() {
    let sandbox = Sandbox::new("mig4");
    let program = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let outcome = somebody(&sandbox, &["--list", "--json"]).run();
    let listing: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let leased: Vec<&Value> = listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|d| d["state"] == "leased")
        .collect();
    assert_eq!(leased.len(), 1);
    let holder = &leased[0]["holders"][0];
    assert_eq!(
        (&holder["kind"], &holder["program"]),
        (&"lease".into(), &"sim-cuda".into())
    );
    assert_eq!(
        (&holder["pid"], &holder["share"]),
        (&program.pid().into(), &1.0.into())
    );
    assert_eq!(holder["uid"], nix::unistd::geteuid().as_raw());
    assert!(holder["since"].as_u64().unwrap() > 1_600_000_000);
    assert_eq!(leased[0]["share_used"], 1.0);
}

#[test]
fn what_nvml_will_not_tell_is_unknown_and_what_is_sick_is_a_problem() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndevice = '{}'\nreturns = 4\n\
         [[rule]]\nfunction = 'nvmlDeviceGetHandleByIndex_v2'\ngpu = 3\nreturns = 15\n",
        uuids[0]
    ));
    let listing = json(&sandbox);
    assert_eq!(device(&listing, &uuids[0])["state"], "unknown");
    assert_eq!(listing["devices"].as_array().unwrap().len(), 49);
    let problems = listing["problems"].as_array().unwrap();
    assert!(
        problems
            .iter()
            .any(|p| p.as_str().unwrap().starts_with("GPU 3: ")),
        "{problems:?}"
    );
    sandbox
        .getgpu(["--count-free"])
        .run()
        .exits(0)
        .prints("48\n");
}

#[test]
fn indices_count_the_pool_and_nothing_else() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox.set_settings(&format!(
        "allowed = ['{}', '{}']\nexcluded = ['{}']",
        uuids[1], uuids[3], uuids[1]
    ));
    let listing = json(&sandbox);
    let index = |n: usize| device(&listing, &uuids[n])["index"].clone();
    assert_eq!(
        [index(0), index(1), index(2), index(3)],
        [Value::Null, Value::Null, Value::Null, 0.into()]
    );
    assert_eq!(device(&listing, &uuids[1])["excluded"], true);
    assert_eq!(device(&listing, &uuids[0])["allowed"], false);
    sandbox.getgpu(["--count-free"]).run().prints("1\n");
}

#[test]
fn a_node_without_devices_is_an_empty_table_and_no_driver_is_status_3() {
    let sandbox = Sandbox::new("none");
    sandbox
        .getgpu(["--count-free"])
        .run()
        .exits(0)
        .prints("0\n");
    assert_eq!(
        sandbox
            .getgpu(["--list"])
            .run()
            .exits(0)
            .stdout
            .lines()
            .count(),
        1
    );
    assert_eq!(json(&sandbox)["devices"], Value::Array(Vec::new()));
    for option in ["--list", "--count-free"] {
        let outcome = sandbox.getgpu([option]).env_remove("SIM_NODE").run();
        outcome
            .exits(3)
            .prints("")
            .says(&["getgpu: no NVIDIA driver on this node"]);
    }
}

#[test]
fn two_users_see_each_others_reservations() {
    let sandbox = Sandbox::new("mig4");
    let given = somebody(&sandbox, &["--for=60"]).run().line();
    let holder = device(&json(&sandbox), &given)["holders"][0].clone();
    let uid = if nix::unistd::geteuid().is_root() {
        OTHER
    } else {
        nix::unistd::geteuid().as_raw()
    };
    assert_eq!(
        (&holder["kind"], &holder["uid"]),
        (&"reservation".into(), &uid.into())
    );
}

#[test]
fn the_first_state_that_applies_is_shown_and_only_free_devices_are_counted() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox.getgpu(["0"]).run().exits(0);
    sandbox.getgpu(["1"]).run().exits(0);
    let _programs = sandbox.occupy(&[uuids[1].clone(), uuids[2].clone()], "");
    let listing = json(&sandbox);
    let states: Vec<&str> = uuids
        .iter()
        .map(|uuid| device(&listing, uuid)["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["reserved", "reserved", "busy", "free"],
        "reserved comes before busy"
    );
    sandbox
        .getgpu(["--count-free"])
        .run()
        .exits(0)
        .prints("1\n");
    somebody(&sandbox, &["--count-free"])
        .run()
        .exits(0)
        .prints("1\n");
    sandbox
        .getgpu(["--count-free"])
        .visible(&uuids[2])
        .run()
        .exits(0)
        .prints("0\n");
}

#[test]
fn the_longest_names_and_numbers_fit_eighty_columns() {
    let sandbox = Sandbox::new("16x7");
    std::fs::hard_link(
        sandbox.path("bin/sim-cuda"),
        sandbox.path("work/a-very-long-program-name"),
    )
    .unwrap();
    let device = sandbox.uuids()[111].clone();
    let command = sandbox
        .command(sandbox.path("work/a-very-long-program-name"))
        .visible(&device);
    let _program = command
        .args(["--run", "forever", "--memory", "4900000000"])
        .spawn();
    sandbox.until_running(1);
    sandbox.set_settings(&format!("excluded = ['{device}']"));
    let table = sandbox.getgpu(["--list"]).run();
    let longest = table.stdout.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|columns| columns <= 80), "{table:#?}");
    let line = table.stdout.lines().last().unwrap();
    assert!(
        line.contains("busy (x)") && line.contains(" a-very"),
        "{line}"
    );
}

/// The kernel keeps 15 bytes of a name, and `CUDAWRAP_` takes nine of them.
#[test]
fn a_wrapped_program_goes_by_its_whole_name() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "simulate", "probe");
    let _run = sandbox
        .command(&app)
        .args(["--out", "ran", "--until", "never"])
        .spawn();
    sandbox.until_file("work/ran");
    let table = sandbox.getgpu(["--list"]).run().exits(0).stdout.clone();
    assert!(
        table
            .lines()
            .any(|line| line.contains("leased") && line.contains(" simulate ")),
        "{table}"
    );
    let listing = json(&sandbox);
    let holders: Vec<&Value> = listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|d| d["holders"].as_array().unwrap())
        .collect();
    assert_eq!(
        (holders.len(), &holders[0]["program"]),
        (1, &"simulate".into())
    );
}

/// SINCE is about the program in the same row.
#[test]
fn a_program_that_never_asked_is_shown_with_its_own_start() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let _programs = sandbox.occupy(&uuids[..1], "");
    let sleeper = sandbox.command("sleep").args(["600"]).spawn();
    wait::until("a second has passed", || {
        sandbox.faults(&format!(
            "[[process]]\ndevice = '{}'\npid = {}\n",
            uuids[1],
            sleeper.pid()
        ));
        let table = sandbox.getgpu(["--list"]).run().exits(0).stdout.clone();
        let since = |row: usize| {
            table
                .lines()
                .nth(row + 1)
                .unwrap()
                .split_whitespace()
                .rev()
                .take(2)
                .collect::<Vec<_>>()
        };
        // `SECONDS s` behind both programs, nothing behind free devices.
        assert!(
            since(0)[0] == "s" && since(1)[0] == "s" && since(2)[0] == "-",
            "{table}"
        );
        since(1)[1].parse::<u32>().unwrap() >= 1
    });
}
