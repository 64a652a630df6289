//! What can be had of one device, and if nothing, why; and what came of an attempt to get
//! several. Pure.

use getgpu_model::{Activity, Device, Failure, Usage};

use crate::take::Taken;

/// What can be had of one device, or why it cannot.
pub type Offer<T> = Result<T, Rejected>;

/// Why a device was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Leased or reserved.
    Taken,
    /// Another call had claimed it tentatively.
    Tentative,
    /// It is free, and kept for a waiter that wants several, or all of one.
    Kept,
    /// It is free, and with it there are still fewer than are wanted.
    Free,
    /// Less of it is free than the share that is wanted.
    NoRoom,
    /// NVML shows it in use.
    Busy(String),
    /// NVML would not tell.
    Unknown(String),
    /// CUDA cannot or should not start there.
    Unhealthy(String),
}

impl Rejected {
    /// Whether the reason is what others hold on the lock.
    pub fn is_of_lock(&self) -> bool {
        matches!(
            self,
            Self::Taken | Self::Tentative | Self::NoRoom | Self::Kept
        )
    }

    /// Whether the reason is what NVML said, or that it said nothing.
    pub fn is_of_nvml(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unknown(_) | Self::Unhealthy(_))
    }
}

/// Why a device with this use is not free; none if it is idle.
pub fn objection(usage: Usage) -> Option<Rejected> {
    let reason = usage.reason.unwrap_or_default();
    match usage.activity {
        Activity::Idle => None,
        Activity::Busy => Some(Rejected::Busy(reason)),
        Activity::Unknown => Some(Rejected::Unknown(reason)),
        Activity::Unhealthy => Some(Rejected::Unhealthy(reason)),
    }
}

/// What came of an attempt to get devices: `D` is what was got, `N` why too few are free.
#[derive(Debug)]
pub enum ChoiceOutcome<D = Taken, N = Vec<(Device, Rejected)>> {
    /// As many as were wanted.
    Taken(D),
    /// The pool has devices and too few are free.
    NoneFree(N),
    /// This user has as many as one may have.
    OverCap(Failure),
}
