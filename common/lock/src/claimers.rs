//! Who claims devices at this moment, for people: the processes whose descriptors show a
//! write lock on a device's units. An honest claim lasts as long as NVML is asked about
//! the device; one that stays keeps all others from the device.

use super::holders::Holder;
use super::{LockFile, Span};
use getgpu_linux::{
    Stat,
    procfs::{self, fdinfo, namespaces},
};

/// Who claims a device: the processes that show it, which to an ordinary user are the user's own
/// alone, else one holder without a name: a claim is signed only when it is confirmed.
pub fn holders(lock_file: &LockFile, span: Span) -> Vec<Holder> {
    let pids = procfs::pids().into_iter();
    let found = pids.filter(|pid| {
        let locks = fdinfo::write_locks(&pid.to_string());
        let shown = lock_file.shown(&locks, span.lease_and_reservation());
        !shown.is_empty()
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
        holders.push(Holder::by_uid("claim", None));
    }
    holders
}
