//! Parts of devices: k programs of 1/k fit and never one more, whole and parts exclude
//! each other, and a part comes back alone. What is judged is the simulated programs' own
//! log: `--max K` makes one that meets K others say so.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, all_at_once, somebody};
use harness::{Running, Sandbox, Signal, skip, wait};

fn sharer(sandbox: &Sandbox, share: &str, most: u32) -> Running {
    let most = most.to_string();
    let program = ["--", "sim-cuda", "--run", "forever", "--max", &most];
    sandbox
        .command("cudawrap")
        .args(["--share", share])
        .args(program)
        .limit(Duration::from_secs(600))
        .spawn()
}

fn loads(sandbox: &Sandbox) -> BTreeMap<String, usize> {
    let mut loads: BTreeMap<String, usize> =
        sandbox.uuids().into_iter().map(|uuid| (uuid, 0)).collect();
    for context in sandbox.folder().running().unwrap() {
        *loads.get_mut(&context.uuid).unwrap() += 1;
    }
    loads
}

#[test]
fn exactly_k_programs_of_one_kth_fit_for_every_k() {
    // Two nodes at a time, since most of it is starting processes.
    all_at_once([0, 1], |half| {
        let sandbox = Sandbox::new("h200x1");
        for k in (2..=64).chain([100]).filter(|k| k % 2 == half) {
            let share = format!("1/{k}");
            for _ in 0..k {
                sandbox
                    .getgpu(["--share", &share, "--for=600"])
                    .run()
                    .line();
            }
            sandbox.getgpu(["--share", &share]).run().refuses(
                "getgpu",
                1,
                "1 of 1 in use (reserved 1)",
            );
            assert_eq!(
                sandbox
                    .getgpu(["--count-free", "--share", &share])
                    .run()
                    .line(),
                "0"
            );
            sandbox
                .getgpu(["--release-all"])
                .limit(Duration::from_secs(60))
                .run()
                .exits(0);
        }
        sandbox.assert_clean(Duration::ZERO);
    });
}

#[test]
fn whole_and_parts_exclude_each_other() {
    let sandbox = Sandbox::new("h200x1");
    let half = sharer(&sandbox, "1/2", 2);
    sandbox.until_running(1);
    for plain in [
        &["--no-reserve"][..],
        &["--share=1", "--no-reserve"],
        &["--share", "2/3", "--no-reserve"],
    ] {
        sandbox
            .getgpu(plain)
            .run()
            .refuses("getgpu", 1, "no free device: 1 of 1 in use");
    }
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .run()
        .refuses("cudawrap", 75, "1 of 1 in use");
    let other = sharer(&sandbox, "50%", 2);
    sandbox.until_running(2);
    half.signal(Signal::SIGKILL);
    half.wait();
    sandbox
        .getgpu(["--no-reserve", "--share", "0.5"])
        .run()
        .line();
    sandbox.getgpu(["--no-reserve"]).run().exits(1);
    other.signal(Signal::SIGKILL);
    other.wait();
    let whole = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    sandbox
        .getgpu(["--no-reserve", "--share", "1/848"])
        .run()
        .refuses("getgpu", 1, "1 of 1 in use");
    drop(whole);
    sandbox.assert_exclusive();
}

#[test]
fn parts_in_pieces_are_still_parts() {
    let sandbox = Sandbox::new("h200x1");
    let hold = |share: &str| sandbox.getgpu(["--share", share, "--for=600"]).run().line();
    // Six sixths, of which every second is given back: half is free, in three pieces.
    for _ in 0..6 {
        hold("1/6");
    }
    let mut holders = sandbox.holders();
    holders.sort_by_key(|holder| holder.pid);
    for holder in holders.iter().step_by(2) {
        let kill = format!("kill {}", holder.pid);
        sandbox.shell("dash", &kill).run().exits(0);
    }
    wait::until("three are left", || sandbox.holders().len() == 3);
    assert_eq!(
        sandbox
            .getgpu(["--count-free", "--share", "1/6"])
            .run()
            .line(),
        "3"
    );
    let half = sharer(&sandbox, "1/2", 9);
    sandbox.until_running(1);
    sandbox.getgpu(["--share", "1/848"]).run().exits(1);
    half.signal(Signal::SIGKILL);
    half.wait();
    hold("1/2");
}

#[test]
fn shares_go_to_the_least_loaded_device_and_the_lowest_on_ties() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let pick = |share: &str| sandbox.getgpu(["--share", share, "--for=600"]).run().line();
    let place = |uuid: String| uuids.iter().position(|known| *known == uuid).unwrap();
    let picks: Vec<usize> = ["1/4", "1/2", "1/8", "1/4", "1/8", "1/8", "1/2"]
        .map(|share| place(pick(share)))
        .into();
    assert_eq!(
        picks,
        [0, 1, 2, 3, 2, 0, 2],
        "loads afterwards: 3/8, 1/2, 3/4, 1/4"
    );
    assert_eq!(
        place(
            sandbox
                .getgpu(["--share=1/8", "--no-reserve", "--policy=first"])
                .run()
                .line()
        ),
        0
    );
    assert_eq!(
        place(
            sandbox
                .getgpu(["--share=1/8", "--no-reserve", "--policy=last"])
                .run()
                .line()
        ),
        3
    );
    assert_eq!(
        place(
            sandbox
                .getgpu(["--share=1/8", "--no-reserve", "--policy=pack"])
                .run()
                .line()
        ),
        2
    );
}

#[test]
fn fifty_at_once_are_spread_evenly() {
    let sandbox = Sandbox::new("mig4");
    let start = |number: u32| {
        let command = sandbox
            .getgpu(["--share", "1/16", "--for=600"])
            .limit(Duration::from_secs(60));
        (if nix::unistd::geteuid().is_root() && number % 2 == 1 {
            command.uid(OTHER)
        } else {
            command
        })
        .spawn()
    };
    let started: Vec<Running> = (0..50).map(start).collect();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for running in started {
        *counts.entry(running.wait().line()).or_default() += 1;
    }
    println!(
        "50 shares of 1/16 on 4 devices: {:?}",
        counts.values().collect::<Vec<_>>()
    );
    let (least, most) = (
        counts.values().min().unwrap(),
        counts.values().max().unwrap(),
    );
    assert!(counts.len() == 4 && most - least <= 1, "{counts:?}");
}

#[test]
fn a_program_that_never_asked_keeps_sharers_away_but_sharers_do_not() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let _stranger = sandbox.occupy(&uuids[..1], "--memory 1000 --shared");
    let _first = sharer(&sandbox, "1/2", 2);
    sandbox.until_running(2);
    let _second: Vec<Running> = (0..5).map(|_| sharer(&sandbox, "1/2", 2)).collect();
    sandbox.until_running(7);
    let loads = loads(&sandbox);
    assert_eq!(
        uuids.iter().map(|uuid| loads[uuid]).collect::<Vec<_>>(),
        [1, 2, 2, 2]
    );
    sandbox
        .getgpu(["--share", "1/2"])
        .run()
        .refuses("getgpu", 1, "other programs 1");
    assert!(sandbox.folder().collisions().unwrap().is_empty());
}

#[test]
fn a_share_by_size_is_a_part_of_each_device() {
    let sandbox = Sandbox::new("h200x1-mig");
    // 16 GiB each: three times 5 G, not four.
    for _ in 0..21 {
        sandbox.getgpu(["--share", "5G", "--for=600"]).run().line();
    }
    sandbox.getgpu(["--share", "5G"]).run().exits(1);
    let listing = sandbox.getgpu(["--list", "--json"]).run().stdout;
    let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
    let used = listing["devices"][0]["share_used"].as_f64().unwrap();
    assert!((used - 15.0 / 16.0).abs() < 0.001, "{listing}");
}

#[test]
fn a_share_larger_than_the_device_takes_nothing_of_any_other() {
    let sandbox = Sandbox::new("a100x8");
    let grant = sandbox.uuids()[0].clone();
    let free = || sandbox.getgpu(["--count-free"]).run().line();
    let all = free();
    let app = wrap(&sandbox, "work", "app", "sim-cuda");
    for around in ["", "lease", "reservation"] {
        let script = format!(
            "cudawrap --share 600G -- true; echo $?; getgpu --share 600G; echo $?; CUDAWRAP_SHARE=600G {} --run 0.05; getgpu --list --json",
            app.display()
        );
        let shell = match around {
            "lease" => sandbox
                .command("cudawrap")
                .args(["--", "bash", "-c", &script])
                .visible(&grant),
            "reservation" => sandbox.shell(
                "bash",
                &format!("export CUDA_VISIBLE_DEVICES=$(getgpu --hold); {script}"),
            ),
            _ => sandbox.shell("bash", &script).visible(&grant),
        };
        let outcome = shell.limit(Duration::from_secs(20)).run();
        let lines: Vec<&str> = outcome.exits(0).stdout.lines().collect();
        assert_eq!((lines[0], lines[1]), ("125", "3"), "{around}: {outcome:#?}");
        assert!(
            lines[2].starts_with("RUN "),
            "a linked program runs: {outcome:#?}"
        );
        outcome.mentions("cudawrap: --share 600G: ");
        let listing: serde_json::Value = serde_json::from_str(lines[3]).unwrap();
        for device in listing["devices"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|device| device["uuid"] != grant.as_str())
        {
            assert!(
                device["holders"].as_array().unwrap().len() <= 1,
                "{around}: {device}"
            );
        }
        wait::until("all are free again", || free() == all);
    }
}

#[test]
fn a_listing_shows_each_sharer_and_its_part() {
    let sandbox = Sandbox::new("h200x1");
    let _programs = [sharer(&sandbox, "1/4", 3), sharer(&sandbox, "1/2", 3)];
    sandbox.until_running(2);
    let json = sandbox.getgpu(["--list", "--json"]).run().stdout;
    let listing: serde_json::Value = serde_json::from_str(&json).unwrap();
    let device = &listing["devices"][0];
    assert_eq!(
        (device["state"].as_str(), device["share_used"].as_f64()),
        (Some("shared"), Some(0.75))
    );
    let mut parts: Vec<f64> = device["holders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|holder| holder["share"].as_f64().unwrap())
        .collect();
    parts.sort_by(f64::total_cmp);
    assert_eq!(parts, [0.25, 0.5]);
    let table = sandbox.getgpu(["--list"]).run().stdout;
    assert!(
        table.contains("shared 75%") && table.lines().count() == 3,
        "{table}"
    );
    let reserved = sandbox.getgpu(["--share=1/4"]).run();
    reserved.exits(0);
    let table = sandbox.getgpu(["--list"]).run().stdout;
    assert!(
        table.contains("shared all") && table.contains("res. 25%"),
        "{table}"
    );
}

#[test]
fn users_share_a_device_unless_the_site_says_otherwise() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let own = sandbox.getgpu(["--share=1/4", "--for=600"]).run().line();
    assert_eq!(
        somebody(&sandbox, &["--share=1/4", "--gpu", &own, "--no-reserve"])
            .run()
            .line(),
        own
    );
    sandbox.set_settings("share_users = 'same'");
    let theirs = somebody(&sandbox, &["--share=1/4", "--for=600"])
        .run()
        .line();
    assert_ne!(own, theirs);
    somebody(&sandbox, &["--share=1/4", "--gpu", &own])
        .run()
        .refuses("getgpu", 1, "1 of 1 in use");
    assert_eq!(
        somebody(&sandbox, &["--share=1/4", "--gpu", &theirs, "--no-reserve"])
            .run()
            .line(),
        theirs
    );
    assert_eq!(
        somebody(&sandbox, &["--count-free", "--share=1/4", "--gpu", &own])
            .run()
            .line(),
        "0"
    );
    // Who has a share stays, whoever else asks at the same time.
    let hog = "while :; do getgpu -q --share=1/4 --gpu $0 --no-reserve 2>/dev/null; done";
    let hogs = [1u32, 2].map(|uid| sandbox.shell("bash", hog).args([&theirs]).uid(uid).spawn());
    for _ in 0..10 {
        assert_eq!(
            somebody(&sandbox, &["--share=1/4", "--gpu", &theirs, "--no-reserve"])
                .run()
                .line(),
            theirs
        );
    }
    drop(hogs);
    // Two users at the same instant, on one device: never both.
    let sandbox = Sandbox::builder("h200x1")
        .settings("share_users = 'same'")
        .build();
    for _ in 0..15 {
        let start = |uid| {
            sandbox
                .getgpu(["-q", "--share=1/8", "--for=600"])
                .uid(uid)
                .spawn()
        };
        let started: Vec<Running> = [1001, 1002, 1003, 1001, 1002, 1003].map(start).into();
        let codes: Vec<Option<i32>> = started
            .into_iter()
            .map(|running| running.wait().code())
            .collect();
        let users: std::collections::BTreeSet<u32> =
            sandbox.holders().iter().map(|holder| holder.uid).collect();
        assert!(
            users.len() <= 1 && codes.iter().all(|code| matches!(code, Some(0 | 1))),
            "{users:?} {codes:?}"
        );
        assert!(codes.contains(&Some(0)), "somebody gets it");
        sandbox.getgpu(["--release-all"]).run().exits(0);
    }
    // And on two devices at a time.
    let sandbox = Sandbox::builder("gpus4")
        .settings("share_users = 'same'")
        .build();
    for _ in 0..15 {
        let start = |uid| {
            sandbox
                .getgpu(["-q", "-n", "3", "--share=1/8", "--for=600"])
                .uid(uid)
                .spawn()
        };
        let started: Vec<Running> = [1001, 1002, 1003, 1001, 1002, 1003].map(start).into();
        let codes: Vec<Option<i32>> = started
            .into_iter()
            .map(|running| running.wait().code())
            .collect();
        let users: std::collections::BTreeSet<u32> =
            sandbox.holders().iter().map(|holder| holder.uid).collect();
        assert!(
            users.len() == 1,
            "three of four devices: two users would meet: {users:?} {codes:?}"
        );
        sandbox.getgpu(["--release-all"]).run().exits(0);
    }
}

#[test]
fn frameworks_are_told_what_a_share_is() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "probe");
    let shown = |share: Option<&str>, settings: &str, own: Option<&str>| {
        sandbox.set_settings(settings);
        let mut command = share.map_or_else(
            || sandbox.command(&app),
            |share| sandbox.command(&app).env("CUDAWRAP_SHARE", share),
        );
        if let Some(own) = own {
            command = command.env("XLA_PYTHON_CLIENT_MEM_FRACTION", own);
        }
        let facts = getgpu_tests::wrapped::Facts::parse(&command.run().exits(0).stdout);
        let get = |name: &str| facts.get(&format!("env {name}")).map(str::to_owned);
        (
            get("TF_FORCE_GPU_ALLOW_GROWTH"),
            get("XLA_PYTHON_CLIENT_MEM_FRACTION"),
        )
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(shown(None, "", None), (None, None));
    assert_eq!(shown(Some("1/2"), "", None), (some("true"), some("0.45")));
    assert_eq!(
        shown(Some("1/4"), "", Some("0.1")),
        (some("true"), some("0.1")),
        "what is set stays"
    );
    assert_eq!(
        shown(Some("1/2"), "framework_memory = false", None),
        (None, None)
    );
    assert_eq!(
        shown(None, "share = '25%'", None),
        (some("true"), some("0.225"))
    );
}
