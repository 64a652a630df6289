//! What an error of getgpu or cudawrap itself comes to: its row says what the system is told
//! again, what is refused with which status, and what can be done without.

use inject::calls;
use nix::errno::Errno::*;
use nix::libc;

use super::Outcome::{self, Goes, GoesInGetgpu, Line, Program, Says};
use super::{About, FCNTL, LOOKING, LOOKS, Locking, OPENING, OPENS, READS, Row};

const NVML: Outcome = Says(3, "the process that asks NVML failed");
const HOLD: Outcome = Says(4, "cannot start getgpu-hold, which keeps the reservation");

/// What fcntl(2) does with the lock, by its command or the type of the lock that it sets.
#[rustfmt::skip]
pub(super) const LOCKING: &[Locking] = &[
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

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
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
    Row(&[libc::SYS_lseek], &[About::Proc], &[EINVAL, EIO], &[Goes]),
    // What is started.
    Row(LOOKS, &[About::Way, About::Own], LOOKING, &[Goes, Line(4, "getgpu was not found beside cudawrap")]),
    Row(&[calls::ACCESS], &[About::Own], LOOKING, &[Line(4, "getgpu was not found beside cudawrap")]),
    Row(&[calls::ACCESS], &[About::Program], LOOKING, &[Program]),
    Row(LOOKS, &[About::Program], LOOKING, &[Goes, Program]),
    Row(&[libc::SYS_execve], &[About::Program], &[EACCES, EAGAIN, EIO, ENOEXEC, ENOMEM, EPERM, ETXTBSY, EMFILE], &[Program]),
    // Processes of its own.
    Row(&[libc::SYS_clone], &[About::Nothing], &[EAGAIN, ENOMEM], &[Says(4, "cannot start")]),
    Row(&[libc::SYS_socketpair], &[About::Nothing], &[EMFILE, ENFILE, ENOMEM], &[Says(4, "cannot start"), HOLD]),
    Row(&[calls::POLL], &[About::Nothing], &[EINTR], &[Goes]),
    Row(&[calls::POLL], &[About::Nothing], &[ENOMEM], &[NVML, HOLD, Goes]),
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
