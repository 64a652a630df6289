//! The ways in which a call takes a device, and what differs between them, as one table. The code
//! asks the row, so that a rule stands in one place. What getgpu prints again is joined
//! by `again` in its `answer.rs`, and has no row.

use crate::ownership::Cover;
use crate::pool::Portion;

/// A way to take a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeKind {
    /// Any free one of the pool.
    Chosen,
    /// The one with this number: `getgpu INDEX`.
    Index,
    /// One that the grant names, whole.
    Named,
    /// All that is reserved for the caller.
    AllOfReservation,
    /// All that a program around the caller leases.
    AllOfLease,
    /// A share of one that the grant names.
    PartOfNamed,
    /// A part, or fewer devices, of what the caller owns.
    PartOfOwn,
}

/// How a device of a kind is claimed, and what is looked at behind the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `protocol::acquire`: gives way to what is confirmed on the other side.
    Acquire,
    /// The same; in a pid namespace of its own reservations that only the caller's user has signed
    /// count as the caller's, which nothing can prove there. That is asked behind the claim.
    AcquireIgnoringUnproven,
    /// `protocol::named`, then the reservations: one of another user is in the way.
    NameThenReservations,
    /// `protocol::named` on the own units, then what is reserved inside them.
    NameThenInside,
    /// The units of the lease, if no other program has a part inside them.
    Join,
}

/// What differs between the kinds. Whether it waits in the queue, and what a program does without its
/// device, is decided by who asks: `queue` and cudawrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakeRules {
    /// How it is claimed.
    pub(crate) way: Way,
    /// Whether a device that is kept for a waiter is left alone. One that is named is taken: the waiter
    /// can have another one.
    pub(crate) leaves_kept: bool,
    /// Whether it counts for `max_per_user`: not what the user, or a batch system, has named, and
    /// not once more what is owned.
    pub(crate) is_counted: bool,
}

impl TakeKind {
    /// What holds for this kind: the table.
    pub(crate) const fn rules(self) -> TakeRules {
        let (way, leaves_kept, is_counted) = match self {
            Self::Chosen => (Way::Acquire, true, true),
            // It is printed whether or not it is reserved.
            Self::Index => (Way::Acquire, false, true),
            Self::Named => (Way::NameThenReservations, false, false),
            Self::AllOfReservation => (Way::NameThenInside, false, false),
            Self::AllOfLease => (Way::Join, false, false),
            Self::PartOfNamed => (Way::AcquireIgnoringUnproven, false, false),
            Self::PartOfOwn => (Way::Acquire, false, false),
        };
        TakeRules {
            way,
            leaves_kept,
            is_counted,
        }
    }

    /// The kind of a named device of which this `portion` is wanted, by a call that owns `cover`.
    pub(crate) fn of_named(cover: Option<&Cover>, portion: Portion) -> Self {
        match (cover, portion) {
            (None, Portion::All) => Self::Named,
            (None, Portion::Units(_) | Portion::TooLarge) => Self::PartOfNamed,
            (Some(_), Portion::Units(_) | Portion::TooLarge) => Self::PartOfOwn,
            (Some(cover), Portion::All) if cover.is_reservation() => Self::AllOfReservation,
            (Some(_), Portion::All) => Self::AllOfLease,
        }
    }
}
