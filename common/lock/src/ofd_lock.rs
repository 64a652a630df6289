//! Byte-range locks on one open file description: the only file that says `F_OFD_`. A
//! description is locked through, asked through, and given up by closing it; nothing is
//! ever unlocked (fcntl(2)).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use getgpu_linux::Range;
use getgpu_model::{Failure, reason};

use crate::causes::LockCause;

/// The result of a lock call. Where one fails (fcntl(2): ENOLCK, EIO and the like), no device is handed
/// out.
pub type LockResult<T> = Result<T, Failure>;

fn failed(errno: Errno) -> Failure {
    let why = reason(&errno.into());
    LockCause::Fcntl { why }.into()
}

/// Whether a claim may yet be dropped, or is there to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Held {
    /// A write lock: a process is trying.
    Tentative,
    /// A read lock: a process has it.
    Confirmed,
}

/// A lock of another description that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Tentative or confirmed.
    pub held: Held,
    /// The bytes it covers; adjacent locks of one description come as one.
    pub range: Range,
}

/// How long one scan may take. Hundreds of sharers are read in a tenth of it.
const SCAN: Duration = Duration::from_millis(250);

/// The pauses of [`OfdLock::write_within`]: most locks that are waited for are held for
/// microseconds.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// What a scan found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The runs of bytes, in order.
    pub found: Vec<Conflict>,
    /// There are more than a scan reads.
    pub(crate) flood: bool,
}

/// One open file description of the lock. Dropping it gives up every lock taken through
/// it, unless a copy was inherited by another process.
#[derive(Debug)]
pub struct OfdLock(OwnedFd);

impl OfdLock {
    /// Wraps an open descriptor of the lock file.
    pub const fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Tries to write-lock `range`: false if another process has any of it.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn try_write(&self, range: Range) -> LockResult<bool> {
        self.set(libc::F_WRLCK, range)
    }

    /// Write-locks `range` as soon as no other process has any of it: false if that takes
    /// longer than `limit`. Polled, since fcntl(2) cannot wait for a lock for a limited
    /// time.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn write_within(&self, range: Range, limit: Duration) -> LockResult<bool> {
        poll(limit, || self.try_write(range))
    }

    /// The same with a read lock.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn read_within(&self, range: Range, limit: Duration) -> LockResult<bool> {
        poll(limit, || self.try_read(range))
    }

    /// Tries to read-lock `range`, or turns our write lock on it into a read lock,
    /// without a gap.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn try_read(&self, range: Range) -> LockResult<bool> {
        self.set(libc::F_RDLCK, range)
    }

    fn set(&self, kind: i32, range: Range) -> LockResult<bool> {
        loop {
            match fcntl(self, FcntlArg::F_OFD_SETLK(&flock(kind, range))) {
                Ok(_) => return Ok(true),
                Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    /// Some lock of another description on `range`, not necessarily the lowest, clipped
    /// to `range`.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn conflict(&self, range: Range) -> LockResult<Option<Conflict>> {
        self.ask(libc::F_WRLCK, range)
    }

    /// The same of tentative claims: a read lock is in the way of none but write locks.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn tentative(&self, range: Range) -> LockResult<Option<Range>> {
        Ok(self
            .ask(libc::F_RDLCK, range)?
            .map(|conflict| conflict.range))
    }

    fn ask(&self, kind: i32, range: Range) -> LockResult<Option<Conflict>> {
        let mut lock = flock(kind, range);
        fcntl(self, FcntlArg::F_OFD_GETLK(&mut lock)).map_err(failed)?;
        let held = match i32::from(lock.l_type) {
            libc::F_UNLCK => return Ok(None),
            libc::F_RDLCK => Held::Confirmed,
            _ => Held::Tentative,
        };
        // A length of 0 stands for "to the end of the file".
        let end = if lock.l_len == 0 {
            i64::MAX
        } else {
            lock.l_start.saturating_add(lock.l_len)
        };
        let clipped = Range::between(lock.l_start, end).and_then(|found| found.intersection(range));
        Ok(clipped.map(|range| Conflict { held, range }))
    }

    /// Waits until no other process holds any of `range`, and write-locks it (F_OFD_SETLKW).
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn write_when_free(&self, range: Range) -> LockResult<()> {
        let lock = flock(libc::F_WRLCK, range);
        while let Err(errno) = fcntl(self, FcntlArg::F_OFD_SETLKW(&lock)) {
            if errno != Errno::EINTR {
                return Err(failed(errno));
            }
        }
        Ok(())
    }

    /// All runs of bytes of `range` that others hold, in order, at most `most` of them
    /// and at most as many as are found in `SCAN`: fewer than all if there is a flood of
    /// them.
    ///
    /// The kernel answers with *some* conflict, so the parts left and right of each
    /// answer are asked about again. For each answer it walks past all locks of the file,
    /// so without a limit in time a scan of many takes the square of it.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn conflicts(&self, range: Range, most: usize) -> LockResult<Scan> {
        self.scan(libc::F_WRLCK, range, most)
    }

    /// The same of those who are trying: the kernel itself passes by read locks.
    ///
    /// # Errors
    ///
    /// The file system has no such locks, or the kernel has no memory for one.
    pub fn tentative_locks(&self, range: Range, most: usize) -> LockResult<Scan> {
        self.scan(libc::F_RDLCK, range, most)
    }

    fn scan(&self, kind: i32, range: Range, most: usize) -> LockResult<Scan> {
        let mut found = Vec::new();
        let mut ask = vec![range];
        let began = Instant::now();
        let mut flood = false;
        while let Some(part) = ask.pop() {
            if found.len() >= most || began.elapsed() >= SCAN {
                flood = true;
                break;
            }
            let Some(conflict) = self.ask(kind, part)? else {
                continue;
            };
            ask.extend(Range::between(part.start(), conflict.range.start()));
            ask.extend(Range::between(conflict.range.end(), part.end()));
            found.push(conflict);
        }
        found.sort_by_key(|c| c.range.start());
        Ok(Scan { found, flood })
    }

    /// The descriptor itself, for handing it to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// The number of the descriptor.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl AsFd for OfdLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Tries at doubling intervals until it succeeds, or until `limit` has passed.
fn poll(limit: Duration, tried: impl Fn() -> LockResult<bool>) -> LockResult<bool> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    while !tried()? {
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(true)
}

fn flock(kind: i32, range: Range) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.start(),
        l_len: range.len(),
        l_pid: 0, // must be 0 for open file description locks
    }
}

#[cfg(test)]
#[path = "ofd_lock_tests.rs"]
mod tests;
