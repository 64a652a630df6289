//! What a batch system says of a job's GPUs beside CUDA_VISIBLE_DEVICES, for jobs that
//! have GPUs and not that variable: `--gpu-bind=none`, salloc's shell, resources that set
//! no variable. Pure.

use std::ffi::OsString;

/// Variables that list the job's GPUs by their numbers on the node, commas or blanks
/// between.
const LISTS: [&str; 6] = [
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
    "SGE_HGR_gpu",
    "SGE_HGR_GPU",
    "SGE_HGR_gpus",
    "SGE_HGR_cuda",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchGpus {
    /// Their numbers on the node, in NVML's order; empty if nothing tells.
    pub numbers: Vec<u32>,
    /// How many there are on this node, if only that is told.
    pub count: Option<usize>,
}

impl BatchGpus {
    /// Reads the environment that `get` knows; `None` for a job without GPUs, and outside
    /// of jobs.
    pub fn from(get: &impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let text = |name: &str| {
            get(name)
                .and_then(|value| value.into_string().ok())
                .filter(|value| !value.is_empty())
        };
        let numbers = LISTS
            .iter()
            .find_map(|name| numbers(&text(name)?))
            .unwrap_or_default();
        let count = text("SLURM_GPUS_ON_NODE")
            .and_then(|count| count.trim().parse().ok())
            .filter(|count| *count > 0);
        (!numbers.is_empty() || count.is_some()).then_some(Self { numbers, count })
    }
}

/// `0,2-3` or `2 3`; `None` if it is no such list (gres by UUID), or an empty one.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let one = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (last.checked_sub(first)? < 1024).then(|| (first..=last).collect::<Vec<_>>())
        }
        None => Some(vec![part.parse().ok()?]),
    };
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    let numbers = parts.map(one).collect::<Option<Vec<_>>>()?.concat();
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_says_which_gpus_it_has() {
        let found = |pairs: &[(&str, &str)]| {
            BatchGpus::from(&|name: &str| {
                pairs
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, v)| (*v).into())
            })
        };
        let of = |numbers: &[u32], count| {
            Some(BatchGpus {
                numbers: numbers.to_vec(),
                count,
            })
        };
        for (pairs, expected) in [
            (&[][..], None),
            (&[("SLURM_JOB_GPUS", "2,3")], of(&[2, 3], None)),
            (
                &[("SLURM_JOB_GPUS", "0,2-3"), ("SLURM_GPUS_ON_NODE", "3")],
                of(&[0, 2, 3], Some(3)),
            ),
            (&[("SGE_HGR_gpu", "2 3")], of(&[2, 3], None)),
            (&[("SLURM_GPUS_ON_NODE", "2")], of(&[], Some(2))),
            (&[("SLURM_GPUS_ON_NODE", "0")], None),
            (
                &[("SLURM_JOB_GPUS", "MIG-x"), ("SLURM_STEP_GPUS", "1")],
                of(&[1], None),
            ),
            (&[("SLURM_JOB_GPUS", "9-1")], None),
            (
                &[("SLURM_JOB_GPUS", "1-1024")],
                of(&(1..=1024).collect::<Vec<_>>(), None),
            ),
            (&[("SLURM_JOB_GPUS", "1-1025")], None),
            (&[("SLURM_JOB_GPUS", "")], None),
        ] {
            assert_eq!(found(pairs), expected, "{pairs:?}");
        }
    }
}
