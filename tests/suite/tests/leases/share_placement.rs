//! Which device a share goes to, who may share with whom, and how listings show sharers.

use getgpu_tests::{listing, loads};
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
    assert_eq!(device["state"], "shared");
    assert_eq!(device["share_used"], 0.75);
    let mut parts = listing::shares(device, "lease");
    parts.sort_by(f64::total_cmp);
    assert_eq!(parts, [0.25, 0.5]);
    let table = sandbox.ask("--list");
    assert_eq!(table.shows("shared 75%").stdout.lines().count(), 4);
    sandbox.ask("--share=1/4").exits(0);
    let table = sandbox.ask("--list");
    table.shows("shared all").shows("res. 25%");
}
