//! What an error of getgpu-hold comes to: until it has said that it is ready nothing is
//! printed, and from then on the reservation is kept, whatever cannot be looked at.

use inject::calls;
use nix::errno::Errno::*;
use nix::libc;

use super::Outcome::{self, Goes, Line};
use super::{About, FCNTL, LOOKING, LOOKS, Locking, OPENING, OPENS, READS, Row};

const NOT_STARTED: Outcome = Line(
    4,
    "cannot start getgpu-hold, which keeps the reservation: it exited at once",
);

/// Marks tell others whose the reservation is, and that it lingers; the lock itself it has.
#[rustfmt::skip]
pub(super) const LOCKING: &[Locking] = &[
    ("F_RDLCK", &[EAGAIN, EACCES, ENOLCK, EIO, EINVAL], &[Goes]),
    ("F_UNLCK", &[ENOLCK, EIO], &[Goes]),
    ("F_DUPFD", &[EMFILE], &[NOT_STARTED]),
];

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // Before it is executed: without its descriptors it would hold nothing.
    Row(FCNTL, &[About::Socket], &[EMFILE], &[NOT_STARTED]),
    Row(OPENS, &[About::Standard], OPENING, &[NOT_STARTED]),
    Row(&[calls::DUP2], &[About::Standard, About::Lock, About::Socket], &[EMFILE, EINTR, EBUSY], &[NOT_STARTED]),
    Row(&[libc::SYS_execve], &[About::Proc], &[EACCES, ENOMEM, EAGAIN, EIO, EPERM, ENOENT], &[NOT_STARTED]),
    Row(&[libc::SYS_close_range], &[About::Nothing], &[ENOSYS, ENOMEM, EMFILE], &[Goes]),
    Row(&[libc::SYS_chdir], &[About::Nothing, About::Root], &[EACCES, EIO, ENOMEM], &[Goes]),
    // The words with its starter.
    Row(READS, &[About::Socket], &[EINTR], &[Goes]),
    Row(&[libc::SYS_write], &[About::Socket], &[EINTR], &[Goes]),
    Row(&[libc::SYS_write], &[About::Socket], &[EPIPE, ECONNRESET, ENOBUFS], &[Goes, NOT_STARTED]),
    // What cannot be looked at may use the device.
    Row(OPENS, &[About::Proc], OPENING, &[Goes]),
    Row(OPENS, &[About::Proc, About::Lock], &[EINTR], &[Goes]),
    Row(READS, &[About::Proc], &[EINTR, EIO, ESRCH, ENOMEM], &[Goes]),
    Row(LOOKS, &[About::Proc, About::Lock], LOOKING, &[Goes]),
    Row(&[libc::SYS_getdents64], &[About::Proc], &[EIO, ENOENT], &[Goes]),
    Row(&[libc::SYS_lseek], &[About::Proc], &[EINVAL, EIO], &[Goes]),
    Row(OPENS, &[About::Lock], OPENING, &[Goes]),
    Row(&[libc::SYS_close], &[About::Lock, About::Proc, About::Socket, About::Standard, About::Nothing], &[EINTR, EIO], &[Goes]),
];
