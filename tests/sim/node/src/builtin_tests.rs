//! Every inventory that comes with the simulator loads and has the devices its name
//! promises. Figures that users will see are checked against what real nodes print.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use crate::{Faults, Folder, Inventory, MIB, MigMode, Node, builtin, builtin_names};
use std::collections::HashSet;

fn node(name: &str) -> Node {
    Node::new(&Inventory::parse(builtin(name).unwrap()).unwrap()).unwrap()
}

#[test]
fn each_has_its_devices_all_different() {
    let expected = [
        ("16x7", 16, 112),
        ("a100x1", 1, 7),
        ("a100x8", 8, 56),
        ("a30x1-4", 1, 4),
        ("gpus4", 4, 0),
        ("h100x1", 1, 7),
        ("h200x1", 1, 0),
        ("h200x1-mig", 1, 7),
        ("mig4", 1, 4),
        ("mixed", 4, 3),
        ("none", 0, 0),
        ("one-gpu-two-cis", 1, 2),
        ("pre470", 1, 7),
        ("rtx-pro-6000", 4, 11),
        ("wide535", 1, 7),
    ];
    assert_eq!(
        builtin_names().collect::<Vec<_>>(),
        expected.map(|(name, ..)| name)
    );
    for (name, gpus, migs) in expected {
        let node = node(name);
        assert_eq!(
            (node.gpus.len(), node.mig_devices().count()),
            (gpus, migs),
            "{name}"
        );
        let uuids: HashSet<String> = node
            .device_uuids()
            .into_iter()
            .chain(node.gpus.iter().map(|gpu| gpu.uuid.clone()))
            .collect();
        let whole = node.gpus.iter().filter(|gpu| !gpu.in_mig_mode()).count();
        assert_eq!(
            uuids.len(),
            node.device_uuids().len() + gpus - whole,
            "{name}"
        );
        for (gpu, device) in node.mig_devices() {
            let idle = device.idle / MIB;
            assert!((12..=44).contains(&idle), "{name} {idle}");
            assert!(
                device.memory < gpu.memory && device.attributes.multiprocessors > 0,
                "{name}"
            );
        }
    }
}

#[test]
fn memory_is_what_real_nodes_print() {
    let first = |name: &str| node(name).gpus[0].devices[0].clone();
    assert_eq!(first("a100x1").memory / MIB, 4864);
    assert_eq!(first("a30x1-4").memory / MIB, 5952);
    assert_eq!(first("h100x1").memory / MIB, 9984);
    assert_eq!(first("h200x1-mig").memory / MIB, 16384);
    assert_eq!(first("one-gpu-two-cis").attributes.multiprocessors, 14);
    assert_eq!(first("rtx-pro-6000").memory / MIB, 24192);
}

#[test]
fn mixed_has_holes_and_every_kind_of_gpu() {
    let node = node("mixed");
    let devices = &node.gpus[0].devices;
    assert_eq!(
        devices.iter().map(|d| (d.index, d.gi)).collect::<Vec<_>>(),
        [(0, 2), (2, 3), (5, 9)]
    );
    let modes: Vec<MigMode> = node.gpus.iter().map(|gpu| gpu.mig).collect();
    let on = MigMode::On { pending: true };
    assert_eq!(
        modes,
        [on, on, MigMode::Off { pending: false }, MigMode::Incapable]
    );
}

#[test]
fn rtx_pro_6000_has_every_kind_of_profile() {
    let node = node("rtx-pro-6000");
    let media = |profile: &str| {
        let mut devices = node.mig_devices().map(|(_, device)| device);
        let device = devices.find(|device| device.profile == profile).unwrap();
        let attributes = device.attributes;
        [attributes.decoders, attributes.jpegs, attributes.ofas]
    };
    assert_eq!(media("1g.24gb"), [1, 1, 0]);
    assert_eq!(media("1g.24gb+gfx"), [1, 1, 0]);
    assert_eq!(media("1g.24gb+me"), [1, 1, 1]);
    assert_eq!(media("1g.24gb+me.all"), [4, 4, 1]);
    assert_eq!(media("1g.24gb-me"), [0, 0, 0]);
    assert_eq!(media("4g.96gb+gfx"), [4, 4, 1]);
}

#[test]
fn before_470_mig_devices_are_named_by_gpu_and_instances() {
    let node = node("pre470");
    let gpu = &node.gpus[0];
    assert_eq!(gpu.name, "A100-SXM4-40GB");
    assert_eq!(gpu.devices[2].uuid, format!("MIG-{}/9/0", gpu.uuid));
}

#[test]
fn a_folder_is_open_to_all_users_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::create(dir.path().join("node"), "a100x8").unwrap();
    folder.log_calls().unwrap();
    let mode = |name: &str| folder.path(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(["", "running"].map(mode), [0o777; 2]);
    assert_eq!(
        ["node.toml", "runs.log", "collisions.log", "calls.log"].map(mode),
        [0o666; 4]
    );
    assert_eq!(folder.node().unwrap().mig_devices().count(), 56);
    assert!(folder.set_node("driver = '550'\ngpus = 3\n").is_err());
}

#[test]
fn an_inventory_can_be_written_by_a_program() {
    let inventory = Inventory::parse(builtin("mixed").unwrap()).unwrap();
    assert_eq!(
        Inventory::parse(&inventory.to_text().unwrap()).unwrap(),
        inventory
    );
}

#[test]
fn the_examples_in_the_readme_are_understood() {
    let readme = include_str!("../../README.md");
    let blocks: Vec<&str> = readme
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let node = Node::new(&Inventory::parse(blocks[0]).unwrap()).unwrap();
    assert_eq!((node.gpus.len(), node.mig_devices().count()), (2, 10));
    let faults = Faults::parse(blocks[1]).unwrap();
    assert_eq!(
        (
            faults.rule.len(),
            faults.process.len(),
            faults.latency.attach_ms
        ),
        (1, 1, 3000)
    );
}
