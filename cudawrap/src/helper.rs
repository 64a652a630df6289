//! Asking NVML without a trace: an intermediate made by clone with exit signal 0, which
//! does not exec, forks getgpu, waits for it and exits, and is reaped with __WALL. The
//! program later finds no child, no zombie and no pending SIGCHLD, also as process 1 or
//! as a subreaper.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::nvml_client::{Client, WORKER_OPTION, Worker, channel};
use getgpu_common::settings::Settings;
use getgpu_common::sys;
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How long the intermediate waits for a helper that it has killed. In D state it does
/// not even die.
const LAST_WAIT: Duration = Duration::from_millis(200);
/// Exit status of the intermediate when all is well.
const REAPED: i32 = 0;

/// getgpu: beside our own executable, then as set, then where packages put it; never by
/// PATH.
fn find_getgpu(settings: &Settings) -> Result<PathBuf, Failure> {
    let beside = std::fs::read_link("/proc/self/exe")
        .ok()
        .map(|exe| exe.with_file_name("getgpu"));
    let places = beside
        .into_iter()
        .chain(settings.getgpu.clone())
        .chain(["/usr/bin/getgpu".into(), "/usr/local/bin/getgpu".into()]);
    let runs = |path: &PathBuf| {
        nix::unistd::access(path.as_path(), nix::unistd::AccessFlags::X_OK).is_ok()
    };
    places.into_iter().find(runs).ok_or_else(|| {
        Failure::new(Kind::Nvml, "getgpu was not found beside cudawrap")
            .hint("install both, or set `getgpu` in /etc/getgpu/config.toml")
    })
}

/// Starts the helper and opens a session with it.
pub fn open(settings: &Settings) -> Result<Client<Helper>, Failure> {
    Client::open(Helper::start(settings)?, settings)
}

/// A session with the helper, ended whatever comes of it.
pub fn ask<T>(
    settings: &Settings,
    ask: impl FnOnce(&mut Client<Helper>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    open(settings)?.ask_all(ask)
}

/// The running helper.
#[derive(Debug)]
pub struct Helper {
    intermediate: Pid,
    channel: OwnedFd,
}

impl Helper {
    /// Starts getgpu as the process that asks NVML.
    pub fn start(settings: &Settings) -> Result<Self, Failure> {
        let getgpu = find_getgpu(settings)?;
        let failed = |why: &str| {
            Failure::new(
                Kind::Nvml,
                format!("cannot start {}: {why}", getgpu.display()),
            )
        };
        let (ours, theirs) = channel().map_err(|e| failed(&reason(&e)))?;
        let plan = Plan::new(&getgpu);
        let parent = std::process::id();
        // SAFETY: flags 0 is fork(2) with no exit signal; this process has one thread, so
        // the child may use all of its memory.
        let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
        match pid {
            -1 => Err(failed(&reason(&Errno::last().into()))),
            0 => intermediate(&plan, parent, ours, &theirs),
            pid => Ok(Self {
                intermediate: Pid::from_raw(pid as i32),
                channel: ours,
            }),
        }
    }
}

impl Worker for Helper {
    fn channel(&self) -> &OwnedFd {
        &self.channel
    }

    fn end(self, deadline: Instant) -> bool {
        drop(self.channel);
        if let Some(status) = reap(self.intermediate, deadline) {
            return status == REAPED;
        }
        // It kills the helper and tells whether that was possible.
        let _ = nix::sys::signal::kill(self.intermediate, nix::sys::signal::Signal::SIGTERM);
        let _ = reap(self.intermediate, Instant::now() + 2 * LAST_WAIT);
        false
    }
}

/// Waits for the intermediate; none if it is still there at `deadline`.
fn reap(pid: Pid, deadline: Instant) -> Option<i32> {
    let mut pause = Duration::from_micros(20);
    loop {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Exited(_, status)) => return Some(status),
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return Some(-1),
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// Everything the helper's exec needs, prepared before the first fork.
struct Plan {
    program: CString,
    words: [CString; 2],
    environment: Vec<CString>,
}

impl Plan {
    fn new(getgpu: &Path) -> Self {
        let c_string = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            let value = cleaned(&name, &value)?;
            Some(c_string(&[name.as_bytes(), b"=", &value].concat()))
        });
        Self {
            program: c_string(getgpu.as_os_str().as_bytes()),
            words: [c"getgpu".into(), c_string(WORKER_OPTION.as_bytes())],
            environment: environment.collect(),
        }
    }
}

/// The helper loads a library that the program may never use, so nothing that the
/// program's user set for it is loaded on the way.
fn cleaned(name: &OsStr, value: &OsStr) -> Option<Vec<u8>> {
    match name.as_bytes() {
        b"LD_PRELOAD" | b"LD_AUDIT" => None,
        b"LD_LIBRARY_PATH" => {
            let entries = value
                .as_bytes()
                .split(|b| matches!(b, b':' | b';'))
                .filter(|entry| entry.starts_with(b"/"));
            let kept = entries.collect::<Vec<_>>().join(&b':');
            (!kept.is_empty()).then_some(kept)
        }
        _ => Some(value.as_bytes().to_vec()),
    }
}

/// The intermediate's whole life; it never returns.
fn intermediate(plan: &Plan, parent: u32, ours: OwnedFd, theirs: &OwnedFd) -> ! {
    sys::die_with(parent);
    let own = std::process::id();
    drop(ours);
    // SAFETY: system calls on this process's own signal state, which is a copy; no other
    // thread exists.
    unsafe {
        let mut watched: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut watched);
        libc::sigaddset(&raw mut watched, libc::SIGCHLD);
        libc::sigaddset(&raw mut watched, libc::SIGTERM);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const watched, std::ptr::null_mut());
        let helper = libc::fork();
        match helper {
            -1 => libc::_exit(1),
            0 => become_getgpu(plan, own, theirs.as_raw_fd()),
            _ => {}
        }
        libc::close(theirs.as_raw_fd());
        let mut deadline: Option<Instant> = None;
        loop {
            let mut status = 0;
            let reaped = libc::waitpid(helper, &raw mut status, libc::WNOHANG);
            if reaped != 0 {
                let well =
                    reaped == helper && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                libc::_exit(if well { REAPED } else { 1 });
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                libc::_exit(3);
            }
            let slice = libc::timespec {
                tv_sec: 0,
                tv_nsec: 50_000_000,
            };
            let signal =
                libc::sigtimedwait(&raw const watched, std::ptr::null_mut(), &raw const slice);
            if signal == libc::SIGTERM && deadline.is_none() {
                libc::kill(helper, libc::SIGKILL);
                deadline = Some(Instant::now() + LAST_WAIT);
            }
        }
    }
}

/// The helper: getgpu with the connection as descriptor 0 and nothing else of ours.
fn become_getgpu(plan: &Plan, parent: u32, channel: RawFd) -> ! {
    sys::die_with(parent);
    // SAFETY: plain system calls; on any failure the process ends.
    unsafe {
        let channel = libc::fcntl(channel, libc::F_DUPFD, 10);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if channel < 0 || null < 0 {
            libc::_exit(1);
        }
        libc::dup2(null, 1);
        libc::dup2(null, 2);
        libc::dup2(channel, 0);
        // Also what the caller left open for its program.
        sys::close_from(3);
        libc::chdir(c"/".as_ptr());
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        let _ = nix::unistd::execve(&plan.program, &plan.words, &plan.environment);
        libc::_exit(1)
    }
}
