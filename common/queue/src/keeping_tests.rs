//! The line for several devices: who has the turn, who steps aside and comes back, and what is
//! kept meanwhile.

use getgpu_linux::Range;
use getgpu_lock::{Held, Span, layout, occupancy};

use super::*;
use crate::private_lock::private_lock;

fn uuids() -> [Uuid; 2] {
    let uuid = |number| Uuid::parse(&format!("MIG-0d1e2f30-1111-5222-8333-44445555666{number}"));
    [uuid(1).unwrap(), uuid(2).unwrap()]
}

fn turn(lock_file: &LockFile) -> KeepingTurn<'_> {
    let (_, place) = Ticket::draw_for_several(lock_file, layout::ticket_range(7)).unwrap();
    KeepingTurn::new(lock_file, place)
}

/// Which of the two devices are kept.
fn kept(lock_file: &LockFile) -> [bool; 2] {
    let probe = lock_file.open().unwrap();
    uuids().map(|uuid| occupancy::is_kept(&probe, Span::of(&uuid)).unwrap())
}

/// A waiter that never came back would have nothing kept for it from then on: requests for fewer
/// devices would always be faster.
#[test]
fn a_waiter_that_stood_aside_has_its_turn_again() {
    let (_directory, lock_file) = private_lock();
    let (mut first, mut second) = (turn(&lock_file), turn(&lock_file));
    let devices = &uuids()[..];
    let mut turns = |keepable: &[Uuid]| {
        [
            first.has_turn(keepable).unwrap(),
            second.has_turn(devices).unwrap(),
        ]
    };
    assert_eq!(turns(devices), [true, false], "the oldest");
    assert_eq!(turns(&[]), [false, true], "it has nothing to keep");
    assert_eq!(turns(devices), [true, false], "it has again");
    first.stand_aside().unwrap();
    assert!(second.has_turn(devices).unwrap());
    assert!(first.stand_again().unwrap());
    assert!(!second.has_turn(devices).unwrap());
    assert!(first.stand_again().unwrap(), "it has its place already");
    assert!(first.has_turn(devices).unwrap());
}

#[test]
fn a_place_that_another_process_probes_is_taken_later() {
    let (_directory, lock_file) = private_lock();
    let mut turn = turn(&lock_file);
    turn.stand_aside().unwrap();
    let prober = lock_file.open().unwrap();
    let place = Range::byte(layout::line_for_several().start());
    assert_eq!(prober.try_read(place), Ok(true));
    assert!(!turn.stand_again().unwrap());
    assert!(!turn.has_turn(&uuids()).unwrap());
    drop(prober);
    assert!(turn.has_turn(&uuids()).unwrap());
    assert!(turn.stand_again().unwrap());
}

#[test]
fn what_is_kept_follows_what_the_waiter_could_use() {
    let (_directory, lock_file) = private_lock();
    let mut turn = turn(&lock_file);
    let [one, two] = uuids();
    let count = |has| Count { has, wanted: 2 };
    assert_eq!((turn.count(), kept(&lock_file)), (None, [false, false]));
    for (keepable, has, expected) in [
        (vec![one.clone()], 0, [true, false]),
        (vec![one.clone(), two.clone()], 1, [true, true]),
        (vec![one.clone(), two.clone()], 2, [true, true]),
        (vec![two], 1, [false, true]),
    ] {
        turn.keep(keepable, count(has)).unwrap();
        assert_eq!(turn.count(), Some(count(has)));
        assert_eq!(kept(&lock_file), expected, "{has}");
    }
    turn.rest();
    assert_eq!((turn.count(), kept(&lock_file)), (None, [false, false]));
    turn.keep(vec![one], count(1)).unwrap();
    turn.stand_aside().unwrap();
    assert_eq!((turn.count(), kept(&lock_file)), (None, [false, false]));
}

/// Others take what is free and not kept, be it for a moment.
#[test]
fn what_is_kept_before_and_after_is_kept_meanwhile() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (_directory, lock_file) = private_lock();
    let [one, two] = uuids();
    let count = |has| Count { has, wanted: 3 };
    let mut turn = turn(&lock_file);
    turn.keep(vec![one.clone()], count(1)).unwrap();
    let over = AtomicBool::new(false);
    let gaps = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let (probe, mut gaps) = (lock_file.open().unwrap(), 0);
            while !over.load(Ordering::Relaxed) {
                gaps += i32::from(!occupancy::is_kept(&probe, Span::of(&one)).unwrap());
            }
            gaps
        });
        let kept = (0..1000).map(|round| match round % 2 {
            0 => turn.keep(vec![one.clone(), two.clone()], count(2)),
            _ => turn.keep(vec![one.clone()], count(1)),
        });
        let kept = kept.collect::<Result<(), _>>();
        over.store(true, Ordering::Relaxed);
        kept.unwrap();
        looks.join().unwrap()
    });
    assert_eq!(gaps, 0);
}

/// Others take what is kept by a waiter that they do not see, so it shows itself also when what it
/// keeps has just changed, in each of the two ways in which its byte is locked.
#[test]
fn a_keeper_is_seen_as_soon_as_it_keeps_other_devices() {
    let (_directory, lock_file) = private_lock();
    let probe = lock_file.open().unwrap();
    let [one, two] = uuids();
    let mut turn = turn(&lock_file);
    let count = |has| Count { has, wanted: 3 };
    for beat in [Held::Confirmed, Held::Tentative] {
        turn.keep(vec![one.clone()], count(1)).unwrap();
        while probe.conflict(layout::keeper()).unwrap().unwrap().held != beat {
            turn.keep(vec![one.clone()], count(1)).unwrap();
        }
        turn.keep(vec![one.clone(), two.clone()], count(2)).unwrap();
        let keeper = probe.conflict(layout::keeper()).unwrap();
        assert!(keeper.is_some(), "behind a byte that is {beat:?}");
    }
}
