//! The worlds of the model: locks as a table, and every interleaving of the steps of its processes, with
//! a crash at each. `protocol_programs_tests` has the programs, `protocol_tests` the cases.

use std::collections::{BTreeMap, HashMap};

use super::super::{Held, Level, Side};
use super::programs::{Kind, run};
use super::replay::{Answer, At, Place, Replay, Step, Stop, Units};

/// How often a process goes through its devices again.
const ROUNDS: usize = 2;

/// Locks of the model: (process, device, place, unit) and how.
type Table = BTreeMap<(u8, u8, Place, Units), Held>;

/// What has become of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Has,
    Failed,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    table: Table,
    /// Histories; none: crashed.
    processes: Vec<Option<Vec<Answer>>>,
    /// Those that were told that another process has it.
    failed: Vec<bool>,
}

impl World {
    fn first(kinds: &[Kind]) -> Self {
        let mut table = Table::new();
        for (own, kind) in (0..).zip(kinds) {
            for at in kind.has_at_first() {
                insert(&mut table, own, at, Held::Confirmed);
            }
        }
        Self {
            table,
            processes: vec![Some(Vec::new()); kinds.len()],
            failed: vec![false; kinds.len()],
        }
    }

    /// The worst that others hold.
    fn in_the_way(&self, own: u8, (device, place, units): At) -> Option<Held> {
        let others = self.table.iter().filter(|((process, d, p, unit), _)| {
            *process != own && (*d, *p) == (device, place) && unit & units != 0
        });
        others.map(|(_, held)| *held).max()
    }

    fn is_tried(&self, own: u8, (device, place, units): At) -> bool {
        self.table.iter().any(|((process, d, p, unit), held)| {
            *process != own
                && (*d, *p) == (device, place)
                && unit & units != 0
                && *held == Held::Tentative
        })
    }

    /// The units of a device that a process has confirmed in the outer places.
    fn confirmed(&self, own: u8, device: u8) -> Units {
        let own = self.table.iter().filter(|((process, d, place, _), held)| {
            (*process, *d, **held) == (own, device, Held::Confirmed)
                && matches!(place, Place::Lease | Place::Reservation)
        });
        own.fold(0, |all, ((.., unit), _)| all | unit)
    }

    /// With one more answer.
    fn answered(&self, own: u8, answer: Answer) -> Self {
        let mut next = self.clone();
        if let Some(history) = &mut next.processes[usize::from(own)] {
            history.push(answer);
        }
        next
    }

    fn without(&self, own: u8) -> Self {
        let mut next = self.clone();
        next.table.retain(|(process, ..), _| *process != own);
        next.processes[usize::from(own)] = None;
        next
    }
}

fn insert(table: &mut Table, own: u8, (device, place, units): At, held: Held) {
    for unit in [1, 2].into_iter().filter(|unit| unit & units != 0) {
        table.insert((own, device, place, unit), held);
    }
}

/// The worlds that a step of one process leads to.
fn step(world: &World, own: u8, step: Step, patient: bool) -> Vec<World> {
    let lock = |held| world.answered(own, Answer::Lock(held));
    let is = |is| world.answered(own, Answer::Is(is));
    match step {
        Step::Write(at) => {
            let held = world.in_the_way(own, at);
            if at.1 == Place::Gate && held.is_some() {
                // Who runs out of patience goes on without it.
                return if patient {
                    Vec::new()
                } else {
                    vec![lock(held)]
                };
            }
            let mut next = lock(held);
            if held.is_none() {
                insert(&mut next.table, own, at, Held::Tentative);
            }
            vec![next]
        }
        Step::Look(at) => vec![lock(world.in_the_way(own, at))],
        Step::Read(at) => {
            let is_free = !world.is_tried(own, at);
            let mut next = is(is_free);
            if is_free {
                insert(&mut next.table, own, at, Held::Confirmed);
            }
            vec![next]
        }
        Step::Tried(at) => vec![is(world.is_tried(own, at))],
        Step::Rest => {
            // It looks again: the same as if it had not looked yet.
            let mut again = world.clone();
            if let Some(history) = &mut again.processes[usize::from(own)] {
                history.pop();
            }
            let mut next = vec![again];
            next.extend((!patient).then(|| is(false)));
            next
        }
        Step::Round => {
            let history = world.processes[usize::from(own)].iter().flatten();
            let rounds = history.filter(|answer| matches!(answer, Answer::Round(true)));
            let more = rounds.count() + 1 < ROUNDS;
            vec![world.answered(own, Answer::Round(more))]
        }
        Step::Close(device) => {
            let mut next = lock(None);
            next.table
                .retain(|(process, d, ..), _| (*process, *d) != (own, device));
            vec![next]
        }
        Step::Proof(of) => vec![is(world.processes[usize::from(of)].is_some())],
        Step::Signed(by) => {
            let mut reserved = world.table.iter().filter(|((process, _, place, _), held)| {
                *process != own && *place == Place::Reservation && **held == Held::Confirmed
            });
            vec![is(reserved.all(|((process, ..), _)| *process == by))]
        }
        Step::Failed(impatient) => {
            let mut next = lock(None);
            next.table.retain(|(process, ..), _| *process != own);
            next.failed[usize::from(own)] = !impatient;
            vec![next]
        }
    }
}

/// Where each process stands: its end, or the step that it takes next.
fn stands(world: &World, kinds: &[Kind]) -> Vec<(End, Option<Step>)> {
    let stands = (0_usize..).zip(&world.processes).map(|(number, history)| {
        let Some(history) = history else {
            return (End::None, None);
        };
        let mut replay = Replay {
            history,
            at: 0,
            next: None,
            device: 0,
            units: 0,
            side: Side::Lease,
            level: Level::Outer,
            own_inside: 0,
        };
        match run(&mut replay, kinds, kinds[number]) {
            Ok(true) => (End::Has, None),
            Ok(false) => (End::Failed, None),
            Err(Stop) => (End::None, replay.next),
        }
    });
    stands.collect()
}

/// Explores every interleaving; gives the number of worlds. With `patient` no process crashes or runs
/// out of patience: then each comes to an end from wherever it stands, and one gets what it wants.
/// Without it any process may crash at any step.
pub(super) fn explore(kinds: &[Kind], patient: bool) -> usize {
    let first = World::first(kinds);
    let mut numbers: HashMap<World, usize> = HashMap::from([(first.clone(), 0)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let (mut todo, mut ends) = (vec![first], Vec::new());
    while let Some(world) = todo.pop() {
        let number = numbers[&world];
        let stands = stands(&world, kinds);
        check(&world, kinds, &stands, patient);
        let mut worlds = Vec::new();
        for (own, (end, next)) in (0..).zip(&stands) {
            worlds.extend(
                next.iter()
                    .flat_map(|next| step(&world, own, *next, patient)),
            );
            // Killed here, or at its end: its locks go with it. What it keeps, the others must do
            // without for one that is patient.
            if !patient && *end != End::Failed && world.processes[usize::from(own)].is_some() {
                worlds.push(world.without(own));
            }
        }
        if stands.iter().all(|(end, _)| *end != End::None) {
            ends.push(number);
        }
        for next in worlds {
            let fresh = before.len();
            let known = *numbers.entry(next.clone()).or_insert(fresh);
            if known == fresh {
                before.push(Vec::new());
                todo.push(next);
            }
            if patient {
                before[known].push(number);
            }
        }
    }
    if patient {
        let mut ending = vec![false; before.len()];
        while let Some(number) = ends.pop() {
            if !std::mem::replace(&mut ending[number], true) {
                ends.extend(&before[number]);
            }
        }
        assert!(ending.iter().all(|ends| *ends), "without an end: {kinds:?}");
    }
    before.len()
}

/// The invariants.
fn check(world: &World, kinds: &[Kind], stands: &[(End, Option<Step>)], patient: bool) {
    let has = |own: usize| stands[own].0 == End::Has;
    let units = |own: usize, device| world.confirmed(u8::try_from(own).unwrap(), device);
    for (own, kind) in kinds.iter().enumerate().filter(|(own, _)| has(*own)) {
        let (devices, wanted, count) = kind.wants(kinds);
        let each = devices.iter().map(|device| units(own, *device));
        assert_eq!(
            each.filter(|units| *units == wanted).count(),
            count,
            "without its outer lock: {kind:?} of {kinds:?}, {world:#?}"
        );
        for other in (0..own).filter(|other| has(*other)) {
            let both = (0..2).any(|device| units(own, device) & units(other, device) != 0);
            assert!(
                !both || Kind::come_from_each_other(kinds, own, other),
                "{kind:?} and {:?} of {kinds:?} have the same: {world:#?}",
                kinds[other]
            );
        }
    }
    // What others have only tried, or what is one's own, is no reason to be refused for good.
    let is_over = patient && stands.iter().all(|(end, _)| *end != End::None);
    for own in (0..kinds.len()).filter(|own| is_over && world.failed[*own]) {
        let (devices, wanted, count) = kinds[own].wants(kinds);
        let is_free = |device: &&u8| {
            (0..kinds.len()).all(|other| {
                Kind::comes_from(kinds, own, other) || units(other, **device) & wanted == 0
            })
        };
        assert!(
            devices.iter().filter(is_free).count() < count,
            "{:?} of {kinds:?} was refused what is free: {world:#?}",
            kinds[own]
        );
    }
}
