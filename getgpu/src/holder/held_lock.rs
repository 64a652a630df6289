//! The lock that a holder has, and the bytes of it by which the holder and the caller's
//! next getgpu agree who has the reservation: the mark that it lingers, the handover, the
//! answer.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use getgpu_common::ident::Uuid;
use getgpu_common::lock::holder_args::HolderArgs;
use getgpu_common::lock::{OfdLock, Span, Units};
use getgpu_common::procfs::fdinfo;

/// How long somebody else may take over or move the lingering mark.
const HANDOVER: Duration = Duration::from_millis(200);

/// The confirmed reservation of these devices.
pub struct HeldLock<'a> {
    devices: &'a [Uuid],
    pub lock: OfdLock,
}

impl<'a> HeldLock<'a> {
    pub fn new(line: &'a HolderArgs, lock: OfdLock) -> Self {
        Self {
            devices: &line.devices,
            lock,
        }
    }

    /// Another description of the same lock file, wherever that is now.
    pub fn reopen(&self) -> Option<OfdLock> {
        let path = format!("/proc/self/fd/{}", self.lock.number());
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .ok()?;
        Some(OfdLock::new(OwnedFd::from(file)))
    }

    /// Read-locks the lingering bytes, under the handover bytes, on a description of its
    /// own.
    pub fn mark(&self) -> Option<OfdLock> {
        let mark = self.reopen()?;
        let handover = self.handover();
        for device in self.devices {
            let _ = mark.try_read(Span::of(device).lingering());
        }
        drop(handover);
        Some(mark)
    }

    /// Takes the mark away, unless somebody is just taking over: then this process is
    /// about to be ended.
    pub fn unmark(&self, mark: Option<OfdLock>) {
        let handover = self.handover();
        drop(mark);
        drop(handover);
    }

    fn handover(&self) -> Option<OfdLock> {
        let description = self.reopen()?;
        let until = Instant::now() + HANDOVER;
        for device in self.devices {
            let left = until.saturating_duration_since(Instant::now());
            let locked = description.write_within(Span::of(device).handover(), left);
            if matches!(locked, Ok(false)) {
                return None;
            }
        }
        Some(description)
    }

    /// Says on `description` whether the one that asks gets the devices.
    pub fn answer(&self, description: &OfdLock, agreed: bool) {
        for device in self.devices {
            let span = Span::of(device);
            let _ = description.try_read(if agreed {
                span.consent()
            } else {
                span.refusal()
            });
        }
    }

    /// Whether somebody keeps the handover bytes.
    pub fn is_asked_for(&self, probe: &OfdLock) -> bool {
        let held = |device| matches!(probe.conflict(Span::of(device).handover()), Ok(Some(_)));
        self.devices.iter().any(held)
    }

    /// Whether another program has a lease or a reservation on the units that are held
    /// here; so it is, in doubt.
    pub fn is_held_by_others(&self, probe: &OfdLock) -> bool {
        let own = fdinfo::confirmed_locks("self");
        let inode = nix::sys::stat::fstat(self.lock.as_fd()).map_or(0, |stat| stat.st_ino);
        self.devices.iter().map(Span::of).any(|span| {
            let units = Units::of(
                fdinfo::within(&own, inode, span.reservation()),
                span.reservation(),
            );
            let regions = [span.lease(), span.inner_lease(), span.inner_reservation()];
            let held = |range| !matches!(probe.conflict(range), Ok(None));
            regions.into_iter().any(|region| units.at(region).any(held))
        })
    }
}
