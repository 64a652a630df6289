//! The lock that a holder has: the units of each reserved device, and the mark beside
//! them which shows that the reservation lingers.

use std::fs::File;
use std::os::fd::AsFd;

use getgpu_linux::procfs::{fdinfo, namespaces};
use getgpu_lock::{HolderArgs, OfdLock, Side, Span, claim::sign, occupancy};
use getgpu_model::{Units, Uuid};

/// The confirmed reservation of some devices.
pub struct HeldLock<'a> {
    devices: &'a [Uuid],
    pub lock: OfdLock,
    inode: u64,
}

/// Which units of a device are reserved, and among whom: for the node, and inside a
/// reservation or lease of the caller.
#[derive(Default, PartialEq, Eq)]
pub struct ReservedUnits {
    pub outer: Units,
    pub inner: Units,
}

impl<'a> HeldLock<'a> {
    pub fn new(args: &'a HolderArgs, lock: OfdLock) -> Self {
        let inode = nix::sys::stat::fstat(lock.as_fd()).map_or(0, |stat| stat.st_ino);
        Self {
            devices: &args.devices,
            lock,
            inode,
        }
    }

    /// Writes down who holds the devices, where others look for that.
    pub fn sign_in(&self) {
        let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
        let pid = namespaces::host_pids().then(|| std::process::id() as i32);
        for device in self.devices {
            sign(&self.lock, Side::Reservation, Span::of(device), uid, pid);
        }
    }

    /// Another description of the same lock file, wherever that is now.
    pub fn reopen(&self) -> Option<OfdLock> {
        let path = format!("/proc/self/fd/{}", self.lock.number());
        let file = File::options().read(true).write(true).open(path).ok()?;
        Some(OfdLock::new(file.into()))
    }

    /// Marks the reserved units as lingering until the result is dropped. Callers that
    /// find no free device wait for such units.
    #[must_use = "the mark ends when this is dropped"]
    pub fn mark_lingering(&self) -> Option<OfdLock> {
        let mark = self.reopen()?;
        for device in self.devices {
            let (span, reserved) = (Span::of(device), self.reserved("self", device));
            let others = || occupancy::any_held(&self.lock, &reserved.outer, span.reservation());
            // What the reservation around this one has on the outer range too does not end with it.
            let stays = !reserved.inner.is_empty() && others().unwrap_or(true);
            let outer = reserved.outer.at(span.lingering()).filter(|_| !stays);
            for range in outer.chain(reserved.inner.at(span.inner_lingering())) {
                let _ = mark.try_read(range);
            }
        }
        Some(mark)
    }

    /// Whether this is the reservation of a part of a device.
    pub fn is_share(&self) -> bool {
        !self
            .devices
            .iter()
            .all(|device| self.reserved("self", device).outer.is_whole())
    }

    /// Whether process `pid` reserves other units of one of these devices.
    pub fn is_shared_with(&self, pid: i32) -> bool {
        self.devices.iter().any(|device| {
            let own = self.reserved("self", device);
            let other = self.reserved(&pid.to_string(), device);
            !other.outer.is_empty() && own != other
        })
    }

    /// The units of a device that the descriptors of `pid` (or "self") show as reserved.
    fn reserved(&self, pid: &str, device: &Uuid) -> ReservedUnits {
        let (span, locks) = (Span::of(device), fdinfo::confirmed_locks(pid));
        ReservedUnits {
            outer: Units::locked(&locks, self.inode, span.reservation()),
            inner: Units::locked(&locks, self.inode, span.inner_reservation()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Units inside a reservation are marked there alone: others wait for what is about to end among
    /// those that they could have.
    #[test]
    fn the_mark_is_beside_what_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || OfdLock::new(file.reopen().unwrap().into());
        let args =
            HolderArgs::parse(["MIG-0d1e2f30-1111-5222-8333-444455556666", "caller=1(init)"])
                .unwrap();
        let span = Span::of(&args.devices[0]);
        let probe = open();
        let marks = [span.lingering(), span.inner_lingering()];
        let marked = || marks.map(|region| probe.conflict(region).unwrap().is_some());
        // Inside another reservation, and inside a lease, which has a range of its own.
        for (is_inner, is_around) in [(false, false), (true, true), (true, false)] {
            let (lock, around) = (open(), open());
            assert!(lock.try_read(span.reservation()).unwrap());
            assert!(!is_inner || lock.try_read(span.inner_reservation()).unwrap());
            assert!(!is_around || around.try_read(span.reservation()).unwrap());
            let held = HeldLock::new(&args, lock);
            let mark = held.mark_lingering();
            assert_eq!(marked(), [!is_around, is_inner]);
            drop(mark);
            // A child that another test has forked has the mark for a moment longer.
            let began = Instant::now();
            while marked() != [false, false] && began.elapsed() < Duration::from_secs(10) {}
            assert_eq!(marked(), [false, false]);
        }
    }
}
