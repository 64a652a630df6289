//! The lock as a stranger reaches it, who knows the published layout: any byte of it may
//! be locked by anybody. The places are computed here once more, from their description
//! alone.

use std::fs::{File, OpenOptions};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use harness::Sandbox;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Where the leases of a device begin, counted from [`span`].
pub const LEASE: i64 = 0x10_0000;
/// The byte that says for which waiter a device is kept.
pub const KEPT: i64 = 0x1f_0000;
/// Where its reservations begin.
pub const RESERVATION: i64 = 0x20_0000;
/// Where the leases inside a reservation begin.
pub const INNER_LEASE: i64 = 0x30_0000;
/// Where the reservations inside a reservation begin.
pub const INNER_RESERVATION: i64 = 0x40_0000;
/// Where the units begin that holders mark whose programs have exited.
pub const LINGERING: i64 = 0x60_0000;
/// The same inside a reservation or a lease.
pub const INNER_LINGERING: i64 = 0x70_0000;
/// A byte for each process with a lease.
pub const LEASE_PIDS: i64 = 0x100_0000;
/// Where the uids of those who lease it begin.
pub const LEASE_UIDS: i64 = 0x1_0000_0000;
/// Where the uids of those who reserve it begin.
pub const RESERVATION_UIDS: i64 = 0x2_1000_0000;
/// Locked while a number is drawn.
pub const DISPENSER: i64 = 0;
/// Locked while several devices, or a part of one, are chosen.
pub const SEVERAL: i64 = 16;
/// Where the numbers of the lines begin.
pub const NUMBERS: i64 = 1024;
/// How many bytes all lines have together.
pub const ALL_NUMBERS: i64 = 3000 << 22;
/// Where the uids begin whose calls count what their user holds.
pub const COUNTING_UIDS: i64 = 3 << 32;
/// Where the tags begin, 2^24 bytes.
pub const TAGS: i64 = 0x2_f000_0000;
/// Where the process ids of those who wait begin, 2^22 bytes.
pub const WAITERS: i64 = 0x2_f200_0000;
/// The units of a device.
pub const UNITS: i64 = 720_720;

/// Where a device's span begins.
pub fn span(uuid: &str) -> i64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = uuid.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let bits = ((hash ^ (hash >> 29)) & 0x1fff_ffff) as i64;
    bits.clamp(1, (1 << 29) - 2) << 34
}

/// The lock, opened by somebody who can lock any byte of it. Its locks are undone when it
/// is dropped: a child that another test starts at that moment has a copy of the
/// descriptor until it executes its program, so closing alone would not free them yet.
pub struct Stranger(File);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = lock(&self.0, libc::F_UNLCK, 0, 0);
    }
}

impl Deref for Stranger {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for Stranger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A description of the lock that can lock anything.
pub fn open(sandbox: &Sandbox) -> Stranger {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    Stranger(options.open(sandbox.lock()).expect("the lock"))
}

/// A range of the file; `kind`: `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
fn range(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: 0,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

/// Locks bytes, or with `F_UNLCK` frees them.
pub fn lock(file: &File, kind: i32, start: i64, length: i64) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(kind, start, length))).map(drop)
}

/// Whether any other description has a lock on one of these bytes.
pub fn is_locked(file: &File, start: i64, length: i64) -> bool {
    is_in_the_way(file, libc::F_WRLCK, start, length)
}

/// The same of read locks, where no other lock is.
pub fn is_confirmed(file: &File, start: i64, length: i64) -> bool {
    is_locked(file, start, length) && !is_in_the_way(file, libc::F_RDLCK, start, length)
}

fn is_in_the_way(file: &File, kind: i32, start: i64, length: i64) -> bool {
    let mut range = range(kind, start, length);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut range)).expect("asks for locks");
    i32::from(range.l_type) != libc::F_UNLCK
}
