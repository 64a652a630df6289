use super::*;

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
    assert_eq!(b.conflicts(A, 2).unwrap().found.len(), 2);
    // Of these only the tentative ones.
    assert_eq!(b.tentative_locks(A, 100).unwrap().found, []);
    let written = Range::new(1201, 5).unwrap();
    assert!(a.try_write(written).unwrap());
    let tries = b.tentative_locks(A, 100).unwrap().found;
    assert_eq!(tries, [conflict(Held::Tentative, written)]);
}
