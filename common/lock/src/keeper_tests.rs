//! Keepers as the kernel shows them: told apart in containers, and stopped, hidden or forged ones.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::process::{Child, Command};

use super::*;
use crate::claim::tests::private_lock;
use crate::kept::{Count, Marks};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) fn keeper(byte: i64, beat: Held) -> Option<Keeper> {
    Some(Keeper {
        byte,
        beat,
        liveness: Liveness::Unseen,
    })
}

/// A waiter gives way to one keeper only, by its byte. The first program of each container has
/// the id 1, and a namespace's number is given to another one when it ends.
#[test]
fn keepers_in_different_containers_are_told_apart_though_their_ids_are_the_same() {
    let places = [
        place_in_container(4_026_532_600, 1, 500),
        place_in_container(4_026_532_601, 1, 500),
        place_in_container(4_026_532_600, 1, 501),
        place_in_container(4_026_532_600, 7, 500),
    ];
    assert_eq!(HashSet::from(places).len(), places.len(), "{places:?}");
    for at in places {
        let byte = Range::byte(layout::keeper().start() + at);
        assert_eq!(layout::keeper().intersection(byte), Some(byte));
        let keeper = keeper(at, Held::Confirmed).unwrap();
        assert_eq!(keeper.pid(), None, "no process of the host");
    }
}

/// The first place of a container is behind the last id of the host.
#[test]
fn the_lower_half_of_the_places_is_the_ids_of_the_host() {
    let pid = |at| keeper(at, Held::Confirmed).unwrap().pid();
    assert_eq!(pid(PIDS - 1).map(i64::from), Some(PIDS - 1));
    assert_eq!(pid(PIDS), None);
}

/// A process that has this description of the lock file open.
fn with_lock(lock: &OfdLock) -> Child {
    let inherited = lock.as_fd().try_clone_to_owned().unwrap();
    let mut command = Command::new("sleep");
    command
        .arg("600")
        .stdin(std::process::Stdio::from(inherited));
    command.spawn().unwrap()
}

/// What the kernel tells of a process that has locked its byte, and of bytes of others.
#[test]
fn a_stopped_keeper_and_a_forged_one_are_told_from_one_that_tries() {
    if !namespaces::host_pids() {
        return;
    }
    let (_directory, lock_file) = private_lock();
    let (lock, probe) = (lock_file.open().unwrap(), lock_file.open().unwrap());
    let mut child = with_lock(&lock);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let byte = |pid: i64| Range::byte(layout::keeper().start() + pid);
    let seen = || {
        Keeper::seen(&lock_file, &probe)
            .unwrap()
            .map(|one| one.liveness)
    };
    assert_eq!(seen(), None);
    for kind in [OfdLock::try_read, OfdLock::try_write] {
        assert!(kind(&lock, byte(pid.as_raw().into())).unwrap());
        assert_eq!(seen(), Some(Liveness::Tries));
    }
    kill(pid, Signal::SIGSTOP).unwrap();
    while Stat::read(pid.as_raw()).is_some_and(|stat| stat.state != 'T') {
        std::thread::yield_now();
    }
    assert_eq!(seen(), Some(Liveness::Stopped));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen(), None, "its byte is somebody else's now");
}

/// A stranger that has locked a lower byte does not hide the keeper.
#[test]
fn a_byte_that_its_process_does_not_show_hides_no_keeper() {
    if !namespaces::host_pids() {
        return;
    }
    let (_directory, lock_file) = private_lock();
    let (forger, probe) = (lock_file.open().unwrap(), lock_file.open().unwrap());
    // A number that no process has, and that of a process that has not locked it.
    let other = with_lock(&probe);
    for number in [i64::from(other.id()), PIDS - 1] {
        assert!(
            forger
                .try_read(Range::byte(layout::keeper().start() + number))
                .unwrap()
        );
    }
    let count = Count { has: 0, wanted: 2 };
    let _marks = Marks::set(&lock_file, Vec::new(), count).unwrap();
    let seen = Keeper::seen(&lock_file, &probe).unwrap().unwrap();
    assert_eq!(seen.pid(), i32::try_from(std::process::id()).ok());
    assert_eq!(seen.liveness, Liveness::Tries);
    let mut other = other;
    other.kill().unwrap();
    other.wait().unwrap();
}
