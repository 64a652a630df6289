//! Which batch job a process belongs to: for this process by its environment, for others
//! by what the kernel shows to every user. For people, dashboards and accounting; nothing
//! is decided by it.

use std::fmt;

use super::is_step;
use getgpu_linux::procfs::{ancestry, cgroup, file, process_memory};

/// A job, with its step and task where those are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// `4711.0` for step 0 of Slurm's job 4711, else the batch system's own name of the
    /// job.
    pub id: String,
    /// The task's number in the step, from 0.
    pub task: Option<u32>,
}

impl fmt::Display for Job {
    /// `4711.0 task 3`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        self.task.map_or(Ok(()), |task| write!(f, " task {task}"))
    }
}

impl Job {
    /// That of the process whose environment `get` reads.
    pub(crate) fn of_environment(get: &impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| get(name).filter(|text| is_number(text));
        if let Some(id) = number("SLURM_JOB_ID") {
            // A batch script has no step; what it starts by other means than srun
            // inherits nothing of one.
            let step = number("SLURM_STEP_ID").filter(|id| is_step(Some(id)));
            let task = step
                .as_ref()
                .and_then(|_| number("SLURM_PROCID")?.parse().ok());
            return Some(Self::of_slurm(&id, step.as_deref(), task));
        }
        let id = ["PBS_JOBID", "LSB_JOBID"]
            .iter()
            .find_map(|name| get(name).filter(|id| !id.is_empty()))?;
        Some(Self { id, task: None }).filter(|job| is_harmless(&job.id))
    }

    /// That of this process.
    pub fn own() -> Option<Self> {
        Self::of_environment(&|name| std::env::var(name).ok())
    }

    /// Its id without the step.
    pub fn number(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// That of another process: by its cgroup, else by the slurmstepd that is there or above it.
    pub fn of(pid: i32) -> Option<Self> {
        let cgroups = file::whole(&format!("/proc/{pid}/cgroup")).ok()?;
        Self::of_cgroups(&String::from_utf8_lossy(&cgroups))
            .or_else(|| Self::of_step(cgroup::slurmstepd_of(pid)?))
            .or_else(|| Self::of_slurmstepd(pid))
    }

    /// `/slurm/uid_1000/job_4711/step_0/task_3`, in whatever hierarchy (cgroups(7)).
    fn of_cgroups(text: &str) -> Option<Self> {
        // Some controllers know of the job only.
        text.lines()
            .filter_map(Self::of_cgroup)
            .max_by_key(|job| (job.id.contains('.'), job.task.is_some()))
    }

    fn of_cgroup(path: &str) -> Option<Self> {
        let id = cgroup_part(path, "job").filter(|id| is_number(id))?;
        let step = cgroup_part(path, "step").filter(|step| !["batch", "extern"].contains(step));
        let task = step.and_then(|_| cgroup_part(path, "task")?.parse().ok());
        Some(Self::of_slurm(id, step, task))
    }

    /// `slurmstepd: [4711.0]` above the process, where Slurm uses no cgroups.
    fn of_slurmstepd(pid: i32) -> Option<Self> {
        let daemon = ancestry::ancestors(pid, 64)
            .into_iter()
            .find(|stat| stat.comm == "slurmstepd")?;
        Self::of_step(daemon.pid)
    }

    /// That of a slurmstepd, by its command line.
    pub fn of_step(daemon: i32) -> Option<Self> {
        let words = process_memory::cmdline(daemon);
        let text = String::from_utf8_lossy(&words);
        let (id, step) = text.split_once('[')?.1.split_once(']')?.0.split_once('.')?;
        let step = Some(step).filter(|step| is_number(step));
        is_number(id).then(|| Self::of_slurm(id, step, None))
    }

    fn of_slurm(id: &str, step: Option<&str>, task: Option<u32>) -> Self {
        let id = step.map_or(id.to_owned(), |step| format!("{id}.{step}"));
        Self { id, task }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether an id can stand in a command line and in a line of the log.
fn is_harmless(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= 64 && bytes.all(|b| b.is_ascii_alphanumeric() || b"._-[]".contains(&b))
}

/// `4711` of `/slurm/job_4711/step_0` for `job`.
fn cgroup_part<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    path.split('/')
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('_'))
        .filter(|value| !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, task: impl Into<Option<u32>>) -> Option<Job> {
        Some(Job {
            id: id.into(),
            task: task.into(),
        })
    }

    #[test]
    fn a_process_knows_its_job() {
        #[rustfmt::skip]
        let cases = [
            (&[][..], None),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0")], job("7", None)),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "2"), ("SLURM_PROCID", "3")], job("7.2", 3)),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "-5"), ("SLURM_PROCID", "0")], job("7", None)),
            (&[("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "4294967291"), ("SLURM_PROCID", "0")],
                job("7", None)),
            (&[("SLURM_JOB_ID", "x")], None),
            (&[("PBS_JOBID", "12[3].host")], job("12[3].host", None)),
            (&[("LSB_JOBID", "a b\n")], None),
        ];
        for (pairs, expected) in cases {
            let found = Job::of_environment(&|name| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| (*value).to_owned())
            });
            assert_eq!(found, expected, "{pairs:?}");
        }
        let task = job("7.2", 3).unwrap();
        assert_eq!((task.number(), &*task.to_string()), ("7", "7.2 task 3"));
    }

    #[test]
    fn others_are_known_by_their_cgroup() {
        #[rustfmt::skip]
        let cases = [
            ("0::/user.slice\n", None),
            ("4:devices:/slurm/uid_9/job_17/step_0/task_2\n3:cpu:/slurm/uid_9/job_17\n",
                job("17.0", 2)),
            ("0::/system.slice/slurmstepd.scope/job_17/step_batch/user/task_0\n", job("17", None)),
            ("0::/job_x/step_0\n", None),
            ("0::/job_/step_0\n", None),
            ("0::/job_17/step_a.b\n", job("17", None)),
        ];
        for (text, expected) in cases {
            assert_eq!(Job::of_cgroups(text), expected, "{text}");
        }
    }

    #[test]
    fn a_name_that_could_harm_a_log_is_no_job() {
        let of = |id: String| {
            let get = |name: &str| (name == "PBS_JOBID").then(|| id.clone());
            Job::of_environment(&get).map(|job| job.id)
        };
        assert_eq!(of("x".repeat(64)), Some("x".repeat(64)));
        for id in ["x".repeat(65), String::new(), "7;id".into(), "7=8".into()] {
            assert_eq!(of(id.clone()), None, "{id}");
        }
    }

    /// Where Slurm uses no cgroups, the daemon above a task tells its job and step.
    #[test]
    fn others_are_known_by_the_slurmstepd_above_them() {
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        let folder = tempfile::tempdir().unwrap();
        let daemon = folder.path().join("slurmstepd");
        std::fs::copy("/bin/sh", &daemon).unwrap();
        for (title, expected) in [
            ("slurmstepd: [4711.3]", job("4711.3", None)),
            ("slurmstepd: [4711.batch]", job("4711", None)),
            ("slurmstepd: [x.0]", None),
            ("slurmstepd", None),
        ] {
            let mut child = Command::new(&daemon)
                .arg0(title)
                .args(["-c", "sh -c 'echo $$; read line'; :"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let output = child.stdout.take().unwrap();
            BufReader::new(output).read_line(&mut line).unwrap();
            let task = line.trim().parse().unwrap();
            assert_eq!(Job::of(task), expected, "{title}");
            // It closes the task's input, which ends both.
            child.wait().unwrap();
        }
        assert_eq!(Job::of(i32::MAX), None);
    }
}
