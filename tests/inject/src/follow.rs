//! Following a program and all its processes from call to call, with one blow on the way.
//! The thread that starts the program is its tracer, so several programs can be followed
//! at once from several threads.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use nix::libc;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::watchdog::Watchdog;
use crate::{Alike, At, Blow, Call, Point, Story, processor, subject};

/// One process on the way.
#[derive(Default)]
struct Process {
    number: usize,
    calls: usize,
    /// How many calls of each number and kind there were.
    alike: BTreeMap<(i64, String), usize>,
    /// The error that its next end of a call gives.
    failing: Option<nix::errno::Errno>,
}

/// Whether calls can be followed here: an emulator of another processor has no ptrace(2).
pub fn can_follow() -> bool {
    // No process has this number.
    ptrace::detach(Pid::from_raw(0), None) != Err(nix::errno::Errno::ENOSYS)
}

/// Starts `command` and follows it and all that it starts until the blow is struck or
/// they end. What `released` says to be the user's program, just executed, is let go too.
/// `ended` is called when process 0 has exited, before anybody who is followed goes on.
pub fn follow(
    command: &mut Command,
    blow: Option<(At, Blow)>,
    released: impl Fn(i32) -> bool,
    ended: impl FnOnce(i32),
) -> Story {
    run(command, blow, released, ended, &mut |_| ())
}

/// Starts `command` and follows it to its end without a blow. `look` is called before
/// each system call, while the process that makes it is stopped, so that it sees every
/// state that others could see.
pub fn watch(
    command: &mut Command,
    released: impl Fn(i32) -> bool,
    mut look: impl FnMut(&Call),
) -> Story {
    run(command, None, released, |_| (), &mut look)
}

fn run(
    command: &mut Command,
    blow: Option<(At, Blow)>,
    released: impl Fn(i32) -> bool,
    ended: impl FnOnce(i32),
    look: &mut dyn FnMut(&Call),
) -> Story {
    // SAFETY: between fork and exec; ptrace(2) is one system call and allocates nothing.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(std::io::Error::from)) };
    let watchdog = Watchdog::start();
    #[expect(
        clippy::zombie_processes,
        reason = "all that it starts are waited for below, this one among them"
    )]
    let child = command.spawn().expect("the program to be followed");
    let root = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    watchdog.watch(root);
    waitpid(root, None).expect("the stop after its exec");
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(root, options).expect("options of ptrace");
    let mut follower = Follower {
        processes: BTreeMap::from([(root, Process::default())]),
        early: BTreeSet::new(),
        known: 1,
        blow,
        calls: Vec::new(),
        struck: None,
        look,
    };
    let _ = ptrace::syscall(root, None);
    let (mut ended, mut end) = (Some(ended), None);
    // Only this thread's own: other tests start programs of theirs.
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
        let Some(pid) = status.pid() else { continue };
        let over = match status {
            WaitStatus::Exited(_, code) => Some(code),
            WaitStatus::Signaled(_, signal, _) => Some(-(signal as i32)),
            other => {
                watchdog.watch(pid);
                if follower.step(pid, other, &released) == Next::LetGo && pid != root {
                    watchdog.forget(pid);
                }
                None
            }
        };
        let Some(code) = over else { continue };
        watchdog.forget(pid);
        follower.processes.remove(&pid);
        follower.let_orphans_go();
        if pid == root {
            end = Some((code, Instant::now()));
            if let Some(ended) = ended.take() {
                ended(code);
            }
        }
    }
    let (status, ended) = end.unwrap_or((i32::MIN, Instant::now()));
    let Follower { calls, struck, .. } = follower;
    Story {
        calls,
        struck,
        status,
        ended,
        hung: watchdog.barked(),
    }
}

/// What becomes of a stopped process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoesOn,
    LetGo,
}

struct Follower<'a> {
    processes: BTreeMap<Pid, Process>,
    /// Stopped at birth, before their parent has told of them.
    early: BTreeSet<Pid>,
    known: usize,
    blow: Option<(At, Blow)>,
    calls: Vec<Call>,
    struck: Option<Call>,
    look: &'a mut dyn FnMut(&Call),
}

impl Follower<'_> {
    fn step(&mut self, pid: Pid, status: WaitStatus, released: &impl Fn(i32) -> bool) -> Next {
        let signal = match status {
            WaitStatus::PtraceSyscall(_) => {
                self.call(pid);
                None
            }
            WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                if released(pid.as_raw()) {
                    self.processes.remove(&pid);
                    let _ = ptrace::detach(pid, None);
                    return Next::LetGo;
                }
                None
            }
            WaitStatus::PtraceEvent(..) => {
                if let Ok(born) = ptrace::getevent(pid) {
                    self.born(Pid::from_raw(i32::try_from(born).unwrap_or(0)));
                }
                None
            }
            WaitStatus::Stopped(_, Signal::SIGSTOP) if !self.processes.contains_key(&pid) => {
                self.early.insert(pid);
                self.let_orphans_go();
                return Next::GoesOn;
            }
            // The stop at the birth of a process that is known already.
            WaitStatus::Stopped(_, Signal::SIGSTOP)
                if self.processes.get(&pid).is_some_and(|p| p.calls == 0) =>
            {
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            _ => return Next::GoesOn,
        };
        // Struck, and the call has given its error: nobody needs to be followed any more.
        if self.struck.is_some()
            && self
                .processes
                .values()
                .all(|process| process.failing.is_none())
        {
            self.processes.remove(&pid);
            let _ = ptrace::detach(pid, signal);
            return Next::LetGo;
        }
        let _ = ptrace::syscall(pid, signal);
        Next::GoesOn
    }

    /// Lets the children go whose parent was killed while it started them: no event tells of
    /// such a child, and it would stay stopped.
    fn let_orphans_go(&mut self) {
        if self.struck.is_some() {
            for pid in std::mem::take(&mut self.early) {
                let _ = ptrace::detach(pid, None);
            }
        }
    }

    fn born(&mut self, pid: Pid) {
        let process = Process {
            number: self.known,
            ..Process::default()
        };
        self.processes.insert(pid, process);
        self.known += 1;
        if self.early.remove(&pid) {
            let _ = ptrace::syscall(pid, None);
        }
    }

    /// At the entry or the exit of a call (PTRACE_GET_SYSCALL_INFO tells which).
    fn call(&mut self, pid: Pid) {
        let Ok(info) = ptrace::syscall_info(pid) else {
            return;
        };
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
            if let Some(error) = process.failing.take() {
                let _ = processor::give(pid, error);
            }
            return;
        }
        let point = Point {
            process: process.number,
            call: process.calls,
        };
        process.calls += 1;
        // SAFETY: op says that this is an entry, so that member of the union is the one
        // that was filled in (ptrace(2)).
        let entry = unsafe { info.u.entry };
        let number = i64::try_from(entry.nr).unwrap_or(-1);
        let subject = subject::of(pid.as_raw(), number, &entry.args);
        let kind = subject::kind(&subject);
        let known = process.alike.entry((number, kind.clone())).or_default();
        let nth = *known;
        *known += 1;
        let call = Call {
            point,
            alike: Alike {
                process: point.process,
                number,
                kind,
                nth,
            },
            number,
            pid: pid.as_raw(),
            arguments: entry.args,
            subject,
        };
        (self.look)(&call);
        match &self.blow {
            Some((at, Blow::Kill)) if at.is(&call) => {
                self.struck = Some(call.clone());
                let _ = kill(pid, Signal::SIGKILL);
            }
            Some((at, Blow::Fail(error))) if at.is(&call) => {
                self.struck = Some(call.clone());
                process.failing = Some(*error);
                let _ = processor::leave_out(pid);
            }
            _ => {}
        }
        self.calls.push(call);
    }
}
