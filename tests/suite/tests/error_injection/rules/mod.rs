//! What has to come of an error, by the process, the call that fails and what it is about:
//! one row per rule, and a file for each kind of process. A call for which no row is there
//! fails the test, so that a new call says what its errors mean.

mod between;
mod holder;
mod main_process;
mod nvml_process;

use harness::Sandbox;
use inject::{Call, calls};
use nix::errno::Errno::{self, *};
use nix::libc;

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Lock,
    LockDirectory,
    /// The node's settings.
    Settings,
    /// The user's own settings.
    OwnSettings,
    /// The node's list of allowed devices.
    List,
    /// /proc, of this process or another.
    Proc,
    /// The nodes in /dev.
    Devices,
    /// The driver's library.
    Library,
    /// The top directory.
    Root,
    /// The user's program.
    Program,
    /// getgpu or cudawrap itself, and where they are.
    Own,
    /// A directory on the way to one of the paths here.
    Way,
    /// A socket to a process of its own.
    Socket,
    /// Standard output and what else it was started with.
    Standard,
    /// The dynamic loader's, or the C library's: before there is a line of the programs.
    System,
    /// Neither a path nor a descriptor.
    Nothing,
}

impl About {
    pub(crate) fn of(call: &Call, sandbox: &Sandbox) -> Self {
        let subject = call.subject.as_str();
        // The command of fcntl(2) is in front.
        let path = subject.split_once(' ').map_or(subject, |(_, path)| path);
        let lock = sandbox.lock();
        let own = [
            "bin/cudawrap",
            "bin/CUDAWRAP_cudawrap",
            "bin/getgpu",
            "opt/app",
        ];
        let inside = |file: &str| path == sandbox.text(file);
        if path.is_empty() {
            Self::Nothing
        } else if lock.as_os_str() == path {
            Self::Lock
        } else if lock
            .parent()
            .is_some_and(|parent| parent.as_os_str() == path)
        {
            Self::LockDirectory
        } else if inside("config.toml") {
            Self::Settings
        } else if inside("home/.config/getgpu/config.toml") {
            Self::OwnSettings
        } else if inside("ids") {
            Self::List
        } else if inside("bin/probe") || path.ends_with("/CUDAWRAP_app") {
            Self::Program
        } else if own.iter().any(|own| inside(own)) {
            Self::Own
        } else if inside("lib/libnvidia-ml.so.1") {
            Self::Library
        } else if path == "/proc" || path.starts_with("/proc/") {
            Self::Proc
        } else if path == "/dev" {
            Self::Devices
        } else if path.starts_with("socket:") {
            Self::Socket
        } else if path.contains("/work/#") || path == "/dev/null" || path.starts_with("pipe:") {
            Self::Standard
        } else if sandbox.path("opt/app").starts_with(path) || sandbox.path("bin").starts_with(path)
        {
            Self::Way
        } else {
            Self::System
        }
    }
}

/// What has to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is made again, or what it was for can be done without: a device is given.
    Goes,
    /// The same, in getgpu alone.
    GoesInGetgpu,
    /// Refused with this status of getgpu (cudawrap has 125), and a line that has these words
    /// and what the system calls the error.
    Says(i32, &'static str),
    /// Refused with this status of getgpu (cudawrap has 125), and a line that has these words.
    Line(i32, &'static str),
    /// The program cannot be started: 126, its path, and what the system calls the error.
    Program,
}

use Outcome::{Goes, GoesInGetgpu, Line, Program, Says};

/// Calls that fail in one way, and what may come of it: more than one outcome where the call
/// is made at several places, each with a rule of its own.
struct Row(
    &'static [i64],
    &'static [About],
    &'static [Errno],
    &'static [Outcome],
);

pub(super) const OPENS: &[i64] = &[libc::SYS_openat];
pub(super) const LOOKS: &[i64] = &[libc::SYS_statx, libc::SYS_newfstatat, calls::READLINK];
pub(super) const READS: &[i64] = &[libc::SYS_read, libc::SYS_pread64];
pub(super) const FCNTL: &[i64] = &[libc::SYS_fcntl];
pub(super) const OPENING: &[Errno] = &[EACCES, EMFILE, ENFILE, ENOENT, ENOMEM, ELOOP, EIO, EPERM];
pub(super) const LOOKING: &[Errno] = &[EACCES, ENOENT, ENOMEM, ELOOP, EIO];

/// What a command of fcntl(2) for the lock, or the type of the lock that it sets, may fail with.
type Locking = (&'static str, &'static [Errno], &'static [Outcome]);

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// getgpu or cudawrap as it was called.
    Main,
    /// Asks NVML.
    Nvml,
    /// Starts the process that asks NVML, and waits for it, where no child may be seen.
    Keeper,
    /// Starts getgpu-hold, and exits.
    Starter,
    Holder,
}

impl Role {
    fn rows(self) -> (&'static [Locking], &'static [Row]) {
        match self {
            Self::Main => (main_process::LOCKING, main_process::ROWS),
            Self::Nvml => (&[], nvml_process::ROWS),
            Self::Keeper => (&[], between::KEEPER),
            Self::Starter => (&[], between::STARTER),
            Self::Holder => (holder::LOCKING, holder::ROWS),
        }
    }
}

/// Calls of which no error is documented that could come here: they are only killed at.
#[rustfmt::skip]
const WITHOUT: [i64; 26] = [
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_rt_sigreturn, libc::SYS_munmap,
    libc::SYS_mprotect, libc::SYS_brk, libc::SYS_mmap, libc::SYS_set_robust_list,
    libc::SYS_set_tid_address, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_geteuid,
    libc::SYS_getuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep, libc::SYS_getrandom, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_prlimit64, libc::SYS_prctl, libc::SYS_sigaltstack,
    libc::SYS_umask, libc::SYS_rseq, libc::SYS_restart_syscall,
];

/// Commands of fcntl(2) that only fail for a descriptor that is closed: the standard library
/// asks them of each that it closes, where its assertions are on.
const ASKED: [&str; 4] = ["F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL"];

/// The errors that a call may give, each with what may come of it; an error if no row is
/// about it.
pub(crate) fn of(
    role: Role,
    call: &Call,
    sandbox: &Sandbox,
) -> Result<Vec<(Errno, &'static [Outcome])>, String> {
    let about = About::of(call, sandbox);
    let command = call.subject.split(' ').next().unwrap_or_default();
    let is_asked = call.subject.contains(' ') && ASKED.contains(&command);
    if about == About::System
        || WITHOUT.contains(&call.number)
        || calls::OF_LOADER.contains(&call.number)
        || (is_asked && about != About::Standard)
        || (is_asked && role != Role::Main)
    {
        return Ok(Vec::new());
    }
    let (locking, rows) = role.rows();
    let is_locking = about == About::Lock && call.number == libc::SYS_fcntl;
    let (mut found, mut has_row) = (Vec::new(), false);
    let mut add = |errors: &'static [Errno], outcomes| {
        has_row = true;
        found.extend(errors.iter().map(|error| (*error, outcomes)));
    };
    for (name, errors, outcomes) in locking {
        if is_locking && *name == command {
            add(errors, *outcomes);
        }
    }
    for Row(calls, abouts, errors, outcomes) in rows {
        if !is_locking && calls.contains(&call.number) && abouts.contains(&about) {
            add(errors, outcomes);
        }
    }
    if !has_row {
        return Err(format!(
            "no row for {role:?}, call {} about {about:?} {:?}",
            call.number, call.subject
        ));
    }
    Ok(found)
}

/// Whether a run ended as one of the outcomes says.
pub(crate) fn came(
    outcomes: &[Outcome],
    error: Errno,
    name: &str,
    status: i32,
    said: &str,
) -> bool {
    let text = std::io::Error::from_raw_os_error(error as i32).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let refused = |expected: i32| status == if name == "getgpu" { expected } else { 125 };
    outcomes.iter().any(|outcome| match outcome {
        Goes => status == 0,
        GoesInGetgpu => status == 0 && name == "getgpu",
        Says(expected, words) => refused(*expected) && said.contains(words) && said.contains(text),
        Line(expected, words) => refused(*expected) && said.contains(words),
        Program => status == 126 && (said.contains(text) || said.contains("Permission denied")),
    })
}
