//! The launcher that started this rank, found by name among the processes above it. It
//! tells the innermost of nested launchers, and what belongs to this rank alone: whatever
//! was reserved or leased below it.

use getgpu_choose::{Basis, Cover};
use getgpu_linux::{Stat, procfs::ancestry};
use getgpu_lock::{HolderProcess, LockFile, ownership_proof};

use super::{LAUNCHERS, Launcher, MPIRUN, TORCHRUN};

/// The launcher that has processes of this name.
fn of_process(name: &str) -> Option<&'static Launcher> {
    let mut launchers = LAUNCHERS.iter();
    launchers.find(|launcher| launcher.processes.contains(&name))
}

/// Where the nearest launcher is among the ancestors, the parent first.
fn find(ancestors: &[Stat]) -> Option<usize> {
    let mut ancestors = ancestors.iter();
    ancestors.position(|stat| of_process(&stat.comm).is_some())
}

/// The name of the launcher that started this process, or an ancestor of it.
pub fn nearest() -> Option<String> {
    let mut ancestors = ancestry::ancestors(std::process::id() as i32, MOST);
    find(&ancestors).map(|above| ancestors.swap_remove(above).comm)
}

/// How the nearest launcher is typed, up to the number of ranks.
pub fn command() -> &'static str {
    if std::env::var_os("TORCHELASTIC_RUN_ID").is_some() {
        return TORCHRUN.command;
    }
    let launcher = nearest().and_then(|name| of_process(&name));
    launcher.map_or(MPIRUN, |launcher| launcher.command)
}

/// Ancestors that are looked at.
const MOST: usize = 64;

/// Whether what this process owns was reserved for, or leased by, this rank alone and not all
/// ranks of its launcher: then the rank uses all of it. If that cannot be told it is taken to
/// be for all, and each rank takes its part.
pub fn is_ours_alone(lock_file: &LockFile, cover: &Cover) -> bool {
    let own = std::process::id() as i32;
    let ancestors = ancestry::ancestors(own, MOST);
    let Some(above) = find(&ancestors) else {
        return false;
    };
    match &cover.basis {
        Basis::Reservation(holder) => reserved_below(holder, own, &ancestors[..above]),
        // A launcher that runs under the lease has it for all of its ranks.
        Basis::InheritedLease | Basis::AncestorLease => {
            let locks = ownership_proof::locks_of(ancestors[above].pid);
            cover.devices.iter().all(|(uuid, units)| {
                let of_launcher = ownership_proof::leased(&locks, lock_file, uuid);
                of_launcher.difference(units) == of_launcher
            })
        }
    }
}

/// Whether a reservation was made for this process, or for an ancestor below the
/// launcher.
fn reserved_below(holder: &HolderProcess, own: i32, below: &[Stat]) -> bool {
    let start = Stat::read(own).map_or(0, |stat| stat.start);
    let lineage: Vec<(i32, u64)> = std::iter::once((own, start))
        .chain(below.iter().map(|stat| (stat.pid, stat.start)))
        .collect();
    holder.args.distance(&lineage) != usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, name: &str) -> Stat {
        let line = format!("{pid} ({name}) S 0{}", " 0".repeat(40));
        Stat::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn the_nearest_launcher_is_the_innermost() {
        #[rustfmt::skip]
        let chain = [
            stat(9, "bash"), stat(8, "orted"), stat(7, "bash"), stat(6, "slurmstepd"),
            stat(1, "init"),
        ];
        assert_eq!(find(&chain), Some(1));
        assert_eq!(find(&chain[2..]), Some(1));
        assert_eq!(find(&chain[4..]), None);
    }

    #[test]
    fn a_launcher_is_found_and_typed_by_its_process() {
        let command_of = |process: &str| of_process(process).map(|launcher| launcher.command);
        for launcher in LAUNCHERS {
            for process in launcher.processes {
                assert!(
                    process.len() <= 15,
                    "{process}: `stat` has 15 bytes of a name"
                );
                assert_eq!(command_of(process), Some(launcher.command), "{process}");
            }
        }
        assert_eq!(command_of("slurmstepd"), Some("srun -n"));
        assert_eq!(command_of("torchrun"), Some(TORCHRUN.command));
        assert_eq!(command_of("bash"), None);
    }

    #[test]
    fn a_reservation_above_the_launcher_is_for_all_its_ranks() {
        let uuid = "MIG-0d1e2f30-1111-5222-8333-444455556666";
        let held = |pid: i32| {
            let text =
                format!("getgpu\0--holder\0{uuid}\0caller=3(slurmstepd)\0start=1\0hold={pid}(x)\0");
            HolderProcess::parse(5, 0, text.as_bytes()).unwrap()
        };
        let own = std::process::id() as i32;
        let below = [stat(9, "bash")];
        assert!(reserved_below(&held(own), own, &below) && reserved_below(&held(9), own, &below));
        assert!(!reserved_below(&held(7), own, &below) && !reserved_below(&held(0), own, &below));
    }
}
