//! The turn of those who want several devices, checked exhaustively on a model: every
//! interleaving of small requests that come again and again with large ones, on two devices,
//! with a crash at every step. Who gives way is decided by the real [`Courtesy`].

use std::collections::{HashMap, HashSet};

use super::*;
use crate::claim::tests::private_lock;
use crate::keeper::tests::keeper;

/// What a process of the model asks for, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    One,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Does not ask for anything yet.
    Away,
    /// Waits; it has given way to this keeper first.
    Waits(Option<i64>),
    /// Has looked at a device and will try to claim it.
    Seen(Option<i64>, u8),
    /// Has claimed the first of two devices and tries the other one.
    Half,
    Runs,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    at: Vec<At>,
    /// Who has each device.
    has: [Option<usize>; 2],
    /// Those who want both, in order of arrival.
    line: Vec<usize>,
    /// For whom both devices are kept.
    keeper: Option<usize>,
    /// How often each other process got a device since then.
    passed: Vec<u8>,
}

impl World {
    fn new(asks: &[Asks]) -> Self {
        Self {
            at: vec![At::Away; asks.len()],
            has: [None; 2],
            line: Vec::new(),
            keeper: None,
            passed: vec![0; asks.len()],
        }
    }

    fn keeper_seen(&self) -> Option<Keeper> {
        self.keeper.map(|keeper| Keeper {
            byte: i64::try_from(keeper).unwrap(),
            beat: Held::Confirmed,
            liveness: Liveness::Unseen,
        })
    }

    fn gone(&mut self, who: usize, at: At) {
        for has in &mut self.has {
            *has = has.filter(|owner| *owner != who);
        }
        self.line.retain(|other| *other != who);
        self.unmark(who);
        self.at[who] = at;
    }

    fn unmark(&mut self, who: usize) {
        if self.keeper == Some(who) {
            self.keeper = None;
            self.passed.fill(0);
        }
    }

    /// What `who` may do next, one lock call each.
    fn steps(&self, who: usize, asks: Asks) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut then = |change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            worlds.push(next);
        };
        match (self.at[who], asks) {
            (At::Dead, _) => return worlds,
            (At::Away, _) => then(&|next| {
                next.at[who] = At::Waits(None);
                if asks == Asks::Both {
                    next.line.push(who);
                }
            }),
            (At::Waits(first), Asks::One) => {
                for device in 0..2_u8 {
                    let mut courtesy = Courtesy { first, seen: None };
                    let keeper = self.keeper_seen();
                    let is_free = self.has[usize::from(device)].is_none();
                    let gives_way =
                        is_free && keeper.is_some() && courtesy.gives_way(keeper, Instant::now());
                    let first = courtesy.first;
                    then(&|next| {
                        next.at[who] = if is_free && !gives_way {
                            At::Seen(first, device)
                        } else {
                            At::Waits(first)
                        };
                    });
                }
            }
            (At::Seen(first, device), _) => then(&|next| {
                let has = &mut next.has[usize::from(device)];
                if has.is_some() {
                    next.at[who] = At::Waits(first);
                    return;
                }
                *has = Some(who);
                next.at[who] = At::Runs;
                if next.keeper.is_some() {
                    next.passed[who] += 1;
                }
            }),
            (At::Waits(_), Asks::Both) => {
                let has_turn = self.line.first() == Some(&who);
                if has_turn && self.keeper.is_none() {
                    then(&|next| next.keeper = Some(who));
                }
                // Another one's marks are left alone by who has not the turn.
                let may = has_turn || self.keeper.is_none();
                if may && self.has == [None, None] {
                    then(&|next| {
                        next.has[0] = Some(who);
                        next.at[who] = At::Half;
                    });
                }
            }
            (At::Half, _) => then(&|next| {
                if next.has[1].is_some() {
                    next.has[0] = None;
                    next.at[who] = At::Waits(None);
                    return;
                }
                next.has[1] = Some(who);
                next.at[who] = At::Runs;
                next.line.retain(|other| *other != who);
                next.unmark(who);
            }),
            (At::Runs, _) => then(&|next| next.gone(who, At::Away)),
        }
        then(&|next| next.gone(who, At::Dead));
        worlds
    }
}

/// Explores everything, and checks in each world that no waiter passes the one whose turn it is
/// more than once; then that every waiter can still be served, whatever has happened.
#[allow(clippy::print_stdout, reason = "the figure is read")]
fn check(asks: &[Asks]) -> usize {
    let first = World::new(asks);
    let mut before: HashMap<World, Vec<World>> = HashMap::from([(first.clone(), Vec::new())]);
    let mut todo = vec![first];
    while let Some(world) = todo.pop() {
        assert!(
            world.passed.iter().all(|times| *times <= 1),
            "one passed twice: {world:#?}"
        );
        for (who, asks) in asks.iter().enumerate() {
            for next in world.steps(who, *asks) {
                let dies = next.at[who] == At::Dead;
                if !before.contains_key(&next) {
                    todo.push(next.clone());
                }
                let from = before.entry(next).or_default();
                if !dies {
                    from.push(world.clone());
                }
            }
        }
    }
    for who in 0..asks.len() {
        let runs = |world: &&World| world.at[who] == At::Runs;
        let mut todo: Vec<&World> = before.keys().filter(runs).collect();
        let mut served: HashSet<&World> = todo.iter().copied().collect();
        while let Some(world) = todo.pop() {
            for from in &before[world] {
                if served.insert(from) {
                    todo.push(from);
                }
            }
        }
        let never = before
            .keys()
            .find(|world| world.at[who] != At::Dead && !served.contains(world));
        assert_eq!(never, None, "{who} is never served");
    }
    println!("{asks:?}: {} worlds", before.len());
    before.len()
}

#[test]
fn each_passes_the_one_whose_turn_it_is_once_at_most_and_none_is_blocked() {
    use Asks::{Both, One};
    for asks in [
        &[One, Both][..],
        &[Both, Both],
        &[One, One, Both],
        &[One, Both, Both],
        &[Both, Both, Both],
        &[One, One, Both, Both],
    ] {
        assert!(check(asks) > 20, "the model is a model");
    }
}

#[test]
fn a_waiter_gives_way_to_one_keeper_and_to_none_that_has_stopped() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut courtesy = Courtesy::default();
    for look in 0..100 {
        let beat = if look % 20 < 10 {
            Held::Confirmed
        } else {
            Held::Tentative
        };
        assert!(
            courtesy.gives_way(keeper(7, beat), at(look * 100)),
            "it is alive"
        );
    }
    assert!(
        !courtesy.gives_way(keeper(8, Held::Confirmed), at(10_000)),
        "the second"
    );
    assert!(courtesy.gives_way(keeper(7, Held::Confirmed), at(10_000)));
    assert!(courtesy.gives_way(keeper(7, Held::Confirmed), at(11_299)));
    assert!(
        courtesy.gives_way(keeper(7, Held::Confirmed), at(20_000)),
        "two looks are few"
    );
    for look in 0..26 {
        courtesy.gives_way(keeper(7, Held::Confirmed), at(20_000 + look * 50));
    }
    assert!(
        !courtesy.gives_way(keeper(7, Held::Confirmed), at(21_301)),
        "it has stopped"
    );
    assert!(
        courtesy.gives_way(keeper(7, Held::Tentative), at(21_302)),
        "it goes on"
    );
    assert!(
        !courtesy.gives_way(None, at(21_303)),
        "no waiter answers for the mark"
    );
}

/// What was kept was in use meanwhile, so that the waiter did not look at the keeper.
#[test]
fn a_keeper_has_not_stopped_because_a_waiter_did_not_look() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut courtesy = Courtesy::default();
    for look in 0..20 {
        assert!(courtesy.gives_way(keeper(7, Held::Confirmed), at(look * 10)));
    }
    assert!(courtesy.gives_way(keeper(7, Held::Confirmed), at(1700)));
    for look in 0..25 {
        assert!(courtesy.gives_way(keeper(7, Held::Confirmed), at(1700 + look * 50)));
    }
    assert!(!courtesy.gives_way(keeper(7, Held::Confirmed), at(3001)));
}

#[test]
fn marks_are_of_their_devices_and_of_their_number() {
    let (_directory, lock_file) = private_lock();
    let uuids = ["6", "7"].map(|last| {
        Uuid::parse(&format!("MIG-0d1e2f30-1111-5222-8333-44445555666{last}")).unwrap()
    });
    let counts = [Count { has: 1, wanted: 2 }, Count { has: 1, wanted: 3 }];
    let marks = Marks::set(&lock_file, uuids[..1].to_vec(), counts[0]).unwrap();
    assert!(marks.is_of(&uuids[..1], counts[0]));
    assert!(!marks.is_of(&uuids[..1], counts[1]));
    assert!(!marks.is_of(&uuids, counts[0]));
    assert!(!marks.is_of(&uuids[1..], counts[0]));
}

/// Others take what is kept by a waiter that they do not see.
#[test]
fn a_keeper_is_seen_at_each_moment_while_it_keeps_other_devices() {
    let (_directory, lock_file) = private_lock();
    let probe = lock_file.open().unwrap();
    let uuid =
        |last: u8| Uuid::parse(&format!("MIG-0d1e2f30-1111-5222-8333-44445555666{last}")).unwrap();
    let count = |has| Count { has, wanted: 3 };
    let mut marks = Marks::set(&lock_file, vec![uuid(0)], count(1)).unwrap();
    for has in 2..6 {
        // Each sign of life, in one way and then in the other.
        marks.beaten -= BEAT;
        marks.beat().unwrap();
        assert!(Keeper::seen(&lock_file, &probe).unwrap().is_some(), "{has}");
        marks.make_room().unwrap();
        let next = Marks::set(&lock_file, (0..has).map(uuid).collect(), count(has.into())).unwrap();
        drop(marks);
        assert!(Keeper::seen(&lock_file, &probe).unwrap().is_some(), "{has}");
        marks = next;
    }
    drop(marks);
    assert_eq!(Keeper::seen(&lock_file, &probe).unwrap(), None);
}
