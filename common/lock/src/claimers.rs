//! Who claims devices at this moment, for people: the processes whose descriptors show a
//! write lock on a device's units. An honest claim lasts as long as NVML is asked about
//! the device; one that stays keeps all others from the device.

use super::holders::{Holder, uids};
use super::{LockFile, OfdLock, Side, Span};
use getgpu_linux::{
    Stat,
    procfs::{self, fdinfo, namespaces},
};
use getgpu_model::Failure;

/// Who claims a device: the processes that show it, which to an ordinary user are the user's own
/// alone, else the users whose bytes stand beside it, else one holder of whom nothing is known.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn holders(lock_file: &LockFile, probe: &OfdLock, span: Span) -> Result<Vec<Holder>, Failure> {
    let pids = procfs::pids().into_iter();
    let found = pids.filter(|pid| {
        let locks = fdinfo::write_locks(&pid.to_string());
        [span.lease(), span.reservation()]
            .iter()
            .any(|region| !lock_file.shown(&locks, *region).is_empty())
    });
    let found = found.filter_map(Stat::read);
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
