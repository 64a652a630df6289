//! Claims on a device: the tentative one, the look at the other side, and the
//! confirmation, as the protocol of the lock has them. A write lock is tentative, a read
//! lock confirmed; a call that reserves looks at leases and gives way to anything, one
//! that leases looks at reservations and gives way to confirmed ones, so of two that meet
//! exactly one wins.

use std::time::{Duration, Instant};

use super::protocol::{self, Locks, Region};
use super::{Held, Level, LockFile, OfdLock, Side, Span};
use getgpu_linux::{Range, procfs::namespaces};
use getgpu_model::{Failure, Kind, Units};

/// How long a lease waits for a reservation that is only tentative.
const TENTATIVE_PATIENCE: Duration = Duration::from_millis(100);
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
    fn begin(lock_file: &LockFile, span: Span, spec: ClaimSpec) -> Result<ClaimAttempt, Failure> {
        Ok(ClaimAttempt {
            claim: Self {
                description: lock_file.open()?,
                span,
                spec,
            },
            began: Instant::now(),
            patience: TENTATIVE_PATIENCE,
        })
    }
}

/// A claim in the making: the protocol's steps over the kernel's locks.
struct ClaimAttempt {
    claim: Claim,
    began: Instant,
    patience: Duration,
}

impl ClaimAttempt {
    fn region(&self, region: Region) -> Range {
        let (spec, span) = (&self.claim.spec, self.claim.span);
        match region {
            Region::Own => spec.own(span),
            Region::Other => spec.other(span),
            Region::OuterLease => span.lease(),
        }
    }
}

impl Locks for ClaimAttempt {
    type Error = Failure;

    fn write(&mut self, region: Region) -> Result<Option<Held>, Failure> {
        for range in self.claim.spec.units.at(self.region(region)) {
            if !self.claim.description.try_write(range)? {
                let conflict = self.claim.description.conflict(range)?;
                // Gone already: it was tentative.
                return Ok(Some(
                    conflict.map_or(Held::Tentative, |conflict| conflict.held),
                ));
            }
        }
        Ok(None)
    }

    fn conflict(&mut self, region: Region) -> Result<Option<Held>, Failure> {
        across(
            &self.claim.description,
            &self.claim.spec.units,
            self.region(region),
        )
    }

    fn rest(&mut self) -> Result<bool, Failure> {
        std::thread::sleep(PAUSE);
        Ok(self.began.elapsed() < self.patience)
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
    let mut attempt = Claim::begin(lock_file, span, spec.clone())?;
    let in_the_way = protocol::acquire(&mut attempt, spec.side, spec.level)?;
    Ok(in_the_way.is_none().then_some(attempt.claim))
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
    let mut attempt = Claim::begin(
        lock_file,
        span,
        ClaimSpec {
            side: Side::Lease,
            level: Level::Outer,
            units,
        },
    )?;
    attempt.patience = 2 * TENTATIVE_PATIENCE;
    let in_the_way = protocol::named(&mut attempt)?;
    Ok(in_the_way.is_none().then_some(attempt.claim))
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
        self.patiently(&self.spec.units, self.spec.other(self.span))
    }

    fn patiently(&self, units: &Units, region: Range) -> Result<Option<Held>, Failure> {
        let began = Instant::now();
        loop {
            let held = across(&self.description, units, region)?;
            if held != Some(Held::Tentative) || began.elapsed() >= 2 * TENTATIVE_PATIENCE {
                return Ok(held);
            }
            std::thread::sleep(PAUSE);
        }
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
        self.patiently(
            &self.spec.units.difference(own),
            self.span.inner_reservation(),
        )
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

    /// Read-locks on `description` all that the claim is about. On another one than its
    /// own only after it is confirmed.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or the claim was lost.
    pub fn hold_on(&self, description: &OfdLock) -> Result<(), Failure> {
        let mut ranges: Vec<Range> = self.spec.units.at(self.spec.own(self.span)).collect();
        if (self.spec.side, self.spec.level) == (Side::Lease, Level::Inner { reserved: true }) {
            ranges.extend(self.spec.units.at(self.span.lease()));
        }
        for range in ranges {
            if !description.try_read(range)? {
                return Err(Failure::new(
                    Kind::LockPlace,
                    "the lock was lost while the claim was being confirmed",
                ));
            }
        }
        // What encloses this claim may end before it, so its units are locked too. That fails
        // only for a moment, while another call tries to claim them and cannot.
        let around = match (self.spec.side, self.spec.level) {
            (Side::Reservation, Level::Inner { .. }) => Some(self.span.reservation()),
            (Side::Lease, Level::Inner { reserved: false }) => Some(self.span.lease()),
            _ => None,
        };
        for range in around
            .into_iter()
            .flat_map(|region| self.spec.units.at(region))
        {
            let _ = description.try_read(range);
        }
        Ok(())
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
        claim.confirm()?;
        // Signed at once, and not only when the holder starts: max_per_user counts it by this
        // name, and others recognize whose reservation it is.
        sign(&claim.description, claim.spec.side, claim.span, uid, None);
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

/// Read-locks units that an ancestor leases already, so that both hold them. False if that lease
/// has ended and another call has the units.
///
/// # Errors
///
/// The lock file cannot be locked.
pub fn join(description: &OfdLock, side: Side, span: Span, units: &Units) -> Result<bool, Failure> {
    for range in units.at(span.of_side(side, Level::Outer)) {
        if !description.try_read(range)? {
            return Ok(false);
        }
    }
    Ok(true)
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
