use super::*;
use getgpu_model::Kind;

fn two() -> (OfdLock, OfdLock) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true);
    let open = || OfdLock::new(options.open(file.path()).unwrap().into());
    (open(), open())
}

fn conflict(held: Held, range: Range) -> Conflict {
    Conflict { held, range }
}

const A: Range = Range::new(1000, 840).unwrap();

#[test]
fn a_write_lock_is_tentative_and_a_read_lock_confirmed() {
    let (a, b) = two();
    assert!(a.try_write(A).unwrap());
    assert!(!b.try_write(A).unwrap());
    assert_eq!(b.conflict(A).unwrap().unwrap().held, Held::Tentative);
    assert!(a.try_read(A).unwrap());
    assert_eq!(b.conflict(A).unwrap(), Some(conflict(Held::Confirmed, A)));
    assert!(b.try_read(A).unwrap(), "readers share");
    drop(a);
    assert_eq!(b.conflict(A).unwrap(), None, "closing gives up");
}

#[test]
fn every_conflict_is_found_and_clipped() {
    let (a, b) = two();
    for start in [10, 500, 990, 1200, 1500, 1839] {
        assert!(a.try_read(Range::new(start, 20).unwrap()).unwrap());
    }
    let found = b.conflicts(A, 100).unwrap().found.into_iter();
    let found = found.map(|found| (found.range.start(), found.range.len()));
    assert!(found.eq([(1000, 10), (1200, 20), (1500, 20), (1839, 1)]));
    for (most, found, flood) in [(5, 4, false), (2, 2, true), (0, 0, true)] {
        let scan = b.conflicts(A, most).unwrap();
        assert_eq!((scan.found.len(), scan.flood), (found, flood), "{most}");
    }
    // Of these only the tentative ones.
    assert_eq!(b.tentative_locks(A, 100).unwrap().found, []);
    let written = Range::new(1201, 5).unwrap();
    assert!(a.try_write(written).unwrap());
    let tries = b.tentative_locks(A, 100).unwrap().found;
    assert_eq!(tries, [conflict(Held::Tentative, written)]);
}

/// The kernel reports such a lock with the length 0. Any user who may read the file can take one.
#[test]
fn a_lock_to_the_end_of_the_file_is_in_the_way_of_all_behind_its_start() {
    for start in [0, 1000, 1839] {
        let (a, b) = two();
        let mut lock = flock(libc::F_RDLCK, Range::new(start, 1).unwrap());
        lock.l_len = 0;
        fcntl(&a, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        let rest = Range::between(start.max(1000), 1840).unwrap();
        assert_eq!(
            b.conflict(A).unwrap(),
            Some(conflict(Held::Confirmed, rest)),
            "from {start}"
        );
        let before = Range::between(start - 10, start);
        let before = before.filter(|range| range.start() >= 0);
        assert!(before.is_none_or(|range| b.conflict(range).unwrap().is_none()));
    }
}

/// A lock that cannot be taken for another reason than another lock is an error: if it counted as
/// held by others, calls would wait for a device that nobody has.
#[test]
fn a_description_that_cannot_be_locked_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let read_only = OfdLock::new(std::fs::File::open(file.path()).unwrap().into());
    let failure = failed(Errno::EBADF);
    assert_eq!(read_only.try_write(A), Err(failure.clone()));
    assert_eq!(read_only.write_when_free(A), Err(failure.clone()));
    assert_eq!(read_only.try_read(A), Ok(true));
    assert_eq!(failure.kind, Kind::LockPlace);
    assert!(failure.message.starts_with("locking: "), "{failure}");
}

#[test]
fn a_lock_is_waited_for_until_others_have_given_it_up() {
    let (a, b) = two();
    assert_eq!(a.try_read(A), Ok(true));
    let waiting = std::thread::spawn(move || {
        b.write_when_free(A).unwrap();
        b
    });
    drop(a);
    let b = waiting.join().unwrap();
    let file = std::fs::File::open(format!("/proc/self/fd/{}", b.number())).unwrap();
    let other = OfdLock::new(file.into());
    let held = other.conflict(A).unwrap();
    assert_eq!(held, Some(conflict(Held::Tentative, A)));
}

#[test]
fn a_lock_is_tried_until_it_is_free_or_the_time_has_passed() {
    use std::cell::Cell;
    let attempts = |limit, free_at: u32| {
        let tried = Cell::new(0);
        let got = poll(limit, || {
            tried.set(tried.get() + 1);
            Ok(tried.get() == free_at)
        });
        (got, tried.get())
    };
    let long = Duration::from_secs(3600);
    assert_eq!(attempts(Duration::ZERO, 1), (Ok(true), 1));
    assert_eq!(attempts(Duration::ZERO, 2), (Ok(false), 1));
    assert_eq!(attempts(long, 5), (Ok(true), 5));
    let (limit, began) = (Duration::from_millis(5), Instant::now());
    let (got, tried) = attempts(limit, u32::MAX);
    assert_eq!(got, Ok(false));
    assert!(began.elapsed() >= limit);
    // 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 2 ms, and what is left of the 5.
    assert!(
        tried <= 8,
        "each pause is longer than the one before: {tried}"
    );
    let broken = || failed(Errno::ENOLCK);
    assert_eq!(poll(long, || Err(broken())), Err(broken()));
}

#[test]
fn a_limited_wait_takes_the_lock_that_it_is_for() {
    let (a, b) = two();
    assert_eq!(a.read_within(A, Duration::ZERO), Ok(true));
    assert_eq!(b.read_within(A, Duration::ZERO), Ok(true), "readers share");
    assert_eq!(b.write_within(A, Duration::ZERO), Ok(false));
    assert_eq!(b.tentative(A), Ok(None), "a read lock is not tentative");
    let other = Range::new(5000, 10).unwrap();
    assert_eq!(a.write_within(other, Duration::ZERO), Ok(true));
    assert_eq!(b.read_within(other, Duration::ZERO), Ok(false));
    assert_eq!(b.tentative(other), Ok(Some(other)));
}
