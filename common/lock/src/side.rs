//! For whom and among whom a device is claimed. Which regions of its span that is says
//! `layout`.

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
