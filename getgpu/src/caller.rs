//! Who called getgpu, and which process a reservation is to outlast with --hold.
//! Reads stat only, so no sick process can stop it.

use nix::unistd::{Pid, getsid};

use getgpu_common::error::{Failure, Kind};
use getgpu_common::procfs::process_memory::{self as process_memory, Secret};
use getgpu_common::procfs::{Process, Stat, ancestry, namespaces};

use crate::shell_command::{self, Role};

/// Clock ticks (10 ms) within which the commands of one pipeline are started.
const PIPELINE_TICKS: u64 = 20;

/// Shells: one that reads our output on its standard input (tcsh does for backquotes) is
/// the caller all the same.
const SHELLS: [&str; 12] = [
    "sh", "bash", "dash", "ash", "zsh", "tcsh", "csh", "ksh", "ksh93", "mksh", "fish", "busybox",
];

/// Who called.
#[derive(Debug)]
pub struct Caller {
    pub process: Process,
    /// The forks of the caller between it and this process, as pid and start: a `$( )`, a
    /// background subshell.
    pub forks: Vec<(i32, u64)>,
}

/// The nearest ancestor that was started by exec and does more than run this getgpu;
/// process 1 stands for a parent that cannot be seen.
pub fn find() -> Caller {
    let ancestors = ancestry::ancestors(std::process::id() as i32, 64);
    let unseen = || Process {
        pid: 1,
        start: 0,
        name: "?".into(),
    };
    let callers = match ancestors.split_first() {
        Some((parent, rest))
            if reads_our_output(parent) || shell_role(parent) == Role::OnlyRuns =>
        {
            rest
        }
        _ => &ancestors,
    };
    let process = ancestry::caller(callers).map_or_else(unseen, Process::from);
    let between = ancestors
        .iter()
        .take_while(|stat| process.seen() && stat.pid != process.pid);
    let forks = between.map(|stat| (stat.pid, stat.start)).collect();
    Caller { process, forks }
}

/// Whether the caller is a shell that exits right after this getgpu, so that nothing can
/// be held for it.
pub fn exits_at_once() -> bool {
    let parent = Stat::read(std::process::id() as i32).and_then(|own| Stat::read(own.ppid));
    parent.is_some_and(|parent| shell_role(&parent) == Role::EndsWith)
}

/// What our own parent does with getgpu, if it is a shell: the only process of which
/// getgpu itself reads the arguments.
fn shell_role(parent: &Stat) -> Role {
    if !SHELLS.contains(&parent.comm.as_str()) {
        return Role::Script;
    }
    // A fork of a shell for `$( )` has the arguments of its parent, and is not what runs
    // them.
    if parent.forked {
        return Role::Script;
    }
    match process_memory::cmdline(parent.pid) {
        Secret::Bytes(bytes) => {
            let own = std::env::args_os()
                .skip(1)
                .map(|word| word.to_string_lossy().into_owned());
            let own: Vec<String> = own.collect();
            shell_command::role(
                bytes
                    .strip_suffix(b"\0")
                    .unwrap_or(&bytes)
                    .split(|byte| *byte == 0),
                &own,
            )
        }
        Secret::Denied | Secret::Gone => Role::Script,
    }
}

/// Whether our parent is the next command of our own pipeline: tcsh starts the commands
/// of `getgpu | cat` as children of cat. It reads on its standard input what we print, is
/// no older than the pipeline, and is no shell.
fn reads_our_output(parent: &Stat) -> bool {
    let link = |path: String| std::fs::read_link(path).ok();
    let ours = link("/proc/self/fd/1".into())
        .filter(|path| path.as_os_str().as_encoded_bytes().starts_with(b"pipe:"));
    let young = Stat::read(std::process::id() as i32)
        .is_some_and(|own| own.start.saturating_sub(parent.start) <= PIPELINE_TICKS);
    let shell = SHELLS.contains(&parent.comm.as_str());
    young && !shell && ours.is_some() && link(format!("/proc/{}/fd/0", parent.pid)) == ours
}

/// Whether whoever called has exited, and `caller` is only the process that adopted us,
/// which may never exit. A process is born into the session of its parent (setsid(2)), so a
/// caller of another session is none unless the session began below it.
pub fn is_adopter(caller: &Process) -> bool {
    let parent = nix::unistd::getppid();
    let whom = if caller.seen() {
        Pid::from_raw(caller.pid)
    } else {
        parent
    };
    let (Ok(ours), Ok(theirs)) = (getsid(None), getsid(Some(whom))) else {
        return false;
    };
    let own = std::process::id() as i32;
    let between = || {
        let ancestors = ancestry::ancestors(own, 64).into_iter();
        ancestors
            .map(|stat| stat.pid)
            .take_while(|pid| *pid != caller.pid)
    };
    let began_below = ours.as_raw() == own || between().any(|pid| pid == ours.as_raw());
    parent.as_raw() != 0 && ours != theirs && !began_below
}

/// The failure of a call that nobody waits for any more.
pub fn adopted() -> Failure {
    Failure::new(Kind::Usage, "--hold: the calling process has exited")
        .hint("name the process to hold for: --hold=PID")
}

/// Why the caller cannot be watched: it is outside this pid namespace, or /proc does not
/// show it.
pub fn unseen() -> Failure {
    let parent = nix::unistd::getppid();
    let why = if parent.as_raw() == 0 {
        "--hold: the caller is not in this pid namespace".to_owned()
    } else {
        format!(
            "--hold: /proc does not show you the caller, process {parent} of another user (mount option hidepid)"
        )
    };
    Failure::new(Kind::Usage, why).hint("name a process that you can see: --hold=PID")
}

/// The process that `--hold=PID` names, if one may wait for it.
pub fn to_hold(pid: i32) -> Result<Process, Failure> {
    let refuse = |why: &str| Err(Failure::new(Kind::Usage, format!("--hold={pid}: {why}")));
    let Some(stat) = Stat::read(pid).filter(Stat::alive) else {
        return refuse("no such process");
    };
    // Root of a user namespace, which anybody can make, is not meant.
    let root = namespaces::is_host_root();
    if !root && (pid == 1 || stat.kernel) {
        return refuse("this process never exits; only root may hold until then");
    }
    Ok(Process::from(&stat))
}
