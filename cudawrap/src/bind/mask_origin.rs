//! Who set the CPU mask of this process, which decides among whom its CPUs are divided: a
//! mask that a launcher, a batch system or a user set is the program's own, and the
//! devices beside its own have no part in it. Pure, but for the files of the kernel.

use std::path::Path;

use getgpu_linux::sys;
use getgpu_model::{CpuSet, cpus::mask};

/// What cudawrap bound a program to, for one inside it: a list of CPUs as cpuset(7) has it.
pub const BOUND: &str = "CUDAWRAP_BOUND";

/// How a process came to its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskOrigin {
    /// All that the cgroup, else the machine, allows: nothing is divided yet.
    Unset,
    /// cudawrap bound the program around this one to it.
    Bound,
    /// Something else set it, for this program and perhaps for others on its device.
    Set,
    /// A launcher set it for this program alone.
    OwnOfProgram,
}

/// Who set the mask `own`. `programs`: how many a launcher has started on this node.
pub fn find(root: &Path, own: &CpuSet, programs: Option<usize>) -> MaskOrigin {
    let bound = std::env::var(BOUND)
        .ok()
        .filter(|_| !sys::secure_execution());
    let bound = bound.and_then(|list| list.parse().ok());
    // A process that may not ask counts as one whose mask was not set.
    let most = mask::widest(own).unwrap_or_else(|_| own.clone());
    let isolated = std::fs::read_to_string(root.join("isolated"));
    let isolated = isolated.ok().and_then(|list| list.parse().ok());
    decide(
        own,
        &most.difference(&isolated.unwrap_or_default()),
        bound.as_ref(),
        programs,
    )
}

/// `most`: the CPUs that a process has whose mask was never set. The CPUs of `isolcpus=`
/// are not among them (Documentation/admin-guide/kernel-parameters.txt).
fn decide(
    own: &CpuSet,
    most: &CpuSet,
    bound: Option<&CpuSet>,
    programs: Option<usize>,
) -> MaskOrigin {
    if bound == Some(own) {
        return MaskOrigin::Bound;
    }
    if most.difference(own).is_empty() {
        return MaskOrigin::Unset;
    }
    // Masks of this size for all programs fit beside each other, or some overlap for sure.
    let fit = programs.is_some_and(|programs| programs.saturating_mul(own.count()) <= most.count());
    if fit {
        MaskOrigin::OwnOfProgram
    } else {
        MaskOrigin::Set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(own: &str, most: &str, bound: Option<&str>, programs: Option<usize>) -> MaskOrigin {
        let set = |list: &str| list.parse::<CpuSet>().unwrap();
        decide(&set(own), &set(most), bound.map(set).as_ref(), programs)
    }

    #[test]
    fn a_mask_says_who_has_set_it() {
        use MaskOrigin::{Bound, OwnOfProgram, Set, Unset};
        #[rustfmt::skip]
        let cases = [
            // All CPUs, those of a cpuset, and more than there are at first.
            ("0-15", "0-15", None, Some(4), Unset), ("4-7", "4-7", None, None, Unset),
            ("0-15", "0-13", None, None, Unset),
            // A program's own, where those of all fit; a socket and taskset.
            ("0-3", "0-15", None, Some(4), OwnOfProgram), ("0", "0-15", None, Some(16), OwnOfProgram),
            ("0-3", "0-15", None, Some(5), Set), ("0-7", "0-15", None, Some(4), Set),
            ("0-3", "0-15", None, None, Set),
            // One of cudawrap's is no user's.
            ("0-3", "0-15", Some("0-3"), None, Bound), ("0-3", "0-15", Some("0-3"), Some(4), Bound),
            ("0-1", "0-15", Some("0-3"), None, Set), ("0-15", "0-15", Some("0-3"), None, Unset),
        ];
        for (own, most, bound, programs, origin) in cases {
            let what = format!("{own} {most} {bound:?} {programs:?}");
            assert_eq!(of(own, most, bound, programs), origin, "{what}");
        }
    }
}
