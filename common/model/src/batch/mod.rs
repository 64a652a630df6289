//! All that is known of batch systems by their variables and processes: `gpus` which GPUs one
//! has given to a job, `job` which job and task a process belongs to, and here the names of
//! their variables that several programs read.

mod gpus;
mod job;

use std::ffi::OsString;

use crate::quantity::digits;

pub use gpus::BatchGpus;
pub use job::Job;

/// Variables that hold the id of a job.
pub const JOB_IDS: [&str; 3] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];
/// The one of Grid Engine, whose name others use too: it alone does not tell that this is a job.
pub const GRID_ENGINE_JOB_ID: &str = "JOB_ID";

/// Where in a job a process is, by its environment, which `get` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceInJob {
    /// It is in a job at all.
    pub in_job: bool,
    /// It is in a job of Slurm and no task of it, such as the shell that salloc starts.
    pub allocation_shell: bool,
    /// The nodes of the job are listed.
    pub nodes_listed: bool,
}

impl PlaceInJob {
    /// Reads it.
    pub fn of(get: &impl Fn(&str) -> Option<OsString>) -> Self {
        let is_set = |name: &str| get(name).is_some();
        Self {
            in_job: JOB_IDS.into_iter().any(is_set),
            allocation_shell: is_set("SLURM_JOB_ID") && !is_set("SLURM_PROCID"),
            nodes_listed: is_set("SLURM_JOB_NODELIST"),
        }
    }
}

/// Whether a SLURM_STEP_ID is that of a step. A batch script has none or, from Slurm 26.05 on, the number
/// of all batch scripts (SLURM_BATCH_SCRIPT of slurm.h, written with a sign).
pub fn is_step(id: Option<&str>) -> bool {
    id.is_some_and(|id| !["", "-5", "4294967291"].contains(&id))
}

/// A whole number, as Slurm writes it.
pub fn whole(text: &str) -> Option<usize> {
    let octal = text.len() > 1 && text.starts_with('0');
    digits(text).filter(|number| !octal && *number <= 1_000_000_000_usize)
}

/// The tasks on a node of a list for all nodes, such as `4(x2),3`.
pub fn tasks_on(list: &str, node: usize) -> Option<usize> {
    let mut before = 0;
    for entry in list.split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, nodes)) => (whole(tasks)?, whole(nodes.strip_suffix(')')?)?),
            None => (whole(entry)?, 1),
        };
        if node - before < nodes {
            return Some(tasks);
        }
        before += nodes;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{is_step, tasks_on};

    #[test]
    fn a_batch_script_is_no_step() {
        for id in [None, Some(""), Some("-5"), Some("4294967291")] {
            assert!(!is_step(id), "{id:?}");
        }
        // The last two: the shell of an allocation (SLURM_INTERACTIVE_STEP) is one.
        for id in ["0", "17", "4294967290", "-6"] {
            assert!(is_step(Some(id)), "{id}");
        }
    }

    #[test]
    fn lists_of_tasks() {
        for (list, node, tasks) in [
            ("4", 0, Some(4)),
            ("4", 1, None),
            ("3,1", 0, Some(3)),
            ("3,1", 1, Some(1)),
            ("2(x3),1", 2, Some(2)),
            ("2(x3),1", 3, Some(1)),
            ("2(x3),1", 4, None),
            ("", 0, None),
            ("x", 0, None),
            ("2(x", 0, None),
        ] {
            assert_eq!(tasks_on(list, node), tasks, "{list} {node}");
        }
    }
}
