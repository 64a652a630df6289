//! The cgroup of version 2 that a process is in (cgroups(7)), where the kernel has such.

use std::path::{Path, PathBuf};

use super::{Stat, file};

/// Where the hierarchy of version 2 is mounted, on most systems.
const USUAL: &str = "/sys/fs/cgroup";

/// The cgroup of a process, from the top of the hierarchy.
fn of(pid: i32) -> Option<String> {
    let text = file::whole(&format!("/proc/{pid}/cgroup")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut paths = text.lines().filter_map(|line| line.strip_prefix("0::/"));
    paths.next().map(str::to_owned)
}

/// Whether a process is in a frozen cgroup (cgroup.events of cgroup v2, also where the freezing is of a
/// cgroup around it): its state does not say so.
pub fn is_frozen(pid: i32) -> bool {
    let events = of(pid).map(|path| file::whole(&format!("{USUAL}/{path}/cgroup.events")));
    let events = events.and_then(Result::ok).unwrap_or_default();
    let events = String::from_utf8_lossy(&events);
    events.lines().any(|line| line == "frozen 1")
}

/// The directory of the cgroup that Slurm has made for the step that a process belongs to; that of the
/// job is around it. None where it is in no such one.
pub fn of_slurm_step(pid: i32) -> Option<PathBuf> {
    let cgroup = of(pid)?;
    let step = step_in(&cgroup)?;
    // Most processes are in none, and need no list of mounts.
    Some(top()?.join(step))
}

/// The slurmstepd of the step that a process belongs to: root's, in a cgroup beside those of the tasks.
pub fn slurmstepd_of(pid: i32) -> Option<i32> {
    let daemons = of_slurm_step(pid)?.join("slurm/cgroup.procs");
    let daemons = std::fs::read_to_string(daemons).ok()?;
    let mut pids = daemons.lines().filter_map(|line| line.parse().ok());
    pids.find(|pid| {
        super::euid(*pid) == Some(0)
            && Stat::read(*pid).is_some_and(|stat| stat.comm == "slurmstepd")
    })
}

/// The directory of the hierarchy of version 2, if there is one.
pub fn top() -> Option<PathBuf> {
    mounted_at(&std::fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// The part of a cgroup's path down to that of the step. Slurm calls the job's `job_4711`, and from 26.05
/// on by an identifier of its own.
fn step_in(path: &str) -> Option<&Path> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    Path::new(path).ancestors().find(|step| {
        let scope = step.parent().and_then(Path::parent).and_then(name);
        name(step).is_some_and(|name| name.starts_with("step_"))
            && scope.is_some_and(|scope| scope.ends_with("slurmstepd.scope"))
    })
}

/// Where a list of mounts has the hierarchy of version 2, all of it (proc_pid_mountinfo(5)). What is
/// mounted last may lie over the others.
fn mounted_at(mounts: &str) -> Option<PathBuf> {
    let of_version_2 = mounts
        .lines()
        .rev()
        .filter(|line| line.contains(" - cgroup2 "));
    let mut places = of_version_2.filter_map(|line| {
        let mut words = line.split(' ').skip(3);
        Some((words.next()?, words.next()?))
    });
    let (_, place) = places.find(|(top, _)| *top == "/")?;
    Some(place.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_step_is_found_around_its_tasks() {
        let slurm = "system.slice/slurmstepd.scope";
        let cases = [
            (
                "job_4711/step_extern/user/task_0",
                Some("job_4711/step_extern"),
            ),
            ("s4XHM8KTFNJ100/step_0/slurm", Some("s4XHM8KTFNJ100/step_0")),
            ("job_4711", None),
            ("slurmd", None),
        ];
        for (inside, step) in cases {
            let path = format!("{slurm}/{inside}");
            let expected = step.map(|step| Path::new(slurm).join(step));
            assert_eq!(step_in(&path), expected.as_deref(), "{path}");
        }
        assert_eq!(step_in("user.slice/job_7/step_0"), None);
    }

    #[test]
    fn a_hierarchy_beside_those_of_version_1_is_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      31 30 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
                      32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(mounted_at(mounts), Some("/sys/fs/cgroup/unified".into()));
        let over = format!("{mounts}40 30 0:27 / /sys/fs/cgroup rw - cgroup2 none rw\n");
        let part = format!("{over}41 30 0:27 /job /mnt rw - cgroup2 none rw\n");
        assert_eq!(mounted_at(&part), Some("/sys/fs/cgroup".into()));
        assert_eq!(mounted_at(""), None);
    }
}
