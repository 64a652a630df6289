//! Each driver, kind of device, privilege and namespace: a pick, a list and two programs at
//! once. An ordinary run tries every pair of these four, the full size every combination.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use getgpu_tests::{OTHER, all_at_once};
use harness::skip::{self, Need};
use harness::{Command, DRIVERS, Driver, Sandbox, full};

/// Three devices of each kind that one call may choose from.
const KINDS: [(&str, &str); 3] = [
    (
        "MIG",
        "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '3x1g.5gb'\n",
    ),
    (
        "whole GPUs",
        "[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 2\n[[gpu]]\nmodel = 'T4'\n",
    ),
    (
        "MIG beside whole GPUs",
        "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n\
         device = [{ gi = 2, profile = '3g.20gb', index = 0 }, { gi = 9, profile = '1g.5gb', index = 4 }, \
         { gi = 10, profile = '1g.5gb', index = 5 }]\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privilege {
    Root,
    User,
    /// Root of a user namespace, an ordinary user outside.
    NamespaceRoot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Host,
    /// A pid namespace, whose processes NVML shows.
    Pid,
    /// One to which NVML shows no process outside, but the memory of all.
    BlindPid,
}

const PRIVILEGES: [Privilege; 3] = [Privilege::Root, Privilege::User, Privilege::NamespaceRoot];
const NAMESPACES: [Namespace; 3] = [Namespace::Host, Namespace::Pid, Namespace::BlindPid];

/// A shell with this privilege in this namespace.
fn shell(sandbox: &Sandbox, privilege: Privilege, namespace: Namespace, script: &str) -> Command {
    let pid = namespace != Namespace::Host;
    let (words, uid): (&[&str], Option<u32>) = match (privilege, pid) {
        (Privilege::Root, false) => (&[], None),
        (Privilege::User, false) => (&[], Some(OTHER)),
        (Privilege::NamespaceRoot, false) => (&["unshare", "-Ur"], Some(OTHER)),
        (Privilege::Root, true) => (&["unshare", "-mpf", "--mount-proc"], None),
        (Privilege::User, true) => (
            &[
                "unshare",
                "-mpf",
                "--mount-proc",
                "setpriv",
                "--reuid=1001",
                "--regid=1001",
                "--clear-groups",
            ],
            None,
        ),
        (Privilege::NamespaceRoot, true) => (&["unshare", "-Urmpf", "--mount-proc"], Some(OTHER)),
    };
    let words = [words, &["sh", "-c", script]].concat();
    let command = sandbox.command(words[0]).args(&words[1..]);
    match uid {
        Some(uid) => command.uid(uid),
        None => command,
    }
}

/// A pick, a list, two programs at once, a list of them, and what is left. A program that
/// never asked runs on the first of the three devices, outside of the namespace.
const SCRIPT: &str = "getgpu --no-reserve && getgpu --list --json >DIR/before && \
    { rm -f DIR/over DIR/one DIR/two; cudawrap -- sim-cuda --until-file DIR/over --ready DIR/one >/dev/null & \
      cudawrap -- sim-cuda --until-file DIR/over --ready DIR/two >/dev/null & \
      until [ -e DIR/one ] && [ -e DIR/two ]; do sleep 0.01; done; \
      getgpu --count-free; getgpu --list --json >DIR/during; : >DIR/over; wait; }";

/// One cell of the matrix.
fn cell(sandbox: &Sandbox, what: &str, privilege: Privilege, namespace: Namespace) {
    let what = format!("{what}, {privilege:?}, {namespace:?}");
    let blind = namespace == Namespace::BlindPid;
    sandbox.faults(&format!("foreign_pidns_blind = {blind}"));
    let directory = sandbox.path(&format!("work/{privilege:?}-{namespace:?}"));
    std::fs::create_dir(&directory).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&directory, mode).unwrap();
    let script = SCRIPT.replace("DIR", &directory.display().to_string());
    let uuids = sandbox.uuids();
    let stranger = sandbox.occupy(&uuids[..1], "--memory 300000000");
    let outcome = shell(sandbox, privilege, namespace, &script).run();
    assert_eq!(outcome.code(), Some(0), "{what}: {outcome:#?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let picked = uuids[1..].iter().any(|uuid| uuid == lines[0]);
    assert!(picked && lines[1..] == ["0"], "{what}: {outcome:#?}");
    let ran = ["one", "two"].map(|name| {
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        text.split_whitespace().nth(1).unwrap_or("").to_owned()
    });
    assert!(
        ran[0] != ran[1] && ran.iter().all(|uuid| uuids[1..].contains(uuid)),
        "{what}: {ran:?}"
    );
    for (list, held) in [("before", &[][..]), ("during", &ran[..])] {
        let text = std::fs::read_to_string(directory.join(list)).unwrap();
        let list: serde_json::Value = serde_json::from_str(&text).unwrap();
        let devices = list["devices"].as_array().unwrap();
        let listed: Vec<&str> = devices.iter().filter_map(|d| d["uuid"].as_str()).collect();
        assert_eq!(listed, uuids, "{what}");
        for device in devices {
            let expected = if device["uuid"] == uuids[0] {
                // Memory that nobody is shown to use is nobody's to give away.
                if blind { ("unknown", 0) } else { ("busy", 1) }
            } else if held.iter().any(|uuid| device["uuid"] == *uuid) {
                ("leased", 1)
            } else {
                ("free", 0)
            };
            let processes = device["processes"].as_array().unwrap().len();
            let state = device["state"].as_str().unwrap();
            assert_eq!((state, processes), expected, "{what}: {device}");
        }
    }
    sandbox.assert_exclusive();
    drop(stranger);
    sandbox.assert_clean(Duration::from_secs(5));
}

fn on(driver: &Driver, number: usize, tried: &AtomicUsize) {
    for (kind, (name, gpus)) in KINDS.iter().enumerate() {
        let sandbox = Sandbox::builder(&format!("driver = '{}'\n{gpus}", driver.version))
            .hide(driver.hidden)
            .build();
        let what = format!("driver {}, {name}", driver.version);
        for (p, privilege) in PRIVILEGES.into_iter().enumerate() {
            for (n, namespace) in NAMESPACES.into_iter().enumerate() {
                // Of three rows and columns each pair once.
                if full() || (p + n + number + kind).is_multiple_of(3) {
                    cell(&sandbox, &what, privilege, namespace);
                    tried.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn every_driver_kind_privilege_and_namespace_picks_lists_and_excludes() {
    if skip::lacks(&[Need::Root, Need::Mounts, Need::UserNamespace]) {
        return;
    }
    let tried = AtomicUsize::new(0);
    let drivers: Vec<(usize, &Driver)> = DRIVERS.iter().enumerate().collect();
    all_at_once(drivers.chunks(3), |drivers| {
        for (number, driver) in drivers {
            on(driver, *number, &tried);
        }
    });
    let tried = tried.into_inner();
    println!("{tried} cells: a pick, a list and two programs at once in each");
    let all = DRIVERS.len() * KINDS.len() * 9;
    assert_eq!(tried, if full() { all } else { all / 3 });
}
