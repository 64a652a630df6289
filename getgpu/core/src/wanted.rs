//! `--wanted`: whether a call waits in the queue while the caller has devices, for a program that
//! can make room at a moment that suits it. Reads the queue and changes nothing.

use getgpu_choose::find_lock_file;
use getgpu_linux::Range;
use getgpu_linux::procfs::{self, ancestry};
use getgpu_lock::{LockFile, layout, ownership_proof};
use getgpu_model::{Failure, Kind, Uuid, Verbosity, Visible, diag::show, exit, quantity};
use getgpu_queue::waiting_beside;
use getgpu_settings::{Environment, Loaded};

use crate::options::GetgpuOptions;
use crate::put_options;

/// The process that has devices of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceOwner {
    /// The caller, or an ancestor of it: pid and start.
    Above((i32, u64)),
    /// CUDA_VISIBLE_DEVICES names a reservation of this user's that was made elsewhere.
    Elsewhere,
    /// None: the caller has no device.
    Nothing,
}

/// Tells it in a line, and as the exit status: 0 if a call waits, else 1.
pub fn run(options: &GetgpuOptions, environment: &Environment) -> Result<i32, Failure> {
    let mut loaded = Loaded::read(environment, None)?;
    put_options(options, environment, &mut loaded)?;
    let loaded = loaded.strict()?;
    let lock_file = find_lock_file(&loaded.settings, environment, None)?;
    let count = |above| waiting_beside(&lock_file, &lock_file.open()?, above);
    let waiting = match owner(&lock_file, environment) {
        DeviceOwner::Above(process) => Some(count(Some(process))?),
        DeviceOwner::Elsewhere => Some(count(None)?),
        DeviceOwner::Nothing => None,
    };
    if options.level != Verbosity::Quiet {
        show(&line(waiting))?;
    }
    Ok(match waiting {
        Some(1..) => exit::OK,
        _ => exit::getgpu(Kind::NoneFree),
    })
}

fn line(waiting: Option<usize>) -> String {
    match waiting {
        None => "you hold no device here\n".to_owned(),
        Some(0) => "no call is waiting\n".to_owned(),
        Some(1) => "1 call is waiting\n".to_owned(),
        Some(many) => format!("{} are waiting\n", quantity::counted(many, "call")),
    }
}

/// Who has the caller's devices: the nearest of those for whom a lease or a reservation was made.
fn owner(lock_file: &LockFile, environment: &Environment) -> DeviceOwner {
    let uid = nix::unistd::geteuid().as_raw();
    let lineage = ancestry::lineage();
    let shown: Vec<Vec<Range>> = lineage
        .iter()
        .map(|(pid, _)| match procfs::euid(*pid) {
            Some(owner) if owner == uid => {
                lock_file.shown(&ownership_proof::locks_of(*pid), layout::all_devices())
            }
            _ => Vec::new(),
        })
        .collect();
    let named = Visible::parse(environment.visible.as_deref()).full_uuids();
    let named: Vec<Uuid> = named.unwrap_or_default();
    let reserved = ownership_proof::reservations(lock_file, Some(uid), &|args| {
        let is_named = args.devices.iter().any(|device| named.contains(device));
        args.distance(&lineage) < lineage.len() || is_named && args.lessee().is_none()
    });
    let distances = reserved.iter().map(|holder| holder.args.distance(&lineage));
    let nearest = distances.chain(lessee(&shown)).min();
    match nearest.map(|distance| lineage.get(distance)) {
        None => DeviceOwner::Nothing,
        Some(None) => DeviceOwner::Elsewhere,
        Some(Some(process)) => DeviceOwner::Above(*process),
    }
}

/// The place of the process that leased, by what this process and its ancestors hold: programs
/// inherit the descriptors of a lease, so it is the furthest that has all that the nearest has.
fn lessee(shown: &[Vec<Range>]) -> Option<usize> {
    let nearest = shown.iter().find(|held| !held.is_empty())?;
    let has_all = |held: &Vec<Range>| nearest.iter().all(|range| held.contains(range));
    shown.iter().rposition(has_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lessee_is_the_furthest_with_all_that_the_nearest_has() {
        let [one, two] = [1, 2].map(Range::byte);
        let none = || Vec::new();
        let cases = [
            (vec![], None),
            (vec![none(), none()], None),
            (vec![none(), vec![one], none()], Some(1)),
            (vec![vec![one], vec![one], none()], Some(1)),
            // A program that closed its copy lies between.
            (vec![vec![one], none(), vec![one]], Some(2)),
            // A lease inside another one's.
            (vec![vec![one, two], vec![one, two], vec![two]], Some(1)),
        ];
        for (shown, place) in cases {
            assert_eq!(lessee(&shown), place, "{shown:?}");
        }
    }

    #[test]
    fn a_line_for_none_one_and_many() {
        let lines = [None, Some(0), Some(1), Some(3)].map(line);
        #[rustfmt::skip]
        assert_eq!(lines, [
            "you hold no device here\n", "no call is waiting\n", "1 call is waiting\n", "3 calls are waiting\n",
        ]);
    }
}
