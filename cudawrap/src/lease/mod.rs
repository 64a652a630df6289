//! From devices to a lease, and to the program with it: `choose` finds devices, `leased` leases them, `launch`
//! prepares the variables and `handover` executes. This file is the lease as the program inherits it: read locks on
//! two read-only descriptions, one low, one high, so that a shell that closes or reuses low descriptors does not drop
//! it. The writable description that took the lock is never inherited, unless there is no descriptor left for another.

pub mod choose;
pub mod handover;
pub mod helper;
pub mod launch;
pub mod leased;
pub mod named;
mod others;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use getgpu_choose::{Cover, Got, Part, Taken};
use getgpu_linux::{
    descriptors::{highest, lowest},
    procfs::namespaces,
};
use getgpu_lock::{
    Level, OfdLock, Side, Span,
    claim::{join, sign},
};
use getgpu_model::{Failure, Units, Uuid, share};

use crate::call::CudawrapCall;

/// Descriptors that hold the lease; they stay close-on-exec until the very last step.
#[derive(Debug)]
pub struct Lease {
    held: Vec<OwnedFd>,
    /// How many of them the program has to keep open: one of the lease, and each other one that is
    /// passed to it, such as one of MPS.
    pub needed: usize,
    /// The smallest part of a device that is leased: 1.0 is a whole one.
    pub part: f64,
    /// The reservation or lease that this one is taken from, if any.
    enclosing: Option<Cover>,
    /// What of each device is leased.
    units: Vec<(Span, Units)>,
}

impl Lease {
    /// Confirms what was taken, after NVML has let go of it. What ancestors lease already is joined,
    /// so that a program that was given none of their descriptors has its device when they are gone.
    ///
    /// # Errors
    ///
    /// The reservation or lease from which this one was taken has ended meanwhile.
    pub fn confirm(call: &CudawrapCall<'_>, taken: Taken) -> Result<Self, Failure> {
        let lock_file = call.lock_file;
        let signature = Signature {
            uid: namespaces::host_uid(nix::unistd::geteuid().as_raw()),
            pid: namespaces::host_pids().then_some(call.lessee.pid),
        };
        taken.confirm_claims()?;
        let part = taken.smallest_part();
        let Taken {
            parts,
            cover,
            guard,
            stops,
        } = taken;
        let units = parts.iter().map(|part| (part.span(), part.units().clone()));
        let units = units.collect();
        let held = match lock_file.open_read_only() {
            Ok(low) => {
                let high = lock_file.open_read_only().ok();
                for description in std::iter::once(&low).chain(&high) {
                    signature.hold(description, &parts)?;
                }
                // Closed first, so that the inherited descriptors can have these numbers.
                drop(parts);
                let high = high.map(OfdLock::into_fd);
                let high = high.and_then(|high| highest(&high));
                std::iter::once(lowest(low.into_fd())).chain(high).collect()
            }
            // No descriptor is left: then the writable ones have to be inherited.
            Err(_) => signature.inherit(parts),
        };
        if let Some(cover) = &cover {
            cover.confirm(lock_file)?;
        }
        // The lease can be counted from now on.
        drop(guard);
        drop(stops);
        Ok(Self {
            held,
            needed: 1,
            part,
            enclosing: cover,
            units,
        })
    }

    /// The smallest part of a device in what this lease is taken from.
    pub fn enclosing_part(&self) -> Option<f64> {
        self.enclosing
            .as_ref()
            .map(|cover| share::smallest(cover.devices.iter().map(|(_, units)| units)))
    }

    /// The units of a device that the program around this one leases.
    pub fn enclosing_lease(&self, device: &Uuid) -> Option<&Units> {
        let cover = self.enclosing.as_ref()?;
        cover.units(device).filter(|_| !cover.is_reservation())
    }

    /// Has the program inherit one more descriptor, a high one.
    pub fn carry(&mut self, fd: OwnedFd) {
        self.held.push(highest(&fd).unwrap_or(fd));
        self.needed = self.held.len();
    }

    /// What of a device is leased.
    pub fn units(&self, device: &Uuid) -> Option<&Units> {
        let (span, mut leased) = (Span::of(device), self.units.iter());
        let known = leased.find(|(known, _)| *known == span);
        known.map(|(_, units)| units)
    }

    /// The descriptors that the program inherits.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.held.iter().map(AsRawFd::as_raw_fd)
    }
}

/// Who a lease is signed by, as the host numbers users and processes.
struct Signature {
    uid: u32,
    pid: Option<i32>,
}

impl Signature {
    /// Has `description` hold the claims, and what ancestors lease already.
    fn hold(&self, description: &OfdLock, parts: &[Part]) -> Result<(), Failure> {
        for part in parts {
            let is_held = match &part.got {
                Got::Claimed(claim) => claim.hold_on(description).map(|()| true)?,
                Got::Joined(units) => {
                    join(description, (Side::Lease, Level::Outer), part.span(), units)?
                }
            };
            if is_held {
                self.write(description, part.span());
            }
        }
        Ok(())
    }

    /// Signs the descriptions that made the claims, and has those inherited.
    fn inherit(&self, parts: Vec<Part>) -> Vec<OwnedFd> {
        let claims = parts.into_iter().filter_map(|part| match part.got {
            Got::Claimed(claim) => Some(claim),
            Got::Joined(_) => None,
        });
        let signed = claims.map(|claim| {
            self.write(claim.ofd_lock(), claim.span());
            claim.into_ofd_lock().into_fd()
        });
        signed.collect()
    }

    fn write(&self, description: &OfdLock, span: Span) {
        sign(description, Side::Lease, span, self.uid, self.pid);
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
