//! The few system calls that no crate offers safely or in the form that is needed here:
//! auxiliary vector, standard streams, actions of signals, clocks. Each is one call with its man page; nothing here
//! decides anything.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::time::ClockId;
use nix::unistd::{SysconfVar, sysconf};

use crate::blocked_signals::BlockedSignals;

/// Whether standard output was closed when this process was started.
pub fn stdout_was_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// In the place of a closed stream is /dev/null soon (by Rust's start-up, or by
/// [`open_standard_streams`]), so that writing there succeeds: this is asked before.
// SAFETY: the C library calls the functions of this section once, before main; this one
// makes one system call and stores a flag.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: F_GETFD has no preconditions.
        let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
        STDOUT_CLOSED.store(closed, Ordering::Relaxed);
    }
    look
};

/// Whether the kernel asks for secure execution (AT_SECURE, getauxval(3)): setuid, setgid
/// or file capabilities. Then nothing from the environment is believed.
pub fn secure_execution() -> bool {
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The path that this process was executed by (AT_EXECFN, getauxval(3)).
pub fn exec_path() -> Option<OsString> {
    // SAFETY: the value is 0 or the address of a NUL-terminated string that lives as long
    // as the process.
    let bytes = unsafe {
        let text = libc::getauxval(libc::AT_EXECFN) as *const libc::c_char;
        if text.is_null() {
            return None;
        }
        CStr::from_ptr(text).to_bytes().to_vec()
    };
    Some(OsString::from_vec(bytes))
}

/// Asks for SIGKILL when the parent dies (PR_SET_PDEATHSIG, prctl(2)); ends at once if
/// `parent` died before that.
pub fn die_with(parent: u32) {
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    if nix::unistd::getppid().as_raw() != parent as libc::pid_t {
        end(1);
    }
}

/// Has a write to a pipe without a reader fail with EPIPE (signal(2)).
pub(crate) fn ignore_sigpipe() {
    // SAFETY: to ignore a signal needs no handler and touches no memory of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Has a child that exits stay until it is waited for. A caller that ignores SIGCHLD
/// hands that on, and then it cannot be learned how a child ended (waitpid(2), NOTES).
pub(crate) fn keep_exited_children() {
    // SAFETY: the default action needs no handler and touches no memory of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Puts /dev/null in the place of each standard stream that is closed: what is opened next
/// would be in its place, and lines for people would go there.
pub(crate) fn open_standard_streams() {
    for stream in 0..3 {
        // SAFETY: F_GETFD has no preconditions; open reads a NUL-terminated text, and gives
        // the lowest number that is free, which is this one.
        unsafe {
            if libc::fcntl(stream, libc::F_GETFD) < 0 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}

/// Ends this process by SIGPIPE, which it ignores (`ignore_sigpipe`, raise(3)). Comes back
/// where the signal is blocked.
pub fn end_by_sigpipe() {
    // SAFETY: the default action needs no handler, and both calls touch no memory of this
    // process.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
}

/// Seconds since boot, suspend included (CLOCK_BOOTTIME, since Linux 2.6.39).
pub fn boot_time() -> Duration {
    clock(ClockId::CLOCK_BOOTTIME)
}

/// Since some moment, without the time in which the machine was suspended (CLOCK_MONOTONIC).
pub fn monotonic_time() -> Duration {
    clock(ClockId::CLOCK_MONOTONIC)
}

/// What this thread has had of a processor (CLOCK_THREAD_CPUTIME_ID).
pub fn processor_time() -> Duration {
    clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// What a clock shows; zero of one that the kernel does not have (clock_gettime(2)).
fn clock(clock: ClockId) -> Duration {
    clock.now().map(Duration::from).unwrap_or_default()
}

/// The time of a start that /proc tells in ticks, since the boot and without the part of a
/// second.
pub fn after_boot(start: u64) -> Duration {
    Duration::from_secs(start / ticks_per_second())
}

/// Clock ticks per second of /proc/PID/stat (sysconf(3)).
pub fn ticks_per_second() -> u64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    ticks.map_or(100, |ticks| ticks.max(1).unsigned_abs())
}

/// Writes all of `bytes` to standard error as far as that goes. A pipe without a reader
/// must not end a program that has SIGPIPE's default action, nor leave the signal pending
/// for the program that it becomes.
pub fn write_stderr(bytes: &[u8]) {
    let pipe = SigSet::from(Signal::SIGPIPE);
    let blocked = BlockedSignals::of(&pipe);
    // SAFETY: an all-zero signal set is a valid place for the answer; the calls take the one
    // signal that the write has made pending.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        // No lock of the standard library's, which a fork of another thread could leave locked.
        let stderr = ManuallyDrop::new(File::from_raw_fd(libc::STDERR_FILENO));
        let written = (&*stderr).write_all(bytes);
        let broken = written.is_err_and(|error| error.raw_os_error() == Some(libc::EPIPE));
        if broken && libc::sigismember(&raw const pending, libc::SIGPIPE) == 0 {
            let now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::sigtimedwait(pipe.as_ref(), std::ptr::null_mut(), &raw const now);
        }
    }
    drop(blocked);
}

/// Takes ownership of a descriptor that a call has just returned as a number.
pub fn own_fd(number: i32) -> OwnedFd {
    assert!(number >= 0, "a descriptor is never negative");
    // SAFETY: callers pass what fcntl(F_DUPFD_CLOEXEC) returned to them just now; no
    // other owner knows the number.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Whether `text` has `part` in it (memmem(3)).
pub fn contains_bytes(text: &[u8], part: &[u8]) -> bool {
    // SAFETY: both are slices with their own lengths, which the call only reads.
    let found = unsafe {
        libc::memmem(
            text.as_ptr().cast(),
            text.len(),
            part.as_ptr().cast(),
            part.len(),
        )
    };
    !found.is_null()
}

/// Bytes as a string for execve(2), which can hold no NUL; empty if they hold one.
pub fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

/// Strings as execve(2) takes them, with a null pointer at the end.
pub(crate) fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let each = strings.iter().map(|string| string.as_ptr());
    each.chain([std::ptr::null()]).collect()
}

/// Ends this process without running what libraries have registered for its end
/// (_exit(2)).
pub fn end(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Whether so many bytes can be allocated. Without them a program would be aborted in the
/// middle of something (setrlimit(2), RLIMIT_AS).
pub(crate) fn memory_is_left(bytes: usize) -> bool {
    // The optimizer takes an allocation that is only given back for one that succeeds, unless
    // it cannot know that.
    // SAFETY: what malloc(3) gives is given back, and not used.
    unsafe {
        let memory = std::hint::black_box(libc::malloc(bytes));
        let left = !memory.is_null();
        libc::free(memory);
        left
    }
}
