//! Claims on a device: the tentative one, the look at the other side, and the
//! confirmation, as the protocol of the lock has them. A write lock is tentative, a read
//! lock confirmed; a call that reserves looks at leases and gives way to anything, one
//! that leases looks at reservations and gives way to confirmed ones, so of two that meet
//! exactly one wins.

use std::time::{Duration, Instant};

use super::protocol::{self, Locks, Region, Unheld};
use super::{Held, Level, LockFile, OfdLock, Side, Span};
use getgpu_linux::{Range, procfs::namespaces, run_clock};
use getgpu_model::{Failure, Units};

use crate::causes::LockCause;

/// How long a lease waits for a reservation that is only tentative.
const TENTATIVE_PATIENCE: Duration = Duration::from_millis(100);
/// The same where there is no other device to try instead.
const LONG_PATIENCE: Duration = Duration::from_millis(200);
/// Pause between two looks at a tentative claim, which lasts for some microseconds to some
/// milliseconds.
const PAUSE: Duration = Duration::from_micros(500);

/// What is to be claimed of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSpec {
    /// For a lease or for a reservation.
    pub side: Side,
    /// Among whom.
    pub level: Level,
    /// Which units.
    pub units: Units,
}

impl ClaimSpec {
    const fn own(&self, span: Span) -> Range {
        span.of_side(self.side, self.level)
    }

    const fn other(&self, span: Span) -> Range {
        span.of_side(self.side.opposite(), self.level)
    }
}

/// A device, or a part of one, that is claimed tentatively: write-locked on its side,
/// nothing confirmed on the other.
#[derive(Debug)]
pub struct Claim {
    description: OfdLock,
    span: Span,
    spec: ClaimSpec,
}

impl Claim {
    fn begin(lock_file: &LockFile, span: Span, spec: ClaimSpec) -> Result<Self, Failure> {
        Ok(Self {
            description: lock_file.open()?,
            span,
            spec,
        })
    }

    fn steps(&self, patience: Duration) -> Steps<'_> {
        Steps::on(&self.description, self.span, &self.spec, patience)
    }
}

/// The protocol's steps over the kernel's locks.
struct Steps<'a> {
    description: &'a OfdLock,
    span: Span,
    spec: &'a ClaimSpec,
    began: Instant,
    patience: Duration,
}

impl<'a> Steps<'a> {
    fn on(description: &'a OfdLock, span: Span, spec: &'a ClaimSpec, patience: Duration) -> Self {
        Self {
            description,
            span,
            spec,
            began: run_clock::now(),
            patience,
        }
    }

    const fn region(&self, region: Region) -> Range {
        match region {
            Region::Own => self.spec.own(self.span),
            Region::Other => self.spec.other(self.span),
            Region::OuterLease => self.span.lease(),
            Region::OuterReservation => self.span.reservation(),
            Region::Inside => self.span.inner_reservation(),
        }
    }
}

impl Locks for Steps<'_> {
    type Error = Failure;

    fn write(&mut self, region: Region) -> Result<Option<Held>, Failure> {
        for range in self.spec.units.at(self.region(region)) {
            if !self.description.try_write(range)? {
                let conflict = self.description.conflict(range)?;
                // Gone already: it was tentative.
                return Ok(Some(
                    conflict.map_or(Held::Tentative, |conflict| conflict.held),
                ));
            }
        }
        Ok(None)
    }

    fn read(&mut self, region: Region) -> Result<bool, Failure> {
        for range in self.spec.units.at(self.region(region)) {
            if !self.description.try_read(range)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_tried(&mut self, region: Region) -> Result<bool, Failure> {
        for range in self.spec.units.at(self.region(region)) {
            if self.description.tentative(range)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn conflict(&mut self, region: Region) -> Result<Option<Held>, Failure> {
        across(self.description, &self.spec.units, self.region(region))
    }

    fn rest(&mut self) -> Result<bool, Failure> {
        run_clock::sleep(PAUSE);
        Ok(run_clock::since(self.began) < self.patience)
    }
}

/// Tries to claim a device among others that may be had instead. `None`: another call has it, or
/// is trying it too and may yet leave it. With a claim this call may ask NVML about the device, and
/// then confirms or drops the claim.
///
/// # Errors
///
/// The lock file cannot be opened or locked.
pub fn try_claim(
    lock_file: &LockFile,
    spec: &ClaimSpec,
    span: Span,
) -> Result<Option<Claim>, Failure> {
    let claim = Claim::begin(lock_file, span, spec.clone())?;
    let mut steps = claim.steps(TENTATIVE_PATIENCE);
    let in_the_way = protocol::acquire(&mut steps, spec.side, spec.level)?;
    Ok(in_the_way.is_none().then_some(claim))
}

/// Tries to write-lock the lease of a named device, again for at most 200 ms while only
/// tentative claims are in the way. None: it is taken.
///
/// # Errors
///
/// The lock file cannot be opened or locked.
pub fn named_lease(
    lock_file: &LockFile,
    span: Span,
    units: Units,
) -> Result<Option<Claim>, Failure> {
    let spec = ClaimSpec {
        side: Side::Lease,
        level: Level::Outer,
        units,
    };
    let claim = Claim::begin(lock_file, span, spec)?;
    let in_the_way = protocol::named(&mut claim.steps(LONG_PATIENCE))?;
    Ok(in_the_way.is_none().then_some(claim))
}

impl Claim {
    /// The span of its device.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// How much of the device.
    pub const fn units(&self) -> &Units {
        &self.spec.units
    }

    /// What others hold on the other side. Waits for at most 200 ms while that is only tentative.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn other_side(&self) -> Result<Option<Held>, Failure> {
        protocol::behind(&mut self.steps(LONG_PATIENCE), Region::Other)
    }

    /// Whether all that others hold on the other side is confirmed. Waits for at most 200 ms; afterwards
    /// no other call gets further there, since each sees this claim.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn other_side_is_settled(&self) -> Result<bool, Failure> {
        protocol::is_settled(&mut self.steps(LONG_PATIENCE), Region::Other)
    }

    /// What others have reserved inside these units at the same time. Waits for at most 200 ms
    /// while that is only tentative. Leases inside need no look, since they hold the lease range
    /// too. `own`: the units that the reservation which covers this call holds inside itself;
    /// they are left out.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn others_inside(&self, own: &Units) -> Result<Option<Held>, Failure> {
        let spec = ClaimSpec {
            units: self.spec.units.difference(own),
            ..self.spec.clone()
        };
        let mut steps = Steps::on(&self.description, self.span, &spec, LONG_PATIENCE);
        protocol::behind(&mut steps, Region::Inside)
    }

    /// The description that the claim is made with.
    pub const fn ofd_lock(&self) -> &OfdLock {
        &self.description
    }

    /// Turns the tentative claim into a confirmed one, still with its own description.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or the claim was lost.
    pub fn confirm(&self) -> Result<(), Failure> {
        self.hold_on(&self.description)
    }

    /// Read-locks all units of the claim on `description`: its own one, which confirms it, or, once it is
    /// confirmed, a second one that is to hold them too.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or the claim was lost.
    pub fn hold_on(&self, description: &OfdLock) -> Result<(), Failure> {
        let (side, level) = (self.spec.side, self.spec.level);
        let mut steps = Steps::on(description, self.span, &self.spec, LONG_PATIENCE);
        match protocol::confirm(&mut steps, side, level)? {
            None => Ok(()),
            Some(Unheld::Claim) => Err(LockCause::LostClaim.into()),
            Some(Unheld::Around) => Err(LockCause::ClaimedAround.into()),
        }
    }

    /// The claim's own description: closing it ends the claim.
    pub fn into_ofd_lock(self) -> OfdLock {
        self.description
    }
}

/// Confirms all claims and gives one description that holds them.
///
/// # Errors
///
/// The lock file cannot be opened or locked, or a claim was lost.
pub fn confirm_all(
    lock_file: &LockFile,
    claims: Vec<Claim>,
    user: u32,
) -> Result<OfdLock, Failure> {
    let uid = namespaces::host_uid(user);
    for claim in &claims {
        // Signed before it is confirmed, and not only when the holder starts: max_per_user counts
        // it by this name, and others recognize whose reservation it is.
        sign(&claim.description, claim.spec.side, claim.span, uid, None);
        claim.confirm()?;
    }
    let mut claims = claims;
    if claims.len() == 1
        && let Some(only) = claims.pop()
    {
        return Ok(only.into_ofd_lock());
    }
    let all = lock_file.open()?;
    for claim in &claims {
        claim.hold_on(&all)?;
        sign(&all, claim.spec.side, claim.span, uid, None);
    }
    Ok(all)
}

/// Read-locks the two bytes that say whose claim it is. They only say where to look, so
/// not getting them is no failure.
pub fn sign(description: &OfdLock, side: Side, span: Span, host_uid: u32, pid: Option<i32>) {
    let (uids, pids) = (span.uids(side), span.pids(side));
    let _ = description.try_read(Range::byte(uids.start() + i64::from(host_uid)));
    if let Some(pid) = pid.filter(|pid| i64::from(*pid) < pids.len()) {
        let _ = description.try_read(Range::byte(pids.start() + i64::from(pid)));
    }
}

/// Read-locks units that another process holds for the caller already, so that both hold them.
/// Waits for at most 200 ms for calls that only try them; false if that does not end. Afterwards the
/// caller has to see that the other process still has them.
///
/// # Errors
///
/// The lock file cannot be locked.
pub fn join(
    description: &OfdLock,
    (side, level): (Side, Level),
    span: Span,
    units: &Units,
) -> Result<bool, Failure> {
    let spec = ClaimSpec {
        side,
        level,
        units: units.clone(),
    };
    let mut steps = Steps::on(description, span, &spec, LONG_PATIENCE);
    protocol::join(&mut steps, Region::Own)
}

/// What others hold of `units` in `region`: confirmed if any of it is.
fn across(description: &OfdLock, units: &Units, region: Range) -> Result<Option<Held>, Failure> {
    let mut worst = None;
    for range in units.at(region) {
        match description.conflict(range)?.map(|c| c.held) {
            Some(Held::Confirmed) => return Ok(Some(Held::Confirmed)),
            Some(Held::Tentative) => worst = Some(Held::Tentative),
            None => {}
        }
    }
    Ok(worst)
}

#[cfg(test)]
#[path = "claim_tests.rs"]
pub(crate) mod tests;
