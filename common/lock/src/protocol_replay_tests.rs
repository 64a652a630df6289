//! A process of the model as its history of answers, which is run again from the start: the steps of
//! the protocol are answered from the history, and where that ends stands the step that it takes next.

use super::super::{Held, Level, Side};
use super::{Locks, Region};

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
pub(super) enum Answer {
    Lock(Option<Held>),
    Is(bool),
    Round(bool),
}

/// Units of a place of a device.
pub(super) type At = (u8, Place, Units);

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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
    /// Found nothing, and has given back all; true if it only gave up.
    Failed(bool),
}

/// A replay: answers from the history, and a stop where it ends.
pub(super) struct Replay<'a> {
    pub(super) history: &'a [Answer],
    pub(super) at: usize,
    pub(super) next: Option<Step>,
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
