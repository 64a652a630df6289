//! Each driver, kind of GPUs, privilege, namespace and surroundings: a pick, a list and two
//! programs at once. An ordinary run tries every pair of these five, the full size every
//! combination.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use getgpu_tests::{OTHER, all_at_once};
use harness::skip::{self, Need};
use harness::{Command, DRIVERS, Sandbox, is_from};

use crate::driver_matrix::{Kind, Memory, Namespace, Node, Privilege, Surroundings, nodes};

/// A shell with this privilege in this namespace.
fn shell(sandbox: &Sandbox, privilege: Privilege, namespace: Namespace, script: &str) -> Command {
    let user = "setpriv --reuid=1001 --regid=1001 --clear-groups ";
    let (start, uid) = match (privilege, namespace != Namespace::Host) {
        (Privilege::Root, false) => ("", None),
        (Privilege::User, false) => ("", Some(OTHER)),
        (Privilege::NamespaceRoot, false) => ("unshare -Ur ", Some(OTHER)),
        (Privilege::Root, true) => ("unshare -mpf --mount-proc ", None),
        (Privilege::User, true) => (&*format!("unshare -mpf --mount-proc {user}"), None),
        (Privilege::NamespaceRoot, true) => ("unshare -Urmpf --mount-proc ", Some(OTHER)),
    };
    let command = sandbox.words(&format!("{start}sh -c")).args([script]);
    match uid {
        Some(uid) => command.uid(uid),
        None => command,
    }
}

/// A pick, a list, two programs at once, a list of them, and what is left. A program that
/// never asked runs on the first of the three devices, outside of the namespace.
const FREE: &str = "getgpu --no-reserve && getgpu --list --json >DIR/before && \
    { rm -f DIR/over DIR/one DIR/two; cudawrap -- sim-cuda --until-file DIR/over --ready DIR/one >/dev/null & \
      cudawrap -- sim-cuda --until-file DIR/over --ready DIR/two >/dev/null & \
      until [ -e DIR/one ] && [ -e DIR/two ]; do sleep 0.01; done; \
      getgpu --count-free; getgpu --list --json >DIR/during; : >DIR/over; wait; }";

/// The same where NVML says too little of every device: their statuses.
const CLOSED: &str = "getgpu --no-reserve; echo $?; getgpu --list --json >DIR/before; \
    cudawrap -- sim-cuda & one=$!; cudawrap -- sim-cuda; echo $?; wait $one; echo $?; getgpu --count-free";

/// States of devices, and how many processes are listed on them.
struct Expected {
    /// On which nothing runs.
    idle: (&'static str, usize),
    /// With the program that never asked.
    strangers: (&'static str, usize),
}

/// What NVML lets be known. What it does not is not free.
fn expected(driver: &str, kind: &Kind, namespace: Namespace) -> Expected {
    let container = namespace != Namespace::Host;
    let idle = match kind.memory {
        Memory::Own => "free",
        // Nothing shows the processes outside.
        Memory::None | Memory::NumaNode if container => "unknown",
        Memory::None => "free",
        // Older drivers cannot say whose this memory is.
        Memory::NumaNode if is_from(driver, "550") => "free",
        Memory::NumaNode => "busy",
    };
    let strangers = match namespace {
        Namespace::Host | Namespace::Pid => ("busy", 1),
        Namespace::BlindPid => ("unknown", 0),
        Namespace::NamelessPid => ("unknown", 1),
    };
    Expected {
        idle: (idle, 0),
        strangers,
    }
}

/// A listing that a cell wrote is as expected; `held` are leased.
fn assert_listed(file: &Path, uuids: &[String], expected: &Expected, held: &[String], what: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let devices = getgpu_tests::listing::devices(&list);
    let listed: Vec<&str> = devices.iter().filter_map(|d| d["uuid"].as_str()).collect();
    assert_eq!(listed, uuids, "{what}");
    for device in devices {
        let expected = if device["uuid"] == uuids[0] {
            expected.strangers
        } else if held.iter().any(|uuid| device["uuid"] == *uuid) {
            ("leased", 1)
        } else {
            expected.idle
        };
        let processes = device["processes"].as_array().unwrap().len();
        let state = device["state"].as_str().unwrap();
        assert_eq!((state, processes), expected, "{what}: {device}");
    }
}

/// One cell of the matrix.
fn cell(sandbox: &Sandbox, node: &Node, values: (Privilege, Namespace, Surroundings)) {
    let (privilege, namespace, surroundings) = values;
    let driver = DRIVERS[node.driver];
    let what = format!("driver {driver}, {}, {values:?}", node.kind.name);
    sandbox.faults(&format!(
        "foreign_pidns_blind = {}\nforeign_pidns_nameless = {}\nmonitor_is_for_root = {}\n",
        namespace == Namespace::BlindPid,
        namespace == Namespace::NamelessPid,
        surroundings == Surroundings::ClosedParents,
    ));
    let name = format!("work/{privilege:?}-{namespace:?}-{surroundings:?}");
    let directory = sandbox.path(&name);
    let made = sandbox.words(&format!("mkdir -m 777 @/{name}")).run();
    made.exits(0);
    let expected = expected(driver, &node.kind, namespace);
    let free = expected.idle.0 == "free";
    let script = if free { FREE } else { CLOSED };
    let script = script.replace("DIR", &directory.display().to_string());
    let uuids = sandbox.uuids();
    // No memory to speak of where NVML lists it: the entry alone has to tell.
    let is_blind = namespace == Namespace::BlindPid;
    let memory = if is_blind {
        "--memory 300000000"
    } else {
        "--memory 1000"
    };
    let stranger = sandbox.occupy(&uuids[..1], memory);
    let command = shell(sandbox, privilege, namespace, &script);
    let outcome = match surroundings {
        Surroundings::MpsDomains => command.env("NVML_MPS_DEVICE_ENUMERATION", "1").run(),
        _ => command.run(),
    };
    assert_eq!(outcome.code(), Some(0), "{what}: {outcome:#?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let before = directory.join("before");
    assert_listed(&before, &uuids, &expected, &[], &what);
    if free {
        let picked = uuids[1..].iter().any(|uuid| uuid == lines[0]);
        assert!(picked && lines[1..] == ["0"], "{what}: {outcome:#?}");
        let ran = ["one", "two"].map(|name| {
            let text = std::fs::read_to_string(directory.join(name)).unwrap();
            text.split_whitespace().nth(1).unwrap_or("").to_owned()
        });
        let known = ran.iter().all(|uuid| uuids[1..].contains(uuid));
        assert!(ran[0] != ran[1] && known, "{what}: {ran:?}");
        assert_listed(&directory.join("during"), &uuids, &expected, &ran, &what);
    } else {
        assert_eq!(lines, ["1", "75", "75", "0"], "{what}: {outcome:#?}");
        outcome.mentions("getgpu: no free device: 3 of 3 in use (");
    }
    sandbox.assert_exclusive();
    drop(stranger);
    sandbox.assert_clean();
}

#[test]
fn each_driver_kind_user_and_namespace_picks_lists_and_excludes() {
    if skip::lacks(&[Need::Root, Need::Mounts, Need::UserNamespace]) {
        return;
    }
    let tried = AtomicUsize::new(0);
    let nodes = nodes();
    all_at_once(nodes.chunks(nodes.len().div_ceil(4)), |nodes| {
        for node in nodes {
            let driver = DRIVERS[node.driver];
            let sandbox = Sandbox::new(&format!("driver = '{driver}'\n{}", node.kind.gpus));
            for values in &node.cells {
                cell(&sandbox, node, *values);
                tried.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let tried = tried.into_inner();
    let cells: usize = nodes.iter().map(|node| node.cells.len()).sum();
    println!("{tried} cells: a pick, a list and two programs at once in each");
    assert_eq!(tried, cells);
}
