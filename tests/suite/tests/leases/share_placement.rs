//! Which device a share goes to, who may share with whom, and how listings show sharers.

use std::collections::BTreeMap;
use std::time::Duration;

use getgpu_tests::{as_other_user, listing, loads, root, somebody};
use harness::{Running, Sandbox};

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
    for (policy, expected) in [("first", 0), ("last", 3), ("pack", 2)] {
        let line = sandbox.line(&format!("--share=1/8 --no-reserve --policy={policy}"));
        assert_eq!(place(line), expected, "{policy}");
    }
}

#[test]
fn fifty_at_once_are_spread_evenly() {
    let sandbox = Sandbox::new("mig4");
    let start = |number: u32| {
        let command = sandbox.words("getgpu --share 1/16 --for=600");
        let command = command.limit(Duration::from_secs(60));
        match number % 2 {
            1 => as_other_user(command).spawn(),
            _ => command.spawn(),
        }
    };
    let started: Vec<Running> = (0..50).map(start).collect();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for running in started {
        *counts.entry(running.wait().line()).or_default() += 1;
    }
    println!("50 shares of 1/16 on 4 devices: {:?}", counts.values());
    let least = counts.values().min().unwrap();
    let most = counts.values().max().unwrap();
    assert!(counts.len() == 4 && most - least <= 1, "{counts:?}");
}

#[test]
fn a_program_that_never_asked_keeps_sharers_away_unlike_sharers() {
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
    sandbox.ask("--share 1/2").refuses(1, "other programs 1");
    assert!(sandbox.collisions().is_empty());
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
    let mut parts = listing::shares(device, "lease");
    parts.sort_by(f64::total_cmp);
    assert_eq!(parts, [0.25, 0.5]);
    let table = sandbox.ask("--list").stdout;
    assert!(
        table.contains("shared 75%") && table.lines().count() == 4,
        "{table}"
    );
    let reserved = sandbox.ask("--share=1/4");
    reserved.exits(0);
    let table = sandbox.ask("--list").stdout;
    assert!(
        table.contains("shared all") && table.contains("res. 25%"),
        "{table}"
    );
}

#[test]
fn different_users_share_a_device() {
    let Some(sandbox) = root("mig4") else { return };
    let own = sandbox.line("--share=1/4 --for=600");
    let words = ["--share=1/4", "--gpu", &own, "--no-reserve"];
    assert_eq!(somebody(&sandbox, &words).run().line(), own);
}
