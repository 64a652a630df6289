//! For whom and among whom a device is claimed, and which regions of its span that is. Pure:
//! the offsets themselves are those of `layout`.

use super::Span;
use getgpu_linux::Range;

/// For whom a device is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A program that runs now.
    Lease,
    /// A program that has not started yet.
    Reservation,
}

impl Side {
    /// The side that excludes this one.
    pub(crate) const fn opposite(self) -> Self {
        match self {
            Self::Lease => Self::Reservation,
            Self::Reservation => Self::Lease,
        }
    }

    /// What people and programs are told.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Reservation => "reservation",
        }
    }
}

/// Among whom a device is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All users of the node.
    Outer,
    /// The calls that choose inside units they own already: under a reservation of the user, or
    /// else under an ancestor's lease.
    Inner {
        /// They own it by a reservation, so one of them can have the lease of the outer level.
        reserved: bool,
    },
}

impl Span {
    /// The units that are locked for a claim.
    pub const fn of_side(self, side: Side, level: Level) -> Range {
        match (side, level) {
            (Side::Lease, Level::Outer) => self.lease(),
            (Side::Reservation, Level::Outer) => self.reservation(),
            (Side::Lease, Level::Inner { .. }) => self.inner_lease(),
            (Side::Reservation, Level::Inner { .. }) => self.inner_reservation(),
        }
    }

    /// One byte per uid of those who have a side.
    pub const fn uids(self, side: Side) -> Range {
        match side {
            Side::Lease => self.lease_uids(),
            Side::Reservation => self.reservation_uids(),
        }
    }

    /// One byte per process id of those who have a side.
    pub(crate) const fn pids(self, side: Side) -> Range {
        match side {
            Side::Lease => self.lease_pids(),
            Side::Reservation => self.reservation_pids(),
        }
    }
}
