//! The settings of Slurm's hooks (`getgpu --slurm`), the table `[slurm]` of the system's
//! file: which jobs and tasks get something, and what happens where nothing can be given.

use std::str::FromStr;
use std::time::Duration;

use super::key::keys;
use super::value_codec::{each, quoted, read, show_time, some_time, time, truth, words as split};
use super::value_types::words;
use getgpu_model::Share;

words! {
    /// Which tasks of Slurm get a device from the TaskProlog.
    SlurmTasks {
        /// Those of jobs with a grant.
        #[default]
        Auto = "auto",
        /// Those of jobs without a grant.
        Ungranted = "ungranted",
        /// Those of jobs with and without a grant.
        Both = "both",
        /// As `both`, and the only task of a job has one device of its grant.
        All = "all",
        /// Those of jobs that ask.
        Asked = "asked",
    }
}

words! {
    /// What the only task of a job sees if another program holds its granted device.
    SlurmTaken {
        /// No GPU.
        #[default]
        Hide = "hide",
        /// Its grant.
        Run = "run",
    }
}

words! {
    /// Whether the driver keeps a job to its part of a GPU's memory (setting `enforce_memory`).
    EnforceMemory {
        /// Parts are counted only.
        #[default]
        No = "false",
        /// Where the driver can.
        Yes = "true",
        /// Or else the job has no part.
        Always = "always",
    }
}

impl EnforceMemory {
    /// As it is written in the file.
    pub(crate) fn shown(self) -> String {
        match self {
            Self::No => "false".into(),
            Self::Yes => "true".into(),
            Self::Always => quoted("always"),
        }
    }
}

/// The table `[slurm]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmSettings {
    /// Which tasks get a device.
    pub tasks: SlurmTasks,
    /// Whether a task that gets no device is not started.
    pub strict: bool,
    /// What the only task of a job sees if another program holds its granted device.
    pub taken: SlurmTaken,
    /// Whether a job may choose by options in GETGPU_SLURM.
    pub job_options: bool,
    /// How long NVML may take in a hook.
    pub timeout: Duration,
    /// Which constraint or partition is promised which part; none: no parts are given.
    pub shares: Vec<PromisedShare>,
    /// More options of getgpu for the parts of jobs without GPUs of their own.
    pub options: Vec<String>,
    /// How long a job waits in its prolog for a part.
    pub wait: Duration,
    /// How old a reservation or mark of an ended job is when a prolog removes it.
    pub old: Duration,
}

impl Default for SlurmSettings {
    fn default() -> Self {
        let shares = ["gpushare2=1/2", "gpushare4=1/4", "gpushare8=1/8"];
        Self {
            tasks: SlurmTasks::Auto,
            strict: false,
            taken: SlurmTaken::Hide,
            job_options: true,
            timeout: Duration::from_secs(15),
            shares: shares.iter().filter_map(|text| text.parse().ok()).collect(),
            options: Vec::new(),
            wait: Duration::ZERO,
            old: Duration::from_secs(300),
        }
    }
}

/// `gpushare4=1/4`: a job with this constraint, or in this partition, has this part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromisedShare {
    /// The constraint or partition.
    pub name: String,
    /// The part, as getgpu's `--share` takes it.
    pub share: String,
}

impl FromStr for PromisedShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, share) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("`{text}`: expected CONSTRAINT=SHARE, such as gpushare4=1/4"))?;
        share
            .parse::<Share>()
            .map_err(|why| format!("`{text}`: {why}"))?;
        Ok(Self {
            name: name.to_owned(),
            share: share.to_owned(),
        })
    }
}

impl PromisedShare {
    /// As it is written in the file.
    pub(crate) fn text(&self) -> String {
        format!("{}={}", self.name, self.share)
    }
}

keys! {
    /// Their rows in the table of settings.
    KEYS:
    policy "enforce_memory", "the driver keeps Slurm's jobs with a part of a GPU to that part of its memory: true, false, or \"always\": a job has no part where the driver cannot; needs driver 615, cgroup v2 and PrologFlags=RunInJob",
        |s| s.enforce_memory.shown(), |s, t| s.enforce_memory = read(t)?;
    policy "slurm.tasks", "which tasks of Slurm get a device from the TaskProlog: \"auto\" (of jobs with a grant), \"ungranted\", \"both\", \"all\" (one device for the only task of a job, too) or \"asked\"",
        |s| quoted(&s.slurm.tasks), |s, t| s.slurm.tasks = read(t)?;
    policy "slurm.strict", "a task that should have a device and gets none is not started; else it starts with an empty CUDA_VISIBLE_DEVICES",
        |s| s.slurm.strict.to_string(), |s, t| s.slurm.strict = truth(t)?;
    policy "slurm.taken", "what the only task of a job sees whose granted device somebody else has: \"hide\" (no GPU) or \"run\" (its grant)",
        |s| quoted(&s.slurm.taken), |s, t| s.slurm.taken = read(t)?;
    policy "slurm.job_options", "whether a job may choose by options in GETGPU_SLURM",
        |s| s.slurm.job_options.to_string(), |s, t| s.slurm.job_options = truth(t)?;
    policy "slurm.auto", "tasks that the TaskProlog gives nothing load libcudawrap.so, and get a device at their first CUDA call",
        |s| s.auto.for_tasks.to_string(), |s, t| s.auto.for_tasks = truth(t)?;
    policy "slurm.timeout", "how long the NVIDIA library may take in one of Slurm's hooks",
        |s| show_time(s.slurm.timeout), |s, t| s.slurm.timeout = some_time(t)?;
    policy "slurm.shares", "which part of a device a job with this constraint, or in this partition, has from prolog to epilog; []: none",
        |s| quoted(&s.slurm.shares.iter().map(PromisedShare::text).collect::<Vec<_>>()), |s, t| s.slurm.shares = each(t)?;
    policy "slurm.options", "more options of getgpu for such parts of jobs without GPUs of their own, such as \"--gpu 3\"",
        |s| quoted(&s.slurm.options.join(" ")), |s, t| s.slurm.options = split(t)?;
    policy "slurm.wait", "how long a job waits in its prolog for its part",
        |s| show_time(s.slurm.wait), |s, t| s.slurm.wait = time(t)?;
    policy "slurm.old", "how old a reservation or mark of an ended job is when a prolog removes it",
        |s| show_time(s.slurm.old), |s, t| s.slurm.old = time(t)?;
}

#[cfg(test)]
mod tests {
    use super::PromisedShare;

    #[test]
    fn a_part_is_promised_by_name_and_share() {
        let read = |text: &str| text.parse::<PromisedShare>();
        assert_eq!(read("gpushare4=1/4").unwrap().text(), "gpushare4=1/4");
        for wrong in ["", "gpushare4", "gpushare4=", "=1/4", "gpushare4=many"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
