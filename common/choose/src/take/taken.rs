//! What a call has taken, before and while it is confirmed: devices, each claimed or joined, with
//! what they were taken inside of. Dropping it gives all of it up.

use crate::choice::cap::Guard;
use crate::ownership::Cover;
use getgpu_linux::BlockedSignals;
use getgpu_lock::{Claim, LockFile, OfdLock, Span, claim::confirm_all};
use getgpu_model::{Device, Failure, Units, share};

/// How a call has one of its devices.
#[derive(Debug)]
pub enum Got {
    /// By a tentative claim of its own.
    Claimed(Claim),
    /// As a lease of an ancestor has these units, which the program shares.
    Joined(Units),
}

/// A device that a call has taken.
#[derive(Debug)]
pub struct Part {
    /// The device.
    pub device: Device,
    /// How it has it.
    pub got: Got,
}

impl Part {
    /// A device with a claim on it.
    pub const fn claimed(device: Device, claim: Claim) -> Self {
        Self {
            device,
            got: Got::Claimed(claim),
        }
    }

    /// The units of the device.
    pub const fn units(&self) -> &Units {
        match &self.got {
            Got::Claimed(claim) => claim.units(),
            Got::Joined(units) => units,
        }
    }

    /// Where the device lies on the lock.
    pub fn span(&self) -> Span {
        Span::of(&self.device.uuid)
    }
}

/// Devices, as many as were asked for, in the order in which the program sees them.
#[derive(Debug)]
pub struct Taken {
    /// The devices.
    pub parts: Vec<Part>,
    /// What the call owned when it took them: they are inside of that.
    pub cover: Option<Cover>,
    /// Kept until the holder or the lease can be counted.
    pub guard: Guard,
    /// Held back until it is confirmed: a process that is stopped before that keeps a tentative claim.
    pub stops: Option<Box<BlockedSignals>>,
}

impl Taken {
    /// Devices that were taken inside of `cover`, counted under `guard`.
    pub const fn new(parts: Vec<Part>, cover: Option<Cover>, guard: Guard) -> Self {
        Self {
            parts,
            cover,
            guard,
            stops: None,
        }
    }

    /// The devices.
    pub fn devices(&self) -> impl Iterator<Item = &Device> + Clone {
        self.parts.iter().map(|part| &part.device)
    }

    /// The smallest part of a device that is taken: 1.0 is a whole one.
    pub fn smallest_part(&self) -> f64 {
        share::smallest(self.parts.iter().map(Part::units))
    }

    /// Confirms a reservation, after NVML has let go of the devices: one description that holds all
    /// of it, and the guard.
    ///
    /// # Errors
    ///
    /// The lock file cannot be opened or locked, a claim was lost, or what the devices were taken
    /// inside of has ended.
    pub fn reserve(self, lock_file: &LockFile, user: u32) -> Result<(OfdLock, Guard), Failure> {
        let claims = self.parts.into_iter().filter_map(|part| match part.got {
            Got::Claimed(claim) => Some(claim),
            Got::Joined(_) => None,
        });
        let lock = confirm_all(lock_file, claims.collect(), user)?;
        if let Some(cover) = &self.cover {
            cover.confirm(lock_file)?;
        }
        Ok((lock, self.guard))
    }

    /// Confirms the claims, after NVML has let go of the devices.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or a claim was lost.
    pub fn confirm_claims(&self) -> Result<(), Failure> {
        self.parts.iter().try_for_each(|part| match &part.got {
            Got::Claimed(claim) => claim.confirm(),
            Got::Joined(_) => Ok(()),
        })
    }
}
