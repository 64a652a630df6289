//! What an error of a process that only starts another comes to: the one that getgpu-hold is
//! forked from, and the one that keeps the process that asks NVML out of sight of the program.

use nix::errno::Errno::*;
use nix::libc;

use super::Outcome::{Goes, Line};
use super::{About, Row};

#[rustfmt::skip]
pub(super) const STARTER: &[Row] = &[
    Row(&[libc::SYS_setsid], &[About::Nothing], &[EPERM], &[Goes]),
    Row(&[libc::SYS_clone], &[About::Nothing], &[EAGAIN, ENOMEM], &[Line(4, "cannot start getgpu-hold, which keeps the reservation: it exited at once")]),
];

#[rustfmt::skip]
pub(super) const KEEPER: &[Row] = &[
    Row(&[libc::SYS_clone], &[About::Nothing], &[EAGAIN, ENOMEM], &[Line(4, "cannot start"), Line(3, "the process that asks NVML failed")]),
    Row(&[libc::SYS_close_range], &[About::Nothing], &[ENOSYS, ENOMEM, EMFILE], &[Goes]),
    // Without waiting (WNOHANG).
    Row(&[libc::SYS_wait4], &[About::Nothing], &[], &[]),
    Row(&[libc::SYS_rt_sigtimedwait], &[About::Nothing], &[EAGAIN, EINTR], &[Goes]),
];
