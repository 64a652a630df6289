//! The lease as the program inherits it: read locks on two read-only descriptions, one
//! low, one high, so that a shell that closes or reuses low descriptors does not drop it.
//! The writable description that took the lock is never inherited, unless there is no
//! descriptor left for another.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use getgpu_choose::{Cover, Request};
use getgpu_linux::{
    descriptors::{highest, lowest},
    procfs::namespaces,
};
use getgpu_lock::{
    Claim, OfdLock, Side, Span,
    claim::{join, sign},
};
use getgpu_model::{Failure, Units, Uuid, share};

use crate::call::CudawrapCall;

/// Descriptors that hold the lease; they stay close-on-exec until the very last step.
#[derive(Debug)]
pub struct Lease {
    held: Vec<OwnedFd>,
    /// Whether other descriptors than those of the lock are among them, such as one of MPS.
    carries: bool,
    /// The smallest part of a device that is leased: 1.0 is a whole one.
    pub part: f64,
    /// The reservation or lease that this one is taken from, if any.
    enclosing: Option<Cover>,
    /// What of each device is leased.
    units: Vec<(Span, Units)>,
}

impl Lease {
    /// Confirms claims that the `request` of this call led to, and joins what ancestors
    /// lease already, so that a program that was given none of their descriptors has its
    /// device when they are gone.
    ///
    /// # Errors
    ///
    /// The reservation or lease from which this one was taken has ended meanwhile.
    pub fn confirm(
        call: &CudawrapCall<'_>,
        request: &Request,
        claims: Vec<Claim>,
        inherited: &[(Span, Units)],
    ) -> Result<Self, Failure> {
        let lock_file = call.lock_file;
        let signature = Signature {
            uid: namespaces::host_uid(nix::unistd::geteuid().as_raw()),
            pid: namespaces::host_pids().then_some(call.lessee.pid),
        };
        claims.iter().try_for_each(Claim::confirm)?;
        let claimed = claims
            .iter()
            .map(|claim| (claim.span(), claim.units().clone()));
        let units: Vec<(Span, Units)> = claimed.chain(inherited.iter().cloned()).collect();
        let part = share::smallest(units.iter().map(|(_, units)| units));
        let held = match lock_file.open_read_only() {
            Ok(low) => {
                let high = lock_file.open_read_only().ok();
                for description in std::iter::once(&low).chain(&high) {
                    signature.hold(description, &claims, inherited)?;
                }
                // Closed first, so that the inherited descriptors can have these numbers.
                drop(claims);
                let high = high.map(OfdLock::into_fd);
                let high = high.and_then(|high| highest(&high));
                std::iter::once(lowest(low.into_fd())).chain(high).collect()
            }
            // No descriptor is left: then the writable ones have to be inherited.
            Err(_) => signature.inherit(claims),
        };
        request.confirm(lock_file)?;
        Ok(Self {
            held,
            carries: false,
            part,
            enclosing: request.cover.clone(),
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
        self.carries = true;
        self.held.push(highest(&fd).unwrap_or(fd));
    }

    /// How many of the descriptors a program cannot do without: one of the lease, and
    /// every one that it carries besides.
    pub fn needed(&self) -> usize {
        if self.carries { self.held.len() } else { 1 }
    }

    /// What of a device is leased.
    pub fn units(&self, device: &Uuid) -> Option<&Units> {
        let span = Span::of(device);
        self.units
            .iter()
            .find(|(known, _)| *known == span)
            .map(|(_, units)| units)
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
    fn hold(
        &self,
        description: &OfdLock,
        claims: &[Claim],
        inherited: &[(Span, Units)],
    ) -> Result<(), Failure> {
        for claim in claims {
            claim.hold_on(description)?;
            self.write(description, claim.span());
        }
        for (span, units) in inherited {
            if join(description, Side::Lease, *span, units)? {
                self.write(description, *span);
            }
        }
        Ok(())
    }

    /// Signs the descriptions that made the claims, and has those inherited.
    fn inherit(&self, claims: Vec<Claim>) -> Vec<OwnedFd> {
        claims
            .into_iter()
            .map(|claim| {
                self.write(claim.ofd_lock(), claim.span());
                claim.into_ofd_lock().into_fd()
            })
            .collect()
    }

    fn write(&self, description: &OfdLock, span: Span) {
        sign(description, Side::Lease, span, self.uid, self.pid);
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
