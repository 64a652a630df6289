//! `--list`: a line for each device, within 80 columns, for every user.

use getgpu_tests::{OTHER, bytes, listing, root};
use harness::{Sandbox, wait};

#[rustfmt::skip]
const NODES: [&str; 13] = [
    "a30x1-4", "a100x1", "a100x8", "16x7", "h100x1", "h200x1", "h200x1-mig", "mig4", "gpus4",
    "mixed", "one-gpu-two-cis", "pre470", "none",
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
            let mut widths = lines.iter().map(|line| line.chars().count());
            assert!(widths.all(|width| width <= 80), "{node}: {outcome:#?}");
            let devices = listing::devices(&listing::json(&sandbox)).len();
            // The headings before, the total behind.
            assert_eq!(lines.len(), devices + 2, "{node}: {}", outcome.stdout);
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
        let start = bytes::span(uuid) + region;
        bytes::lock(&stranger, nix::libc::F_WRLCK, start, bytes::UNITS).unwrap();
    }
    let states = listing::states(&sandbox);
    assert_eq!(states, ["free", "claimed", "claimed", "free"]);
    let listing = listing::json(&sandbox);
    let holder = &listing::device(&listing, &uuids[1])["holders"][0];
    assert_eq!(holder["kind"], "claim", "{listing}");
    assert_eq!(holder["pid"], std::process::id());
    assert_eq!(holder["uid"], nix::unistd::geteuid().as_raw());
    let table = sandbox.ask("--list");
    let line = table.exits(0).says(&[]).stdout.lines().nth(2).unwrap();
    assert!(line.contains(" claimed ") && line.contains(&std::process::id().to_string()));
    if nix::unistd::geteuid().is_root() {
        let table = sandbox.ask_as(OTHER, "--list");
        let line = format!("getgpu: {}: claimed by a process of another user", uuids[1]);
        table.exits(0).mentions(&line);
        table.mentions("getgpu: hint: as root, getgpu --list names the process");
    }
    drop(stranger);
    assert_eq!(listing::states(&sandbox), ["free"; 4]);
}

/// The mark of an excluded device is never cut off, whatever its state.
#[test]
fn an_excluded_device_is_shown_as_such_also_in_use() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let _leased = sandbox.leased().visible(&uuids[1]).spawn();
    let shared = sandbox.words("cudawrap --share=1/4 -- sim-cuda --run forever");
    let _shared = shared.visible(&uuids[2]).spawn();
    sandbox.until_running(2);
    sandbox.ask("3").exits(0);
    let part = sandbox.ask_within(&uuids[4], "--share=1/4 --hold");
    part.exits(0);
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndevice = '{}'\nreturns = 4\n\
         [[memory]]\ndevice = '{}'\nused_mib = 900\n",
        uuids[5], uuids[6]
    ));
    let all: Vec<String> = uuids.iter().map(|uuid| format!("'{uuid}'")).collect();
    sandbox.set_settings(&format!("excluded = [{}]", all.join(", ")));
    let table = sandbox.ask("--list");
    let lines: Vec<&str> = table.exits(0).stdout.lines().skip(1).collect();
    let (total, lines) = lines.split_last().unwrap();
    assert!(total.starts_with("0 of 0 free"), "{table:#?}");
    assert!(total.contains("; 7 outside your choice"), "{table:#?}");
    // What the lock shows is everyone's to see; the GPU is asked for root alone.
    let is_root = nix::unistd::geteuid().is_root();
    let [unknown, busy] = if is_root {
        ["unknown(x)", "busy (x)"]
    } else {
        ["excluded"; 2]
    };
    #[rustfmt::skip]
    let states = [
        "excluded", "leased (x)", "shared (x)", "res. (x)", "res. (x)", unknown, busy,
    ];
    assert_eq!(lines.len(), states.len(), "{table:#?}");
    for (line, state) in lines.iter().zip(states) {
        assert!(line.contains(&format!(" {state} ")), "{state}: {table:#?}");
    }
}

/// SINCE is about the program in the same row.
#[test]
fn a_row_says_whose_program_runs_on_somebody_elses_device() {
    let Some(sandbox) = root("mig4") else { return };
    let uuids = sandbox.uuids();
    sandbox.ask_within(&uuids[0], "--hold=1").exits(0);
    let other = sandbox.words("sim-cuda --run forever").visible(&uuids[0]);
    let other = other.uid(OTHER).spawn();
    sandbox.until_running(1);
    let list = sandbox.ask("--list").output();
    let row = list.lines().nth(1).unwrap();
    for part in ["; also ", &format!(" {} ", other.pid()), " sim-cuda "] {
        assert!(row.contains(part), "{part}: {row}");
    }
}

#[test]
fn a_program_that_never_asked_is_shown_with_its_own_start() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let _programs = sandbox.occupy(&uuids[..1], "");
    let sleeper = sandbox.words("sleep 600").spawn();
    wait::until("a second has passed", || {
        let (device, pid) = (&uuids[1], sleeper.pid());
        sandbox.faults(&format!("[[process]]\ndevice = '{device}'\npid = {pid}\n"));
        let table = sandbox.ask("--list").output();
        let since = |row: usize| {
            let words = table.lines().nth(row + 1).unwrap().split_whitespace();
            words.rev().take(2).collect::<Vec<_>>()
        };
        // `SECONDS s` behind both programs, nothing behind free devices.
        let ends = [0, 1, 2].map(|row| since(row)[0]);
        assert_eq!(ends, ["s", "s", "-"], "{table}");
        since(1)[1].parse::<u32>().unwrap() >= 1
    });
}

#[test]
fn a_listing_asks_at_most_nine_calls_for_a_device() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    let calls = || {
        sandbox.log_calls();
        sandbox.ask("--list").exits(0).says(&[]);
        let calls = sandbox.calls();
        calls.len() - sandbox.folder().attaches().unwrap().len()
    };
    let idle = calls();
    let _programs = sandbox.occupy(&uuids[..uuids.len() / 2], "");
    let half = calls();
    let devices = uuids.len();
    assert!(
        idle.max(half) <= 9 * devices,
        "{idle} calls of NVML for {devices} idle devices, {half} with half of them in use: \
         ask once for each GPU, or only for a listing that shows it"
    );
}
