//! A waiter alone, over a scripted node: when it tries a device, and how long it waits. Each
//! test is a moment that no test with real processes meets.

use super::*;
use crate::queue::private_lock::private_lock;
use crate::queue::ticket;
use getgpu_model::{Diag, Kind, Verbosity};
use getgpu_settings::Wait;

/// Two devices, of which the second is taken for one moment.
#[derive(Default)]
struct Script {
    wanted: usize,
    looks: u32,
    attempts: u32,
    /// How many attempts exceed the limit of the user.
    over: u32,
    counts: u32,
    lingers: bool,
    /// Those before it in the queue, who never look, and whether they leave.
    ahead: Vec<Ticket>,
    leave: bool,
    /// Sees whether the waiter itself stands in the queue.
    probe: Option<OfdLock>,
}

fn uuid(n: u32) -> Uuid {
    Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap()
}

impl Seeker for Script {
    /// Which devices were allowed, and how often the user's devices were counted.
    type Found = ([bool; 2], u32);

    fn availability(&mut self, _: &OfdLock) -> Result<Availability, Failure> {
        self.looks += 1;
        if self.leave && self.looks == 2 {
            self.ahead.clear();
        }
        let mut availability = Availability::default();
        availability.free.push(uuid(1));
        availability.free.extend((self.looks != 2).then(|| uuid(2)));
        Ok(availability)
    }
    fn wanted(&self) -> usize {
        self.wanted
    }
    fn total(&self) -> usize {
        2
    }
    fn attempt(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Self::Found>, Failure> {
        self.attempts += 1;
        if let Some(probe) = &self.probe {
            let standing = ticket::waiting(probe, Some(1)).unwrap();
            assert!(standing > self.ahead.len(), "it tries without a place");
        }
        if self.attempts <= self.over {
            return Ok(Tried::OverCap(Failure::new(Kind::NoneFree, "over")));
        }
        Ok(Tried::Claimed(([1, 2].map(|n| may(&uuid(n))), self.counts)))
    }
    fn lingers(&mut self, _: &OfdLock) -> Result<bool, Failure> {
        Ok(self.lingers)
    }
    fn outlook(&self, _: &OfdLock) -> Outlook {
        Outlook::default()
    }
    fn may_have_more(&mut self, _: &OfdLock) -> Result<bool, Failure> {
        self.counts += 1;
        Ok(self.counts == 2)
    }
    fn in_vain(&mut self, _: &OfdLock, _: Duration) -> Failure {
        Failure::new(Kind::NoneFree, "in vain")
    }
}

/// What a waiter behind `ahead` others is served.
fn wait(mut script: Script, ahead: usize) -> ([bool; 2], u32) {
    let (_directory, lock_file) = private_lock();
    let tickets = (0..ahead).map(|_| Ticket::draw(&lock_file, 1).unwrap());
    script.ahead = tickets.collect();
    script.probe = lock_file.open().ok();
    let waiter = waiter(&lock_file, script, Wait(None).into());
    waiter.wait().unwrap()
}

fn waiter(lock_file: &LockFile, script: Script, patience: Patience) -> Waiter<'_, Script> {
    let progress = Progress::silent(&Diag::new("getgpu", Verbosity::Normal));
    Waiter::new(lock_file, 1, script, progress, patience).unwrap()
}

#[test]
fn over_the_limit_nothing_is_tried_until_more_is_allowed() {
    let script = Script {
        over: 1,
        wanted: 2,
        ..Script::default()
    };
    assert_eq!(wait(script, 0), ([true, true], 2));
}

#[test]
fn behind_a_stalled_head_only_what_it_leaves_alone_is_tried() {
    assert_eq!(wait(Script::default(), 1), ([true, false], 0));
    let script = Script {
        leave: true,
        ..Script::default()
    };
    assert_eq!(wait(script, 1), ([true, true], 0), "it is the head now");
}

#[test]
fn the_wait_is_extended_only_for_what_lingers() {
    let (_directory, lock_file) = private_lock();
    for lingers in [false, true] {
        let script = Script {
            lingers,
            ..Script::default()
        };
        let mut patience = Patience::from(Wait::NO);
        patience.extensions.push(SELDOM);
        let mut waiter = waiter(&lock_file, script, patience);
        assert_eq!(waiter.left().is_ok(), lingers);
    }
}
