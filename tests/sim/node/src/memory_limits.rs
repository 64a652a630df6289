//! Limits of a GPU's memory for cgroups, as drivers from branch 615 on have them (nvml.h 13.5,
//! nvmlDeviceSetMemoryLimits_v1): a file for each GPU and cgroup. A cgroup that is removed takes its
//! limits along, since a directory that is made again at the same path has another inode.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::folder::Folder;
use crate::registry::Record;
use crate::shared_file;

/// What a cgroup may have of a GPU's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Guaranteed.
    pub soft: u64,
    /// At most.
    pub hard: u64,
}

impl MemoryLimits {
    /// NVML_DEVICE_MEMORY_LIMIT_MAX
    pub const NONE: Self = Self {
        soft: 0,
        hard: u64::MAX,
    };
}

impl Folder {
    fn limits_dir(&self) -> PathBuf {
        self.path("limits")
    }

    fn limits_file(&self, gpu: &str, cgroup: &Path) -> io::Result<PathBuf> {
        let meta = fs::metadata(cgroup)?;
        let name = format!("{gpu}.{}.{}", meta.dev(), meta.ino());
        Ok(self.limits_dir().join(name))
    }

    /// Sets the limits of a cgroup on a GPU, by its UUID; none takes them away.
    pub fn limit_memory(&self, gpu: &str, cgroup: &Path, limits: MemoryLimits) -> io::Result<()> {
        let file = self.limits_file(gpu, cgroup)?;
        if limits == MemoryLimits::NONE {
            let _ = fs::remove_file(file);
            return Ok(());
        }
        shared_file::directory(&self.limits_dir())?;
        fs::write(file, format!("{} {}", limits.soft, limits.hard))
    }

    /// The limits of a cgroup on a GPU, if there are any.
    pub fn memory_limits(&self, gpu: &str, cgroup: &Path) -> io::Result<Option<MemoryLimits>> {
        let Ok(text) = fs::read_to_string(self.limits_file(gpu, cgroup)?) else {
            return Ok(None);
        };
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        let (soft, hard) = (next(), next());
        Ok(Some(MemoryLimits { soft, hard }))
    }

    /// How much of a GPU's memory the programs in a cgroup use, and in those inside of it.
    pub fn memory_used_in(&self, gpu: &str, cgroup: &Path) -> io::Result<u64> {
        let running = self.running_on(gpu)?;
        let is_in = |record: &&Record| around(record.pid).contains(&cgroup.to_owned());
        Ok(running
            .iter()
            .filter(is_in)
            .map(|record| record.memory)
            .sum())
    }

    /// The innermost cgroup around a process that has limits on a GPU, and how much it may have.
    pub fn limited_cgroup(&self, gpu: &str, pid: u32) -> io::Result<Option<(PathBuf, u64)>> {
        if !self.limits_dir().exists() {
            return Ok(None);
        }
        for cgroup in around(pid) {
            if let Some(limits) = self.memory_limits(gpu, &cgroup)? {
                return Ok(Some((cgroup, limits.hard)));
            }
        }
        Ok(None)
    }

    /// Whether the limits leave a program the memory that it wants, as an allocation of CUDA finds out.
    pub fn leaves_memory(&self, record: &Record) -> io::Result<bool> {
        let Some((cgroup, hard)) = self.limited_cgroup(&record.uuid, record.pid)? else {
            return Ok(true);
        };
        Ok(self.memory_used_in(&record.uuid, &cgroup)? + record.memory <= hard)
    }
}

/// The cgroups of version 2 around a process, the innermost first.
fn around(pid: u32) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let (Some(path), Some(top)) = (path, cgroup_top()) else {
        return Vec::new();
    };
    let inside = Path::new(path).ancestors();
    inside.map(|inside| top.join(inside)).collect()
}

/// Where cgroups of version 2 are mounted.
pub fn cgroup_top() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    // What is mounted last may lie over the others.
    let mut mounts = mounts.lines().rev().map(|line| line.split(' '));
    mounts.find_map(|mut words| {
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| place.into())
    })
}
