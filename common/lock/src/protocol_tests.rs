//! The protocol checked exhaustively on a model: every interleaving of three processes on
//! two devices, with a crash at every step. The processes run the real decisions; each
//! lock call is a step, and a process is its history of answers, run again from the
//! start.

use std::collections::{BTreeMap, HashSet};

use super::*;

/// How often a process goes through its devices again.
const ROUNDS: usize = 2;

/// What a process does in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    side: Side,
    /// The devices in the order in which it tries them.
    order: [u8; 2],
    /// So many devices, from the first one.
    devices: u8,
}

/// One answer that a process has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Answer {
    Lock(Option<Held>),
    Rest(bool),
}

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write(u8, Region),
    Look(u8, Region),
    /// Waits in an attempt.
    Rest,
    /// Waits before it goes through its devices again.
    Round,
    /// Gives back all it has on a device, which happens by closing.
    Close(u8),
    /// Turns its tentative claim on a device into a confirmed one, and keeps it.
    Confirm(u8),
    /// Found nothing; true if only because its patience was over.
    Failed(bool),
}

/// A replay: answers from the history, and a stop where it ends.
struct Replay<'a> {
    history: &'a [Answer],
    at: usize,
    device: u8,
    next: Option<Step>,
}

struct Stop;

impl Replay<'_> {
    fn ask(&mut self, step: Step) -> Result<Answer, Stop> {
        match self.history.get(self.at) {
            Some(answer) => {
                self.at += 1;
                Ok(*answer)
            }
            None => {
                self.next = Some(step);
                Err(Stop)
            }
        }
    }

    fn lock(&mut self, step: Step) -> Result<Option<Held>, Stop> {
        match self.ask(step)? {
            Answer::Lock(held) => Ok(held),
            Answer::Rest(_) => unreachable!("the history is of these very steps"),
        }
    }
}

impl Locks for Replay<'_> {
    type Error = Stop;

    fn write(&mut self, region: Region) -> Result<Option<Held>, Stop> {
        self.lock(Step::Write(self.device, region))
    }

    fn conflict(&mut self, region: Region) -> Result<Option<Held>, Stop> {
        self.lock(Step::Look(self.device, region))
    }

    fn rest(&mut self) -> Result<bool, Stop> {
        match self.ask(Step::Rest)? {
            Answer::Rest(more) => Ok(more),
            Answer::Lock(_) => unreachable!("the history is of these very steps"),
        }
    }
}

/// A choice as `pick` makes it: each device in turn, those that others claimed only
/// tentatively again while patience lasts.
fn choose(replay: &mut Replay<'_>, kind: Kind) -> Result<(), Stop> {
    let mut left: Vec<u8> = kind
        .order
        .into_iter()
        .filter(|device| *device < kind.devices)
        .collect();
    loop {
        let mut again = Vec::new();
        for device in left {
            replay.device = device;
            // The look at both sides, which takes no lock.
            let seen = [
                replay.conflict(Region::Own)?,
                replay.conflict(Region::Other)?,
            ];
            let in_the_way = match seen
                .into_iter()
                .flatten()
                .max_by_key(|held| *held == Held::Confirmed)
            {
                Some(held) => Some(held),
                None => {
                    let in_the_way = acquire(replay, kind.side, Level::Outer)?;
                    if in_the_way.is_none() {
                        replay.lock(Step::Confirm(device))?;
                        return Ok(());
                    }
                    replay.lock(Step::Close(device))?;
                    in_the_way
                }
            };
            if in_the_way == Some(Held::Tentative) {
                again.push(device);
            }
        }
        let impatient = !again.is_empty();
        if !impatient || replay.ask(Step::Round)? == Answer::Rest(false) {
            return replay.lock(Step::Failed(impatient)).map(drop);
        }
        left = again;
    }
}

/// Locks of the model: (process, device, side) and how.
type Table = BTreeMap<(u8, u8, bool), Held>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    table: Table,
    /// Histories; none: crashed.
    processes: Vec<Option<Vec<Answer>>>,
    failed: Vec<bool>,
}

fn lease(kind: Kind, region: Region) -> bool {
    (kind.side == Side::Lease) == (region == Region::Own)
}

fn in_the_way(table: &Table, own: u8, device: u8, lease: bool) -> Option<Held> {
    let others = table
        .iter()
        .filter(|((process, d, l), _)| *process != own && *d == device && *l == lease);
    others.map(|(_, held)| *held).max()
}

/// All worlds that one step leads to, or none if every process is done.
fn steps(world: &World, kinds: &[Kind], patient: bool) -> Vec<World> {
    let mut worlds = Vec::new();
    for (number, history) in world.processes.iter().enumerate() {
        let Some(history) = history else { continue };
        let kind = kinds[number];
        let own = u8::try_from(number).unwrap();
        let mut replay = Replay {
            history,
            at: 0,
            device: 0,
            next: None,
        };
        if choose(&mut replay, kind).is_ok() {
            // It keeps what it has confirmed: for who is patient the others must do without
            // it.
            if patient {
                continue;
            }
            let mut over = world.clone();
            over.table.retain(|(process, ..), _| *process != own);
            over.processes[number] = None;
            worlds.push(over);
            continue;
        }
        let answered = |table: Table, answer: Answer, failed: bool| {
            let mut next = world.clone();
            next.table = table;
            next.processes[number].as_mut().unwrap().push(answer);
            next.failed[number] |= failed;
            next
        };
        let mut table = world.table.clone();
        match replay.next.expect("it stopped for a step") {
            Step::Write(device, region) => {
                let way = in_the_way(&table, own, device, lease(kind, region));
                if way.is_none() {
                    table.insert((own, device, lease(kind, region)), Held::Tentative);
                }
                worlds.push(answered(table, Answer::Lock(way), false));
            }
            Step::Look(device, region) => {
                let way = in_the_way(&table, own, device, lease(kind, region));
                worlds.push(answered(table, Answer::Lock(way), false));
            }
            Step::Rest => {
                if !patient {
                    worlds.push(answered(table, Answer::Rest(false), false));
                }
                // It looks again: the same as if it had not looked yet.
                let mut again = world.clone();
                again.processes[number].as_mut().unwrap().pop();
                worlds.push(again);
            }
            Step::Round => {
                let rounds = history
                    .iter()
                    .filter(|answer| matches!(answer, Answer::Rest(true)))
                    .count();
                worlds.push(answered(table, Answer::Rest(rounds + 1 < ROUNDS), false));
            }
            Step::Close(device) => {
                table.retain(|(process, d, _), _| !(*process == own && *d == device));
                worlds.push(answered(table, Answer::Lock(None), false));
            }
            Step::Confirm(device) => {
                let mine = table
                    .get_mut(&(own, device, kind.side == Side::Lease))
                    .expect("a tentative claim");
                *mine = Held::Confirmed;
                worlds.push(answered(table, Answer::Lock(None), false));
            }
            Step::Failed(impatient) => worlds.push(answered(table, Answer::Lock(None), !impatient)),
        }
        if patient {
            continue;
        }
        // Killed here: its locks go with it.
        let mut crashed = world.clone();
        crashed.table.retain(|(process, ..), _| *process != own);
        crashed.processes[number] = None;
        worlds.push(crashed);
    }
    worlds
}

/// Explores every interleaving; gives the number of worlds. With `patient` no process crashes or
/// runs out of patience, and then one of them gets a device; without it any process may crash at
/// any step.
fn explore(kinds: &[Kind], patient: bool) -> usize {
    let first = World {
        table: Table::new(),
        processes: vec![Some(Vec::new()); kinds.len()],
        failed: vec![false; kinds.len()],
    };
    let mut seen: HashSet<World> = HashSet::from([first.clone()]);
    let mut todo = vec![first];
    while let Some(world) = todo.pop() {
        for device in 0..2 {
            let confirmed = world
                .table
                .iter()
                .filter(|((_, d, _), held)| *d == device && **held == Held::Confirmed)
                .count();
            assert!(confirmed <= 1, "two have device {device}: {world:#?}");
        }
        assert!(
            !world.failed.iter().all(|failed| *failed),
            "a free device that nobody got: {kinds:?}, {world:#?}"
        );
        for next in steps(&world, kinds, patient) {
            if seen.insert(next.clone()) {
                todo.push(next);
            }
        }
    }
    seen.len()
}

/// Every way in which the processes may go through the devices; the first one begins with
/// the first, since numbers are but names.
#[allow(clippy::print_stdout, reason = "the figure is read")]
fn check(sides: &[Side], devices: u8) -> usize {
    let orders = if devices == 1 {
        1
    } else {
        1 << (sides.len() - 1)
    };
    let mut worlds = 0;
    for bits in 0..orders {
        let order = |number: usize| {
            if bits >> number & 1 == 1 {
                [1, 0]
            } else {
                [0, 1]
            }
        };
        let kinds: Vec<Kind> = sides
            .iter()
            .enumerate()
            .map(|(number, side)| Kind {
                side: *side,
                order: order(number),
                devices,
            })
            .collect();
        worlds += explore(&kinds, false) + explore(&kinds, true);
    }
    println!("{sides:?} on {devices}: {worlds} worlds");
    worlds
}

#[test]
fn two_processes_never_have_one_device_and_one_of_them_gets_it() {
    use Side::{Lease, Reservation};
    for sides in [
        [Lease, Lease],
        [Lease, Reservation],
        [Reservation, Reservation],
    ] {
        assert!(
            check(&sides, 1) > 300 && check(&sides, 2) > 300,
            "the model is a model"
        );
    }
}

const THREE: [[Side; 3]; 4] = {
    use Side::{Lease, Reservation};
    [
        [Lease, Lease, Lease],
        [Lease, Lease, Reservation],
        [Lease, Reservation, Reservation],
        [Reservation, Reservation, Reservation],
    ]
};

#[test]
fn three_processes_never_share_a_device_and_one_of_them_gets_it() {
    for sides in THREE {
        check(&sides, 1);
    }
}

/// Some millions of worlds: `cargo test --release -p getgpu-lock protocol --
/// --ignored`, as `make torture` does.
#[test]
#[ignore = "minutes, and only in a release build"]
fn three_processes_on_two_devices() {
    for sides in THREE {
        check(&sides, 2);
    }
}
