//! Who called getgpu, and which process a reservation is to outlast with --hold.
//! Reads stat and links of descriptors only, so no sick process can stop it.

use nix::unistd::{Pid, getsid};

use getgpu_linux::{
    Process, Stat,
    procfs::{ancestry, namespaces},
};
use getgpu_model::Failure;

use crate::causes::ReserveCause;

use crate::obtain::reader;

/// The ancestor that reads what this call prints, or else the nearest one that was started by exec;
/// process 1 stands for a parent that cannot be seen.
pub fn find() -> Process {
    let ancestors = ancestry::ancestors(std::process::id() as i32, 64);
    let caller = reader::find(&ancestors).or_else(|| ancestry::caller(&ancestors));
    let unseen = || Process {
        pid: 1,
        start: 0,
        name: "?".into(),
    };
    caller.map_or_else(unseen, Process::from)
}

/// Whether the calling process has exited, and `caller` is only the process that adopted
/// this one, which may never exit. A process is born into the session of its parent
/// (setsid(2)), so a caller of another session is none unless the session began below it.
pub fn is_adopter(caller: &Process) -> bool {
    let parent = nix::unistd::getppid();
    let whom = Some(Pid::from_raw(caller.pid)).filter(|_| caller.seen());
    let theirs = getsid(whom.or(Some(parent)));
    let (Ok(ours), Ok(theirs)) = (getsid(None), theirs) else {
        return false;
    };
    let own = std::process::id() as i32;
    let ancestors = ancestry::ancestors(own, 64).into_iter();
    let mut below = ancestors.take_while(|ancestor| ancestor.pid != caller.pid);
    let began_below = ours.as_raw() == own || below.any(|ancestor| ancestor.pid == ours.as_raw());
    parent.as_raw() != 0 && ours != theirs && !began_below
}

/// Why the caller cannot be watched: it is outside this pid namespace, or /proc does not
/// show it.
pub fn unseen() -> Failure {
    match nix::unistd::getppid().as_raw() {
        0 => ReserveCause::CallerOutside.into(),
        parent => ReserveCause::CallerHidden { parent }.into(),
    }
}

/// The process that `--hold=PID` names, if one may wait for it.
pub fn to_hold(pid: i32) -> Result<Process, Failure> {
    let Some(stat) = Stat::read(pid).filter(Stat::alive) else {
        return Err(ReserveCause::NoProcess { pid }.into());
    };
    // Root of a user namespace, which any user can make, is not meant.
    let root = namespaces::is_host_root();
    if !root && (pid == 1 || stat.kernel) {
        return Err(ReserveCause::NeverExits { pid }.into());
    }
    Ok(Process::from(&stat))
}
