//! A waiter alone, over a scripted node: when it tries a device, and how long it waits. Each
//! test is a moment that no test with real processes meets.

use super::*;
use crate::private_lock::private_lock;
use crate::retry_schedule::Availability;
use crate::ticket;
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
    takes_kept: bool,
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
            let standing = ticket::waiting(probe, layout::ticket_range(1)).unwrap();
            assert!(standing > self.ahead.len(), "it tries without a place");
        }
        if self.attempts <= self.over {
            return Ok(Tried::OverCap(Failure::new(Kind::NoneFree, "over")));
        }
        Ok(Tried::Taken(([1, 2].map(|n| may(&uuid(n))), self.counts)))
    }
    fn extension(&mut self, _: &OfdLock) -> Result<Option<Duration>, Failure> {
        Ok(self.lingers.then_some(SELDOM))
    }
    fn outlook(&self, _: &OfdLock) -> Outlook {
        Outlook::default()
    }
    fn keeps(&self) -> bool {
        self.wanted > 1
    }
    fn keepable(&mut self, _: &OfdLock) -> Result<Vec<Uuid>, Failure> {
        Ok(vec![uuid(1), uuid(2)])
    }
    fn take_kept(&mut self, takes: bool) {
        self.takes_kept = takes;
    }
    fn over_limit(&mut self, probe: &OfdLock) -> Result<Option<Failure>, Failure> {
        self.counts += 1;
        // Then it has its places again, and counts once more as it keeps devices.
        if self.counts <= 2 {
            let line = probe.tentative(getgpu_lock::layout::line_for_several());
            assert_eq!(line.unwrap(), None, "it has the turn for several devices");
        }
        Ok((self.counts == 1).then(|| Failure::new(Kind::NoneFree, "over")))
    }
    fn in_vain(&mut self, _: &OfdLock, _: Duration) -> Failure {
        Failure::new(Kind::NoneFree, "in vain")
    }
}

/// What a waiter behind `ahead` others is served.
fn wait(mut script: Script, ahead: usize) -> ([bool; 2], u32) {
    let (_directory, lock_file) = private_lock();
    let tickets = (0..ahead).map(|_| Ticket::draw(&lock_file, layout::ticket_range(1)).unwrap());
    script.ahead = tickets.collect();
    script.probe = lock_file.open().ok();
    let waiter = waiter(&lock_file, script, Wait(None).into());
    waiter.wait().unwrap()
}

fn waiter(lock_file: &LockFile, script: Script, patience: Patience) -> Waiter<'_, Script> {
    let progress = Progress::silent(&Diag::new("getgpu", Verbosity::Normal));
    Waiter::new(
        lock_file,
        layout::ticket_range(1),
        script,
        progress,
        patience,
    )
    .unwrap()
}

#[test]
fn over_the_limit_nothing_is_tried_until_more_is_allowed() {
    let script = Script {
        over: 1,
        wanted: 2,
        ..Script::default()
    };
    assert_eq!(wait(script, 0), ([true, true], 3));
}

/// The reason that a wait in vain is given is the last one.
#[test]
fn a_look_forgets_that_one_before_was_over_the_limit() {
    let (_directory, lock_file) = private_lock();
    let mut waiter = waiter(&lock_file, Script::default(), Wait(None).into());
    waiter.over = Some(Failure::new(Kind::NoneFree, "over"));
    assert!(waiter.search(&|_| false).unwrap().is_none());
    assert!(waiter.over.is_none());
}

/// Those who stood aside may come back to their places before it.
#[test]
fn behind_others_nothing_is_taken_that_is_kept() {
    let (_directory, lock_file) = private_lock();
    let script = Script {
        wanted: 2,
        takes_kept: true,
        ..Script::default()
    };
    let mut waiter = waiter(&lock_file, script, Wait(None).into());
    waiter.behind(1).unwrap();
    assert!(!waiter.seeker.takes_kept);
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
        patience.extensions = 1;
        let mut waiter = waiter(&lock_file, script, patience);
        assert_eq!(waiter.left().is_ok(), lingers);
        assert_eq!(waiter.patience.extensions, 0);
    }
}

/// A waiter looks more often while the queue moves, and only then.
#[test]
fn the_queue_moves_when_fewer_are_ahead_than_before() {
    for leave in [false, true] {
        let (_directory, lock_file) = private_lock();
        let ahead = vec![Ticket::draw(&lock_file, layout::ticket_range(1)).unwrap()];
        let script = Script {
            leave,
            ahead,
            ..Script::default()
        };
        let mut waiter = waiter(&lock_file, script, Wait(None).into());
        waiter.served().unwrap();
        assert_eq!(waiter.moved.is_some(), leave);
        let pause = if leave { POLL_WHILE_MOVING } else { POLL };
        assert_eq!(waiter.pause(), pause);
    }
}

#[test]
fn what_is_said_of_the_end_of_programs_is_asked_again_after_a_while() {
    let (_directory, lock_file) = private_lock();
    let mut waiter = waiter(&lock_file, Script::default(), Wait(None).into());
    let settings = getgpu_settings::Settings::default();
    for (age, is_asked) in [(Duration::ZERO, false), (OUTLOOK, true)] {
        waiter.progress = Progress::asked(&settings, &Diag::new("getgpu", Verbosity::Normal));
        let told = Instant::now().checked_sub(age).unwrap();
        waiter.outlook = Some((told, Outlook::default()));
        waiter.say().unwrap();
        assert_eq!(waiter.outlook.unwrap().0 != told, is_asked);
    }
}
