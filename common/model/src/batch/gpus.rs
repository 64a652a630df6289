//! What a batch system says of a job's GPUs beside CUDA_VISIBLE_DEVICES, for jobs that
//! have GPUs and not that variable: `--gpu-bind=none`, salloc's shell, resources that set
//! no variable. Pure.

use std::ffi::OsString;

use super::is_step;

/// Variables that list the job's GPUs by their numbers on the node, commas or blanks
/// between. A step inherits the first one from its batch script, and has the second.
const LISTS: [&str; 2] = ["SLURM_JOB_GPUS", "SLURM_STEP_GPUS"];
/// How Grid Engine's variables begin that do the same: one for each resource of which it
/// grants certain ones. Sites name their resources as they like: a name with one of
/// `GPU_WORDS` is taken for GPUs.
const GRID_ENGINE: &str = "SGE_HGR_";
const GPU_WORDS: [&str; 2] = ["gpu", "cuda"];
/// Values of a resource that was not granted.
const NOTHING: [&str; 3] = ["none", "undefined", "(null)"];

/// The GPUs that a batch system has given to a job, by its own variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchGpus {
    /// Their numbers on the node, in NVML's order; empty if nothing tells.
    pub numbers: Vec<u32>,
    /// How many there are on this node, if only that is known.
    pub count: Option<usize>,
    /// A list names them, in whatever form.
    pub listed: bool,
}

impl BatchGpus {
    /// Reads the environment that `get` knows, with variables of these names; `None` for a
    /// job without GPUs, and outside of jobs.
    pub fn from(
        get: &impl Fn(&str) -> Option<OsString>,
        names: impl IntoIterator<Item = String>,
    ) -> Option<Self> {
        let text = |name: &str| {
            get(name)
                .and_then(|value| value.into_string().ok())
                .filter(|value| !value.trim().is_empty())
        };
        let mut resources: Vec<String> = names.into_iter().filter(|name| is_gpus(name)).collect();
        resources.sort_unstable();
        let mut lists = LISTS;
        if is_step(text("SLURM_STEP_ID").as_deref()) {
            lists.reverse();
        }
        let names = lists
            .into_iter()
            .chain(resources.iter().map(String::as_str));
        let lists: Vec<String> = names
            .filter_map(text)
            .filter(|list| !NOTHING.contains(&list.trim().to_ascii_lowercase().as_str()))
            .collect();
        let numbers = lists.iter().find_map(|list| numbers(list));
        let count = text("SLURM_GPUS_ON_NODE")
            .and_then(|count| count.trim().parse().ok())
            .filter(|count| *count > 0);
        let listed = !lists.is_empty();
        (listed || count.is_some()).then(|| Self {
            numbers: numbers.unwrap_or_default(),
            count,
            listed,
        })
    }
}

/// Whether this variable lists what Grid Engine has granted of the node's GPUs.
fn is_gpus(name: &str) -> bool {
    let resource = name.strip_prefix(GRID_ENGINE).map(str::to_ascii_lowercase);
    resource.is_some_and(|resource| GPU_WORDS.iter().any(|word| resource.contains(word)))
}

/// `0,2-3` or `2 3`; `None` if it is no such list (gres by UUID), or an empty one.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    let numbers = parts
        .map(number_range)
        .collect::<Option<Vec<_>>>()?
        .concat();
    (!numbers.is_empty()).then_some(numbers)
}

/// `2-4` or `2`.
fn number_range(part: &str) -> Option<Vec<u32>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    (last.checked_sub(first)? < 1024).then(|| (first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_says_which_gpus_it_has() {
        let found = |pairs: &[(&str, &str)]| {
            let get = |name: &str| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| (*value).into())
            };
            BatchGpus::from(&get, pairs.iter().map(|(name, _)| (*name).to_owned()))
        };
        let of = |numbers: &[u32], count, listed| {
            Some(BatchGpus {
                numbers: numbers.to_vec(),
                count,
                listed,
            })
        };
        let not_told = of(&[], None, true);
        #[rustfmt::skip]
        let cases = [
            (&[][..], None),
            (&[("SLURM_JOB_GPUS", "2,3")], of(&[2, 3], None, true)),
            (&[("SLURM_JOB_GPUS", "0,2-3"), ("SLURM_GPUS_ON_NODE", "3")],
                of(&[0, 2, 3], Some(3), true)),
            (&[("SGE_HGR_gpu", "2 3")], of(&[2, 3], None, true)),
            (&[("SGE_HGR_nvidia_GPUs", "1")], of(&[1], None, true)),
            (&[("SGE_HGR_gpu_model", "a100"), ("SGE_HGR_cuda", "1")], of(&[1], None, true)),
            (&[("SGE_HGR_license", "1"), ("MY_SGE_HGR_gpu", "1")], None),
            (&[("SLURM_GPUS_ON_NODE", "2")], of(&[], Some(2), false)),
            (&[("SLURM_GPUS_ON_NODE", "0")], None),
            (&[("SLURM_JOB_GPUS", "MIG-x"), ("SLURM_STEP_GPUS", "1")], of(&[1], None, true)),
            (&[("SLURM_JOB_GPUS", "0,1"), ("SLURM_STEP_GPUS", "1"), ("SLURM_STEP_ID", "-5")],
                of(&[0, 1], None, true)),
            (&[("SLURM_JOB_GPUS", "0,1"), ("SLURM_STEP_GPUS", "1"), ("SLURM_STEP_ID", "0")],
                of(&[1], None, true)),
            (&[("SLURM_JOB_GPUS", "MIG-x")], not_told.clone()),
            (&[("SGE_HGR_gpu", "gpu0 gpu1")], not_told.clone()),
            (&[("SLURM_JOB_GPUS", "9-1")], not_told.clone()),
            (&[("SGE_HGR_gpu", "NONE")], None),
            (&[("SLURM_JOB_GPUS", "(null)")], None),
            (&[("SLURM_JOB_GPUS", "1-1024")], of(&(1..=1024).collect::<Vec<_>>(), None, true)),
            (&[("SLURM_JOB_GPUS", "1-1025")], not_told),
            (&[("SLURM_JOB_GPUS", " ")], None),
            (&[("SLURM_JOB_GPUS", "")], None),
        ];
        for (pairs, expected) in cases {
            assert_eq!(found(pairs), expected, "{pairs:?}");
        }
    }
}
