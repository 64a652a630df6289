//! Which processes hold a lock on a device, read from /proc/PID/fdinfo of each. Unlike the bytes that
//! sign a lock, which any user can set, this cannot be forged.

use super::ownership_proof::{locks_of, shown_in};
use super::{Level, LockFile, Side, Span};
use getgpu_linux::{
    Stat,
    procfs::{self, namespaces},
};
use getgpu_model::Units;

/// Who shows the locks where the bytes do not lead to a process that has them: the one that signed
/// has exited, and others have inherited its descriptors. Of those with the same locks the oldest.
/// A user may read those of the user's own processes, and root all.
pub(crate) fn found_by_locks(lock_file: &LockFile, span: Span, side: Side) -> Vec<(Units, Stat)> {
    let own = nix::unistd::geteuid().as_raw();
    let is_root = namespaces::is_host_root();
    let pids = procfs::pids().into_iter();
    let pids = pids.filter(|pid| is_root || procfs::may_be_of(*pid, own));
    let mut found: Vec<(Units, Stat)> = Vec::new();
    for pid in pids {
        let units = units_of(lock_file, pid, side, span);
        let Some(stat) = Stat::read(pid).filter(|_| !units.is_empty()) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == units) {
            Some((_, known)) if stat.start < known.start => *known = stat,
            Some(_) => {}
            None => found.push((units, stat)),
        }
    }
    found
}

/// The units of a device that the descriptors of a process show, as far as they may be
/// read.
pub fn units_of(lock_file: &LockFile, pid: i32, side: Side, span: Span) -> Units {
    shown_in(&locks_of(pid), lock_file, span.of_side(side, Level::Outer))
}
