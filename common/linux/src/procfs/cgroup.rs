//! The cgroup of version 2 that a process is in (cgroups(7)), where the kernel has such.

use std::path::{Path, PathBuf};

use super::file;

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

/// The directory of the cgroup that Slurm has made for the job that a process belongs to, `job_4711`;
/// none where it is in no such one.
pub fn of_slurm_job(pid: i32) -> Option<PathBuf> {
    Some(top()?.join(job_in(&of(pid)?)?))
}

/// The directory of the hierarchy of version 2, if there is one.
pub fn top() -> Option<PathBuf> {
    mounted_at(&std::fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// The part of a cgroup's path down to that of the job.
fn job_in(path: &str) -> Option<&Path> {
    Path::new(path).ancestors().find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("job_"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

/// Where a list of mounts has the hierarchy of version 2 (proc_pid_mountinfo(5)).
fn mounted_at(mounts: &str) -> Option<PathBuf> {
    let of_version_2 = |line: &&str| line.contains(" - cgroup2 ");
    let mut places = mounts.lines().filter(of_version_2);
    places.find_map(|line| line.split(' ').nth(4).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_job_is_found_around_its_steps() {
        let slurm = "system.slice/slurmstepd.scope";
        let cases = [
            (
                format!("{slurm}/job_4711/step_extern/user/task_0"),
                Some("job_4711"),
            ),
            (format!("{slurm}/job_4711"), Some("job_4711")),
            (format!("{slurm}/job_x/step_0"), None),
            ("user.slice/user-1000.slice".to_owned(), None),
        ];
        for (path, job) in cases {
            let expected = job.map(|job| Path::new(slurm).join(job));
            assert_eq!(job_in(&path), expected.as_deref(), "{path}");
        }
    }

    #[test]
    fn a_hierarchy_beside_those_of_version_1_is_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      31 30 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
                      32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(mounted_at(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mounted_at(""), None);
    }
}
