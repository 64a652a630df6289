//! Which device a share goes to, who may share with whom, and how listings show sharers.

use std::collections::BTreeMap;
use std::time::Duration;

use getgpu_tests::{OTHER, listing, loads, somebody};
use harness::{Running, Sandbox, skip};

use crate::shares::sharer;

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
fn a_listing_shows_each_sharer_and_its_part() {
    let sandbox = Sandbox::new("h200x1");
    let _programs = [sharer(&sandbox, "1/4", 3), sharer(&sandbox, "1/2", 3)];
    sandbox.until_running(2);
    let listing = listing::json(&sandbox);
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
fn different_users_share_a_device() {
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
}
