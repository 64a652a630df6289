//! Who claims devices at this moment, for people: the processes whose descriptors show a
//! write lock on a device's units. An honest claim lasts as long as NVML is asked about
//! the device; one that stays keeps all others from the device.

use super::holders::{Holder, uids};
use super::{LockFile, OfdLock, Side, Span};
use crate::error::Failure;
use crate::procfs::{self, Stat, fdinfo, namespaces};

/// The write locks of all processes that may be read, once for a whole listing.
#[derive(Debug)]
pub struct Claimers(Vec<(i32, Vec<fdinfo::OwnLock>)>);

impl Claimers {
    /// Reads what the processes show: to an ordinary user only the user's own do.
    pub fn read() -> Self {
        let pids = procfs::pids().into_iter();
        Self(
            pids.map(|pid| (pid, fdinfo::write_locks(&pid.to_string())))
                .filter(|(_, l)| !l.is_empty())
                .collect(),
        )
    }

    /// Who claims a device: its processes, else the users whose bytes stand beside it,
    /// else one holder of whom nothing is known.
    pub fn holders(
        &self,
        lock_file: &LockFile,
        probe: &OfdLock,
        span: Span,
    ) -> Result<Vec<Holder>, Failure> {
        let inode = lock_file.identity.1;
        let found = self.0.iter().filter(|(_, locks)| {
            [span.lease(), span.reservation()]
                .iter()
                .any(|region| !fdinfo::within(locks, inode, *region).is_empty())
        });
        let found = found.filter_map(|(pid, _)| Stat::read(*pid));
        let mut holders: Vec<Holder> = found
            .map(|stat| {
                let uid = procfs::euid(stat.pid).map(namespaces::host_uid);
                Holder {
                    pid: Some(stat.pid),
                    program: Some(stat.comm),
                    ..Holder::by_uid("claim", uid)
                }
            })
            .collect();
        if holders.is_empty() {
            let mut signed = uids(probe, span, Side::Lease)?;
            signed.extend(uids(probe, span, Side::Reservation)?);
            holders.extend(
                signed
                    .into_iter()
                    .map(|uid| Holder::by_uid("claim", Some(uid))),
            );
        }
        if holders.is_empty() {
            holders.push(Holder::by_uid("claim", None));
        }
        Ok(holders)
    }
}
