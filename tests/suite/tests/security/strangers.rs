//! What another user's process says of itself, and what root believes: its uid and its locks, which
//! the kernel shows, and none of its words.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use getgpu_tests::stranger::{self, Stranger};
use getgpu_tests::{OTHER, bytes, listing};
use harness::skip::{self, Need};
use harness::{Running, Sandbox, wait};
use nix::unistd::{Uid, User};

/// The stranger, who is not the user that others know.
const MALLORY: u32 = OTHER + 1;

/// Whose process it is, as the log and lists have it.
fn name_of(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).unwrap();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// A sixteenth of the device, on one side of it, and who says so.
fn signed(uuid: &str, units: i64, uids: i64, uid: u32, pids: i64, pid: u32) -> [(i64, i64); 3] {
    let span = bytes::span(uuid);
    [
        (span + units, bytes::UNITS / 16),
        (span + uids + i64::from(uid), 1),
        (span + pids + i64::from(pid), 1),
    ]
}

/// A process that says that it is a holder.
fn holder(sandbox: &Sandbox, locks: &[(i64, i64)], words: &[&str]) -> Running {
    let stranger = Stranger {
        uid: MALLORY,
        name: "getgpu-hold",
        locks,
        ways: "",
        words,
    };
    stranger.start(sandbox)
}

#[test]
fn the_log_has_what_the_kernel_says_of_a_reservation() {
    if stranger::lacks() || skip::lacks(&[Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::with("mig4", "log = 'syslog'");
    let socket = UnixDatagram::bind(sandbox.path("work/log")).unwrap();
    let limit = Some(Duration::from_secs(60));
    socket.set_read_timeout(limit).unwrap();
    sandbox.ask("--list").exits(0);
    let uuid = sandbox.uuids().remove(0);
    let forged = format!(
        "record={uuid} user=ana for=x share=1 held=1s\ngetgpu[7]: released {uuid} user=ana program=x share=1 held=2887200.0s"
    );
    let caller = format!("caller={}(bash)", std::process::id());
    let tag = "tag=a\nreleased b user=ana held=3s";
    let words = ["--holder", &uuid, &caller, "since=1", &forged, tag];
    let locks = [(bytes::span(&uuid) + bytes::RESERVATION, bytes::UNITS / 16)];
    let stranger = holder(&sandbox, &locks, &words);
    let script = format!(
        "mount -t tmpfs -o mode=755 dev /dev && mknod -m 666 /dev/null c 1 3 && \
         ln -s {} /dev/log && getgpu --release-all",
        sandbox.text("work/log")
    );
    sandbox.apart(&script).run().exits(0);
    let mut bytes = [0; 4096];
    let count = socket.recv(&mut bytes).unwrap();
    let line = String::from_utf8_lossy(&bytes[..count]).into_owned();
    let user = name_of(MALLORY);
    let expected = format!(
        "<30>getgpu[{}]: released {uuid} user={user} for=getgpu-hold share=0.0625 tag=a\\nreleased_b_user=ana_held=3s held=",
        stranger.pid()
    );
    let held = line.strip_prefix(&expected);
    let held = held.unwrap_or_else(|| panic!("{line}\n{expected}"));
    assert!(
        held.trim_end_matches('s').parse::<f64>().unwrap() < 3600.0,
        "{line}"
    );
}

#[test]
fn a_holder_that_names_another_users_process_is_listed_itself() {
    if stranger::lacks() || skip::lacks(&[Need::HostPids]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    sandbox.ask("--list").exits(0);
    let uuid = sandbox.uuids().remove(0);
    let own = std::process::id();
    let (caller, hold) = (format!("caller={own}(bash)"), format!("hold={own}(bash)"));
    let words = ["--holder", &uuid, &caller, &hold, "since=1"];
    let locks = [(bytes::span(&uuid) + bytes::RESERVATION, bytes::UNITS)];
    let stranger = holder(&sandbox, &locks, &words);
    let listed = listing::json(&sandbox);
    let holder = &listing::device(&listed, &uuid)["holders"][0];
    assert_eq!(holder["pid"], stranger.pid(), "{holder}");
    assert_eq!(holder["user"], name_of(MALLORY), "{holder}");
}

/// The process that he signs with is one that its own user may not read, such as an agent for keys.
#[test]
fn no_signature_of_a_stranger_counts_for_a_user() {
    if stranger::lacks() || skip::lacks(&[Need::HostPids]) {
        return;
    }
    let sandbox = Sandbox::with("mig4", "max_per_user = 1");
    sandbox.ask("--list").exits(0);
    let agent = Stranger {
        uid: OTHER,
        name: "agent",
        locks: &[],
        ways: "unreadable",
        words: &[],
    };
    let agent = agent.start(&sandbox);
    let uuids = sandbox.uuids();
    let lease = (bytes::LEASE, bytes::LEASE_UIDS, bytes::LEASE_PIDS);
    let (units, uids, pids) = lease;
    let locks = signed(&uuids[0], units, uids, OTHER, pids, agent.pid());
    let stranger = Stranger {
        uid: MALLORY,
        name: "app",
        locks: &locks,
        ways: "",
        words: &[],
    };
    let stranger = stranger.start(&sandbox);
    sandbox.ask_as(OTHER, "--for=600").line();
    sandbox
        .ask_as(OTHER, "")
        .refuses(1, "you hold 1 of at most 1");
    let listed = listing::json(&sandbox);
    let holders = &listing::device(&listed, &uuids[0])["holders"];
    assert_eq!(holders.as_array().unwrap().len(), 1, "{holders}");
    assert_eq!(holders[0]["pid"], stranger.pid(), "{holders}");
    assert_eq!(holders[0]["user"], name_of(MALLORY), "{holders}");
}

/// He holds a part of another device, and signs with the number of her program.
#[test]
fn the_monitor_counts_for_a_program_what_it_holds() {
    if stranger::lacks() || skip::lacks(&[Need::Mounts, Need::HostPids]) {
        return;
    }
    let sandbox = Sandbox::with("mig4", "log = 'syslog'");
    let socket = UnixDatagram::bind(sandbox.path("work/log")).unwrap();
    let limit = Some(Duration::from_secs(2));
    socket.set_read_timeout(limit).unwrap();
    sandbox.ask("--list").exits(0);
    let uuids = sandbox.uuids();
    let hers = sandbox
        .words("cudawrap -- sim-cuda --run forever")
        .uid(OTHER);
    let hers = hers.visible(&uuids[0]).spawn();
    sandbox.until_running(1);
    let (units, sides) = (bytes::LEASE, (bytes::LEASE_UIDS, bytes::LEASE_PIDS));
    let locks = signed(&uuids[1], units, sides.0, OTHER, sides.1, hers.pid());
    let stranger = Stranger {
        uid: MALLORY,
        name: "app",
        locks: &locks,
        ways: "",
        words: &[],
    };
    let stranger = stranger.start(&sandbox);
    let script = format!(
        "mount -t tmpfs -o mode=755 dev /dev && mknod -m 666 /dev/null c 1 3 && \
         ln -s {} /dev/log && exec getgpu --monitor",
        sandbox.text("work/log")
    );
    let monitor = sandbox.apart(&script).limit(Duration::MAX).spawn();
    let released = || {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).ok()?;
        let line = String::from_utf8_lossy(&bytes[..count]).into_owned();
        Some(line).filter(|line| line.contains("released"))
    };
    // A lease whose end it tells: it has looked since that began.
    wait::until("it has looked at the lock", || {
        let short = sandbox.words("cudawrap -- sim-cuda --run 1500ms");
        short.visible(&uuids[3]).run().exits(0);
        released().is_some()
    });
    drop((hers, stranger));
    let mut ended = None;
    wait::until("her lease has ended", || {
        ended = released().filter(|line| line.contains(&uuids[0]));
        ended.is_some()
    });
    let (ended, user) = (ended.unwrap(), name_of(OTHER));
    let expected = format!(
        "released {} user={user} program=sim-cuda share=1 ",
        uuids[0]
    );
    assert!(ended.contains(&expected), "{ended}");
    drop(monitor);
}
