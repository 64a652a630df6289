//! What an error of the process that asks NVML comes to: with what it could not do, the
//! command goes on or refuses; a process that asked nothing is never taken for a free device.

use inject::calls;
use nix::errno::Errno::*;
use nix::libc;

use super::Outcome::{Goes, Line};
use super::{About, FCNTL, LOOKING, LOOKS, OPENING, OPENS, READS, Row};

const LOST: super::Outcome = Line(3, "the process that asks NVML failed");

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // The connection: what is not answered is an error of NVML.
    Row(READS, &[About::Socket], &[EINTR], &[Goes]),
    // The last read is after the last answer.
    Row(READS, &[About::Socket], &[ECONNRESET, EIO], &[LOST, Goes]),
    Row(&[libc::SYS_write], &[About::Socket], &[EINTR], &[Goes]),
    Row(&[libc::SYS_write], &[About::Socket], &[EPIPE, ECONNRESET, ENOBUFS], &[LOST]),
    // getgpu keeps the number that it has; its getgpu is not executed by cudawrap without it.
    Row(&[calls::DUP2], &[About::Socket], &[EMFILE, EINTR, EBUSY], &[Goes, LOST]),
    Row(FCNTL, &[About::Socket], &[EMFILE], &[Goes, LOST]),
    // Seclusion, as far as that is possible; getgpu for cudawrap is not even executed without it.
    Row(OPENS, &[About::Standard], OPENING, &[Goes, LOST]),
    Row(&[calls::DUP2], &[About::Standard], &[EMFILE, EINTR, EBUSY], &[Goes, LOST]),
    Row(&[libc::SYS_chdir], &[About::Nothing, About::Root], &[EACCES, EIO, ENOMEM], &[Goes]),
    Row(&[libc::SYS_close_range], &[About::Nothing], &[ENOSYS, ENOMEM, EMFILE], &[Goes]),
    Row(&[libc::SYS_execve], &[About::Own], &[EACCES, ENOMEM, EAGAIN, EIO, EPERM], &[LOST]),
    // The library is loaded to stay, and what failed then is said when it is loaded to be asked.
    Row(OPENS, &[About::Library], OPENING, &[Goes]),
    Row(READS, &[About::Library], &[EIO], &[Goes]),
    Row(LOOKS, &[About::Library], &[EIO, ENOMEM], &[Goes]),
    // Nodes that cannot be listed are none that forbid; whose numbers users have decides nothing here.
    Row(OPENS, &[About::Devices, About::Proc], OPENING, &[Goes]),
    Row(OPENS, &[About::Devices, About::Proc], &[EINTR], &[Goes]),
    Row(READS, &[About::Proc], &[EINTR, EIO], &[Goes]),
    Row(LOOKS, &[About::Devices, About::Proc], LOOKING, &[Goes]),
    Row(&[libc::SYS_getdents64], &[About::Devices], &[EIO, ENOENT], &[Goes]),
    // The standard library takes it that a directory can be closed.
    Row(&[libc::SYS_close], &[About::Devices], &[EINTR], &[Goes]),
    Row(&[libc::SYS_close], &[About::Library, About::Proc, About::Socket, About::Standard, About::Nothing], &[EINTR, EIO], &[Goes]),
];
