//! The machinery of the model: locks as a table, processes as histories of answers that are run again
//! from the start, and every interleaving of their steps, with a crash at each. `protocol_tests` has
//! the programs and the cases.

use std::collections::{BTreeMap, HashMap};

use super::super::{Held, Level, Side};
use super::programs::{Kind, run};
use super::{Locks, Region};

/// How often a process goes through its devices again.
const ROUNDS: usize = 2;

/// Units of a device: two bits.
pub(super) type Units = u8;

/// A range of a device, or the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    Lease,
    Reservation,
    InnerLease,
    InnerReservation,
    Gate,
}

impl Place {
    const fn of(side: Side, level: Level) -> Self {
        match (side, level) {
            (Side::Lease, Level::Outer) => Self::Lease,
            (Side::Reservation, Level::Outer) => Self::Reservation,
            (Side::Lease, Level::Inner { .. }) => Self::InnerLease,
            (Side::Reservation, Level::Inner { .. }) => Self::InnerReservation,
        }
    }
}

/// One answer that a process has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Answer {
    Lock(Option<Held>),
    Is(bool),
    Round(bool),
}

/// Units of a place of a device.
type At = (u8, Place, Units);

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write(At),
    Look(At),
    Read(At),
    /// Whether others hold something tentative.
    Tried(At),
    /// Waits in an attempt.
    Rest,
    /// Waits before it goes through its devices again.
    Round,
    /// Gives back all it has on a device, which happens by closing.
    Close(u8),
    /// Whether that process has what it had.
    Proof(u8),
    /// Whether all that is reserved of the device is of that process.
    Signed(u8),
    /// Found nothing, and has given back all; true if only because its patience was over.
    Failed(bool),
}

/// A replay: answers from the history, and a stop where it ends.
pub(super) struct Replay<'a> {
    history: &'a [Answer],
    at: usize,
    next: Option<Step>,
    /// What the steps of the protocol are about.
    pub(super) device: u8,
    pub(super) units: Units,
    pub(super) side: Side,
    pub(super) level: Level,
    /// What the cover holds inside, which is left out of what is looked at there.
    pub(super) own_inside: Units,
}

pub(super) struct Stop;

impl Replay<'_> {
    fn ask(&mut self, step: Step) -> Result<Answer, Stop> {
        if let Some(answer) = self.history.get(self.at) {
            self.at += 1;
            return Ok(*answer);
        }
        self.next = Some(step);
        Err(Stop)
    }

    fn lock(&mut self, step: Step) -> Result<Option<Held>, Stop> {
        match self.ask(step)? {
            Answer::Lock(held) => Ok(held),
            Answer::Is(_) | Answer::Round(_) => unreachable!("the history is of these very steps"),
        }
    }

    fn is(&mut self, step: Step) -> Result<bool, Stop> {
        match self.ask(step)? {
            Answer::Is(is) | Answer::Round(is) => Ok(is),
            Answer::Lock(_) => unreachable!("the history is of these very steps"),
        }
    }

    fn at(&self, region: Region) -> At {
        let (place, units) = match region {
            Region::Own => (Place::of(self.side, self.level), self.units),
            Region::Other => (Place::of(self.side.opposite(), self.level), self.units),
            Region::OuterLease => (Place::Lease, self.units),
            Region::OuterReservation => (Place::Reservation, self.units),
            Region::Inside => (Place::InnerReservation, self.units & !self.own_inside),
        };
        (self.device, place, units)
    }

    pub(super) fn look_at(&mut self, place: Place) -> Result<Option<Held>, Stop> {
        self.lock(Step::Look((self.device, place, self.units)))
    }

    /// Waits until it is alone behind the gate.
    pub(super) fn enter_gate(&mut self) -> Result<(), Stop> {
        self.lock(Step::Write((GATE, Place::Gate, 1))).map(drop)
    }

    pub(super) fn leave_gate(&mut self) -> Result<(), Stop> {
        self.close(GATE)
    }

    pub(super) fn close(&mut self, device: u8) -> Result<(), Stop> {
        self.lock(Step::Close(device)).map(drop)
    }

    /// Whether it may go through its devices again.
    pub(super) fn round(&mut self) -> Result<bool, Stop> {
        self.is(Step::Round)
    }

    pub(super) fn proof(&mut self, of: u8) -> Result<bool, Stop> {
        self.is(Step::Proof(of))
    }

    pub(super) fn signed(&mut self, by: u8) -> Result<bool, Stop> {
        self.is(Step::Signed(by))
    }

    pub(super) fn fail(&mut self, impatient: bool) -> Result<bool, Stop> {
        self.lock(Step::Failed(impatient)).map(|_| false)
    }
}

/// The device that stands for the gate.
const GATE: u8 = 9;

impl Locks for Replay<'_> {
    type Error = Stop;

    fn write(&mut self, region: Region) -> Result<Option<Held>, Stop> {
        self.lock(Step::Write(self.at(region)))
    }

    fn read(&mut self, region: Region) -> Result<bool, Stop> {
        self.is(Step::Read(self.at(region)))
    }

    fn is_tried(&mut self, region: Region) -> Result<bool, Stop> {
        self.is(Step::Tried(self.at(region)))
    }

    fn conflict(&mut self, region: Region) -> Result<Option<Held>, Stop> {
        self.lock(Step::Look(self.at(region)))
    }

    fn rest(&mut self) -> Result<bool, Stop> {
        self.is(Step::Rest)
    }
}

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
            for (place, units) in kind.has_at_first() {
                insert(&mut table, own, (0, place, units), Held::Confirmed);
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
                return Vec::new();
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
        if let Some(wanted) = kind.wants_of_first(kinds) {
            assert_eq!(
                units(own, 0),
                wanted,
                "without its outer lock: {kind:?} of {kinds:?}, {world:#?}"
            );
        }
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
        let (devices, wanted) = kinds[own].wants(kinds);
        let is_taken = (0..kinds.len()).any(|other| {
            let mut devices = devices.iter();
            !Kind::comes_from(kinds, own, other)
                && devices.any(|device| units(other, *device) & wanted != 0)
        });
        assert!(
            is_taken,
            "{:?} of {kinds:?} was refused what is free: {world:#?}",
            kinds[own]
        );
    }
}
