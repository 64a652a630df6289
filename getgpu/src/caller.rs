//! Who called getgpu, and which process a reservation is to outlast with --hold.
//! Reads stat only, so no sick process can stop it.

use getgpu_common::error::{Failure, Kind};
use getgpu_common::procfs::{Stat, ancestry};

/// A process that is known again by its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Start after boot, in clock ticks.
    pub start: u64,
    /// Its name.
    pub name: String,
}

impl From<&Stat> for Process {
    fn from(stat: &Stat) -> Self {
        Self { pid: stat.pid, start: stat.start, name: stat.comm.clone() }
    }
}

/// The nearest ancestor that was started by exec; process 1 stands for a parent that cannot be seen.
pub fn find() -> Process {
    let ancestors = ancestry::ancestors(std::process::id() as i32, 64);
    let unseen = || Process { pid: 1, start: 0, name: "?".into() };
    ancestry::caller(&ancestors).map_or_else(unseen, Process::from)
}

impl Process {
    /// Whether it is a process that can be watched.
    pub fn seen(&self) -> bool {
        self.start > 0
    }
}

/// The process that `--hold=PID` names, if one may wait for it.
pub fn to_hold(pid: i32) -> Result<Process, Failure> {
    let refuse = |why: &str| Err(Failure::new(Kind::Usage, format!("--hold={pid}: {why}")));
    let Some(stat) = Stat::read(pid).filter(Stat::alive) else { return refuse("no such process") };
    let root = nix::unistd::geteuid().is_root();
    if !root && (pid == 1 || stat.kernel) {
        return refuse("it is never over; only root may hold until then");
    }
    Ok(Process::from(&stat))
}
