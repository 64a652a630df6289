//! What /proc/PID/fdinfo shows of open descriptors, to the process's own user and root
//! alone. Its `lock:` lines prove who holds a lock: everything on the lock file itself can
//! be taken by any user, and these lines cannot be forged.

use super::Stat;
use super::file::{numbers, whole};
use crate::byte_range::Range;

/// An open file description lock as fdinfo shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLock {
    /// Inode of the locked file.
    pub inode: u64,
    pub(crate) range: Range,
}

/// The confirmed (read) locks that the open descriptors of `pid` ("self" for this process)
/// hold; empty if not readable.
pub fn confirmed_locks(pid: &str) -> Vec<OwnLock> {
    locks(pid, "READ")
}

/// The write locks that the open descriptors of `pid` hold: what it claims tentatively at
/// this moment, and the bytes that it takes turns at.
pub fn write_locks(pid: &str) -> Vec<OwnLock> {
    locks(pid, "WRITE")
}

fn locks(pid: &str, kind: &str) -> Vec<OwnLock> {
    lines(pid, |line| parse(line, kind))
}

/// The processes that the pidfds of `pid` stand for (pidfd_open(2)): -1 for one that has
/// exited and was waited for, 0 for one in another pid namespace; empty if not readable.
pub fn pidfds(pid: &str) -> Vec<i32> {
    lines(pid, |line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

/// What `of_line` finds in the lines of all open descriptors.
fn lines<T>(pid: &str, of_line: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let directory = format!("/proc/{pid}/fdinfo");
    let mut found = lines_in(&directory, &of_line);
    if found.is_empty()
        && let Some(thread) = thread_of_zombie(pid)
    {
        found = lines_in(&format!("/proc/{pid}/task/{thread}/fdinfo"), &of_line);
    }
    found
}

fn lines_in<T>(directory: &str, of_line: &impl Fn(&str) -> Option<T>) -> Vec<T> {
    let all = numbers(directory).into_iter();
    let texts = all.filter_map(|number| whole(&format!("{directory}/{number}")).ok());
    texts
        .flat_map(|text| {
            String::from_utf8_lossy(&text)
                .lines()
                .filter_map(of_line)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A thread that goes on in a process whose first thread has ended: it shows the descriptors, and
/// the process itself has none any more.
fn thread_of_zombie(pid: &str) -> Option<i32> {
    let leader: i32 = pid.parse().ok()?;
    let stat = Stat::read(leader)?;
    let is_zombie = stat.state == 'Z' && stat.threads > 1;
    let threads = is_zombie.then(|| numbers(&format!("/proc/{pid}/task")))?;
    threads.into_iter().find(|thread| *thread != leader)
}

/// `lock:  1: OFDLCK ADVISORY  READ -1 fd:01:131 123 456`; the end is `EOF` for a lock to
/// the end of the file.
pub fn parse(line: &str, kind: &str) -> Option<OwnLock> {
    let mut fields = line.strip_prefix("lock:")?.split_ascii_whitespace().skip(1);
    (fields.next()? == "OFDLCK").then_some(())?;
    fields.next()?;
    (fields.next()? == kind).then_some(())?;
    fields.next()?;
    let inode = fields.next()?.rsplit(':').next()?.parse().ok()?;
    let start: i64 = fields.next()?.parse().ok()?;
    let last: i64 = fields.next()?.parse().ok()?;
    Some(OwnLock {
        inode,
        range: Range::between(start, last.checked_add(1)?)?,
    })
}

/// Locks as one word, `inode:start:end,...`, for a cudawrap process that may not read
/// them: the kernel hides those of a program whose file is not readable.
pub fn to_word(locks: &[OwnLock]) -> String {
    locks
        .iter()
        .map(|lock| {
            let (start, end) = (lock.range.start(), lock.range.end());
            format!("{}:{start}:{end}", lock.inode)
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// The locks of such a word; what is none is left out.
pub fn from_word(word: &str) -> Vec<OwnLock> {
    word.split(',')
        .filter_map(|text| {
            let mut fields = text.split(':');
            Some(OwnLock {
                inode: fields.next()?.parse().ok()?,
                range: Range::between(fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)?,
            })
        })
        .collect()
}

/// The parts of `range` on file `inode` that `locks` cover, clipped to it, in order,
/// duplicates removed.
pub fn within(locks: &[OwnLock], inode: u64, range: Range) -> Vec<Range> {
    let mut parts: Vec<Range> = locks
        .iter()
        .filter(|lock| lock.inode == inode)
        .filter_map(|lock| lock.range.intersection(range))
        .collect();
    parts.sort_by_key(|part| part.start());
    parts.dedup();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_locks_is_read_back_and_rubbish_left_out() {
        let lock = |inode, start, len| OwnLock {
            inode,
            range: Range::new(start, len).unwrap(),
        };
        let locks = [lock(5, 0, 1), lock(u64::MAX, 1 << 40, 720_720)];
        let word = to_word(&locks);
        assert!(word.starts_with("5:0:1,"), "{word}");
        assert_eq!(from_word(&word), locks);
        assert_eq!((to_word(&[]), from_word("")), (String::new(), Vec::new()));
        // No lock at all, an empty one, one without an end, and a good one.
        assert_eq!(from_word("x,5:7:7,5:7,-1:0:1,5:0:1"), locks[..1]);
    }

    /// The kernel's own lines, of a lock that this process holds.
    #[cfg_attr(miri, ignore = "Miri has no record locks")]
    #[test]
    fn locks_of_open_descriptors_are_seen_by_their_kind() {
        use nix::fcntl::{FcntlArg, fcntl};
        use std::os::unix::fs::MetadataExt;

        let file = tempfile::tempfile().unwrap();
        let inode = file.metadata().unwrap().ino();
        let lock = |kind, start, len| {
            let lock = libc::flock {
                l_type: kind as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                l_start: start,
                l_len: len,
                l_pid: 0,
            };
            fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        };
        lock(libc::F_RDLCK, 100, 20);
        lock(libc::F_WRLCK, 500, 1);
        let of = |locks: Vec<OwnLock>| -> Vec<Range> {
            let mut ours = locks.into_iter().filter(|lock| lock.inode == inode);
            ours.by_ref().map(|lock| lock.range).collect()
        };
        let (read, write) = (Range::new(100, 20).unwrap(), Range::byte(500));
        assert_eq!(
            (of(confirmed_locks("self")), of(write_locks("self"))),
            (vec![read], vec![write])
        );
        assert_eq!(confirmed_locks("0"), []);
    }

    #[test]
    fn parts_of_a_range() {
        let range = |start, len| Range::new(start, len).unwrap();
        let lock = |inode, start, len| OwnLock {
            inode,
            range: range(start, len),
        };
        #[rustfmt::skip]
        let locks = [
            lock(5, 900, 200), lock(5, 1500, 10), lock(5, 1500, 10), lock(6, 1200, 50),
        ];
        let parts = [range(1000, 100), range(1500, 10)];
        assert_eq!(within(&locks, 5, range(1000, 840)), parts);
    }
}
