//! What has to come of an error, by the call that fails and what it is about: one row per
//! rule. A call of the main process for which no row is there fails the test, so that a new
//! call says what its errors mean.

use harness::Sandbox;
use inject::Call;
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
        } else if path.starts_with("/proc/") {
            Self::Proc
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

/// What fcntl(2) does with the lock, by its command or the type of the lock that it sets.
#[rustfmt::skip]
const LOCKING: &[(&str, &[Errno], &[Outcome])] = &[
    // Held by another: the next device is tried. That a claim or its confirmation was not held by
    // another is known, so that then it was lost.
    ("F_WRLCK", &[EAGAIN, EACCES], &[Goes, Line(4, "the lock was lost while the claim was being confirmed")]),
    // Never taken for "held by another".
    ("F_WRLCK", &[ENOLCK, EIO, EINVAL], &[Says(4, "locking")]),
    // Marks, by which others see whose a device is, are set as far as that is possible.
    ("F_RDLCK", &[EAGAIN, EACCES], &[Goes, Line(4, "the lock was lost while the claim was being confirmed")]),
    ("F_RDLCK", &[ENOLCK, EIO, EINVAL], &[Says(4, "locking"), Goes]),
    // getgpu's last look comes behind its choice.
    ("F_OFD_GETLK", &[ENOLCK, EIO, EINVAL], &[Says(4, "locking"), GoesInGetgpu]),
    // What stays locked is unlocked with its descriptor.
    ("F_UNLCK", &[ENOLCK, EIO], &[Goes]),
    ("F_DUPFD_CLOEXEC", &[EMFILE], &[Goes]),
];

/// Calls that fail in one way, and what may come of it: more than one outcome where the call
/// is made at several places, each with a rule of its own.
struct Row(
    &'static [i64],
    &'static [About],
    &'static [Errno],
    &'static [Outcome],
);

const OPENS: &[i64] = &[libc::SYS_openat];
const LOOKS: &[i64] = &[libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_readlink];
const READS: &[i64] = &[libc::SYS_read, libc::SYS_pread64];
const FCNTL: &[i64] = &[libc::SYS_fcntl];
const OPENING: &[Errno] = &[EACCES, EMFILE, ENFILE, ENOENT, ENOMEM, ELOOP, EIO, EPERM];
const LOOKING: &[Errno] = &[EACCES, ENOENT, ENOMEM, ELOOP, EIO];
const NVML: Outcome = Says(3, "the process that asks NVML failed");
const HOLD: Outcome = Says(4, "cannot start getgpu-hold, which keeps the reservation");

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The lock: whatever cannot be known about it is an error of the lock, never "in use".
    Row(OPENS, &[About::Lock], OPENING, &[Says(4, "cannot be opened"), Goes]),
    Row(OPENS, &[About::Lock], &[EINTR], &[Says(4, "cannot be opened"), Goes]),
    Row(LOOKS, &[About::Lock, About::LockDirectory], LOOKING, &[Says(4, "lock "), Line(4, "lock "), Goes]),
    // Settings: what is there and cannot be read is never taken for absent.
    Row(OPENS, &[About::Settings], OPENING, &[Says(2, "cannot be read")]),
    Row(OPENS, &[About::Settings, About::List], &[EINTR], &[Goes]),
    Row(READS, &[About::Settings, About::List], &[EINTR], &[Goes]),
    Row(READS, &[About::Settings, About::List], &[EIO, EAGAIN], &[Says(2, "cannot be read")]),
    Row(LOOKS, &[About::Settings], LOOKING, &[Says(2, "cannot be read"), Goes]),
    Row(OPENS, &[About::List], &[EACCES, EMFILE, ENFILE, ENOMEM, ELOOP, EIO, EPERM], &[Says(2, "list of allowed devices")]),
    Row(OPENS, &[About::List], &[ENOENT], &[Goes]),
    Row(LOOKS, &[About::List], LOOKING, &[Goes, Says(2, "list of allowed devices")]),
    // A home directory may be on a server that is away, or forbid root.
    Row(OPENS, &[About::OwnSettings], OPENING, &[Goes]),
    Row(LOOKS, &[About::OwnSettings], LOOKING, &[Goes]),
    // Of another process nothing need be known; of the own one nothing that decides.
    Row(OPENS, &[About::Proc], OPENING, &[Goes]),
    Row(READS, &[About::Proc], &[EINTR, EIO, ESRCH], &[Goes]),
    Row(LOOKS, &[About::Proc], LOOKING, &[Goes, Line(4, "getgpu was not found beside cudawrap")]),
    Row(&[libc::SYS_getdents64], &[About::Proc], &[EIO, ENOENT], &[Goes]),
    // What is started.
    Row(LOOKS, &[About::Way, About::Own], LOOKING, &[Goes, Line(4, "getgpu was not found beside cudawrap")]),
    Row(&[libc::SYS_access], &[About::Own], LOOKING, &[Line(4, "getgpu was not found beside cudawrap")]),
    Row(&[libc::SYS_access], &[About::Program], LOOKING, &[Program]),
    Row(LOOKS, &[About::Program], LOOKING, &[Goes, Program]),
    Row(&[libc::SYS_execve], &[About::Program], &[EACCES, EAGAIN, EIO, ENOEXEC, ENOMEM, EPERM, ETXTBSY, EMFILE], &[Program]),
    // Processes of its own.
    Row(&[libc::SYS_clone], &[About::Nothing], &[EAGAIN, ENOMEM], &[Says(4, "cannot start")]),
    Row(&[libc::SYS_socketpair], &[About::Nothing], &[EMFILE, ENFILE, ENOMEM], &[Says(4, "cannot start"), HOLD]),
    Row(&[libc::SYS_poll], &[About::Nothing], &[EINTR], &[Goes]),
    Row(&[libc::SYS_poll], &[About::Nothing], &[ENOMEM], &[NVML, HOLD, Goes]),
    // They are waited for by their pidfd or with __WCLONE, so that ECHILD cannot come.
    Row(&[libc::SYS_wait4], &[About::Nothing], &[EINTR], &[Goes]),
    Row(READS, &[About::Socket], &[EINTR], &[Goes]),
    Row(READS, &[About::Socket], &[EIO, ECONNRESET], &[NVML, Line(3, "it exited without an answer"), HOLD]),
    Row(&[libc::SYS_sendto, libc::SYS_sendmsg], &[About::Socket], &[EINTR], &[Goes]),
    Row(&[libc::SYS_sendto, libc::SYS_sendmsg], &[About::Socket], &[EPIPE, ECONNRESET, ENOBUFS], &[NVML, Line(3, "it exited without an answer"), HOLD]),
    Row(FCNTL, &[About::Socket], &[EMFILE], &[Says(4, "")]),
    Row(&[libc::SYS_shutdown], &[About::Socket], &[ENOTCONN], &[Goes]),
    // The line that was to be printed is lost, and with it the device.
    Row(&[libc::SYS_write], &[About::Standard], &[EIO, ENOSPC, EPIPE], &[Says(4, "standard output")]),
    Row(&[libc::SYS_write], &[About::Standard], &[EINTR, EAGAIN], &[Goes, Says(4, "standard output")]),
    Row(&[libc::SYS_write], &[About::Socket], &[EINTR], &[Goes]),
    Row(&[libc::SYS_write], &[About::Socket], &[EIO, EPIPE], &[NVML, HOLD, Goes]),
    Row(&[libc::SYS_ioctl], &[About::Standard], &[ENOTTY], &[Goes]),
    Row(FCNTL, &[About::Standard], &[EBADF], &[Goes, Line(4, "standard output: it is closed")]),
    // A descriptor is closed whatever close(2) gives.
    Row(&[libc::SYS_close, libc::SYS_close_range], &[About::Lock, About::Settings, About::List, About::OwnSettings, About::Proc, About::Socket, About::Standard, About::Nothing], &[EINTR, EIO], &[Goes]),
];

/// Calls of which no error is documented that could come here: they are only killed at.
#[rustfmt::skip]
const WITHOUT: [i64; 27] = [
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_rt_sigreturn, libc::SYS_munmap,
    libc::SYS_mprotect, libc::SYS_brk, libc::SYS_mmap, libc::SYS_set_robust_list,
    libc::SYS_set_tid_address, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_geteuid,
    libc::SYS_getuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep, libc::SYS_getrandom, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_prlimit64, libc::SYS_prctl, libc::SYS_sigaltstack,
    libc::SYS_umask, libc::SYS_arch_prctl, libc::SYS_rseq,
    libc::SYS_restart_syscall,
];

/// Commands of fcntl(2) that only fail for a descriptor that is closed: the standard library
/// asks them of each that it closes, where its assertions are on.
const ASKED: [&str; 4] = ["F_GETFD ", "F_SETFD ", "F_GETFL ", "F_SETFL "];

/// The errors that a call of the main process may give, each with what may come of it; an
/// error if no row is about it.
pub(crate) fn of(
    call: &Call,
    sandbox: &Sandbox,
) -> Result<Vec<(Errno, &'static [Outcome])>, String> {
    let about = About::of(call, sandbox);
    let is_asked = ASKED
        .iter()
        .any(|command| call.subject.starts_with(command));
    if about == About::System
        || WITHOUT.contains(&call.number)
        || (is_asked && about != About::Standard)
    {
        return Ok(Vec::new());
    }
    if about == About::Lock && call.number == libc::SYS_fcntl {
        let command = call.subject.split(' ').next().unwrap_or_default();
        let rows = LOCKING.iter().filter(|(name, ..)| *name == command);
        let rows =
            rows.flat_map(|(_, errors, outcomes)| errors.iter().map(|error| (*error, *outcomes)));
        return Ok(rows.collect());
    }
    let rows = ROWS
        .iter()
        .filter(|Row(calls, abouts, ..)| calls.contains(&call.number) && abouts.contains(&about));
    let found: Vec<_> = rows
        .flat_map(|Row(_, _, errors, outcomes)| errors.iter().map(|error| (*error, *outcomes)))
        .collect();
    if found.is_empty() {
        return Err(format!(
            "no row for call {} about {about:?} {:?}",
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
