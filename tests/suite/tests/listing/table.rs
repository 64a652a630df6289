//! `--list`: a line for each device, within 80 columns, for every user.

use getgpu_tests::wrapped::{wrap, wrap_shell};
use getgpu_tests::{OTHER, bytes, listing};
use harness::{Sandbox, skip, wait};
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
                listing::json(&sandbox)["devices"].as_array().unwrap().len()
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
    let listing = listing::json(&sandbox);
    let states: Vec<&Value> = uuids
        .iter()
        .map(|uuid| &listing::device(&listing, uuid)["state"])
        .collect();
    assert_eq!(states, ["free", "claimed", "claimed", "free"]);
    let holder = &listing::device(&listing, &uuids[1])["holders"][0];
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
        listing::json(&sandbox)["devices"]
            .as_array()
            .unwrap()
            .iter()
            .all(|device| device["state"] == "free")
    );
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
    assert_eq!(listing::json(&sandbox)["devices"], Value::Array(Vec::new()));
    for option in ["--list", "--count-free"] {
        let outcome = sandbox.getgpu([option]).env_remove("SIM_NODE").run();
        outcome
            .exits(3)
            .prints("")
            .says(&["getgpu: no NVIDIA driver on this node"]);
    }
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

/// The mark of an excluded device is never cut off, whatever its state.
#[test]
fn an_excluded_device_is_shown_as_such_also_in_use() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let _leased = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .visible(&uuids[1])
        .spawn();
    let _shared = sandbox
        .command("cudawrap")
        .args(["--share=1/4", "--", "sim-cuda", "--run", "forever"])
        .visible(&uuids[2])
        .spawn();
    sandbox.until_running(2);
    sandbox.getgpu(["3"]).run().exits(0);
    let part = sandbox
        .getgpu(["--share=1/4", "--hold"])
        .visible(&uuids[4])
        .run();
    part.exits(0);
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndevice = '{}'\nreturns = 4\n\
         [[memory]]\ndevice = '{}'\nused_mib = 900\n",
        uuids[5], uuids[6]
    ));
    let all: Vec<String> = uuids.iter().map(|uuid| format!("'{uuid}'")).collect();
    sandbox.set_settings(&format!("excluded = [{}]", all.join(", ")));
    let table = sandbox.getgpu(["--list"]).run();
    let lines: Vec<&str> = table.exits(0).stdout.lines().skip(1).collect();
    let states = [
        "excluded",
        "leased (x)",
        "shared (x)",
        "res. (x)",
        "res. (x)",
        "unknown(x)",
        "busy (x)",
    ];
    assert_eq!(lines.len(), states.len(), "{table:#?}");
    for (line, state) in lines.iter().zip(states) {
        assert!(line.contains(&format!(" {state} ")), "{state}: {table:#?}");
    }
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
    let listing = listing::json(&sandbox);
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

/// Also where it is the caller that a reservation is for.
#[test]
fn a_wrapped_program_that_reserves_goes_by_its_whole_name() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap_shell(&sandbox, "opt", "simulate");
    let script = "unset CUDA_VISIBLE_DEVICES; getgpu --hold > given; mv given ran; kill -STOP $$";
    let _run = sandbox.command(&app).args(["-c", script]).spawn();
    sandbox.until_file("work/ran");
    let listing = listing::json(&sandbox);
    let holders = listing["devices"].as_array().unwrap().iter();
    let mut holders: Vec<(&Value, &Value)> = holders
        .flat_map(|device| device["holders"].as_array().unwrap())
        .map(|holder| (&holder["kind"], &holder["program"]))
        .collect();
    holders.sort_by_key(|(kind, _)| kind.as_str().unwrap().to_owned());
    let simulate: &Value = &"simulate".into();
    assert_eq!(
        holders,
        [
            (&"lease".into(), simulate),
            (&"reservation".into(), simulate)
        ]
    );
}

/// SINCE is about the program in the same row.
#[test]
fn a_row_says_whose_program_runs_on_somebody_elses_device() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox
        .getgpu(["--hold=1"])
        .visible(&uuids[0])
        .run()
        .exits(0);
    let other = sandbox
        .command("sim-cuda")
        .args(["--run", "forever"])
        .visible(&uuids[0])
        .uid(OTHER)
        .spawn();
    sandbox.until_running(1);
    let list = sandbox.getgpu(["--list"]).run();
    let row = list.exits(0).stdout.lines().nth(1).unwrap().to_owned();
    for part in ["; also ", &format!(" {} ", other.pid()), " sim-cuda "] {
        assert!(row.contains(part), "{part}: {row}");
    }
}

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

#[test]
fn a_listing_asks_at_most_nine_calls_for_a_device() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    let calls = || {
        sandbox.folder().log_calls().unwrap();
        sandbox.getgpu(["--list"]).run().exits(0).says(&[]);
        let calls = sandbox.folder().calls().unwrap();
        calls.len() - sandbox.folder().attaches().unwrap().len()
    };
    let idle = calls();
    let _programs = sandbox.occupy(&uuids[..uuids.len() / 2], "");
    let half = calls();
    assert!(idle.max(half) <= 9 * uuids.len(), "{idle}, {half}");
}
