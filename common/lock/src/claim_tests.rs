use super::*;
use getgpu_model::Uuid;
use std::os::unix::fs::PermissionsExt;

/// A lock in a directory of its own, which others cannot write to: a test beside this one,
/// which creates a lock file, has umask 0 for a moment.
pub(crate) fn private_lock() -> (tempfile::TempDir, LockFile) {
    let private = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().permissions(private).tempdir();
    let directory = directory.unwrap();
    let path = directory.path().join("lock");
    (directory, LockFile::find(Some(path), None).unwrap())
}

fn span() -> Span {
    Span::of(&Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap())
}

fn whole(side: Side) -> ClaimSpec {
    ClaimSpec {
        side,
        level: Level::Outer,
        units: Units::whole(),
    }
}

fn part(side: Side, level: Level, number: i64, of: i64) -> ClaimSpec {
    let size = getgpu_model::UNITS / of;
    let units = Units::whole().first(size * (number + 1)).unwrap();
    let before = Units::whole()
        .first(size * number)
        .filter(|_| number > 0)
        .unwrap_or_default();
    ClaimSpec {
        side,
        level,
        units: units.difference(&before),
    }
}

fn attempt(lock_file: &LockFile, spec: &ClaimSpec) -> Option<Claim> {
    try_claim(lock_file, spec, span()).unwrap()
}

/// What keeps the device from being claimed.
fn in_the_way(lock_file: &LockFile, spec: &ClaimSpec) -> Option<Held> {
    let claim = Claim::begin(lock_file, span(), spec.clone()).unwrap();
    let mut steps = claim.steps(TENTATIVE_PATIENCE);
    protocol::acquire(&mut steps, spec.side, spec.level).unwrap()
}

#[track_caller]
fn got(lock_file: &LockFile, spec: &ClaimSpec) -> Claim {
    attempt(lock_file, spec).expect("another has it")
}

/// The same for what was dropped just now: a child that another test has forked has the lock
/// for a moment longer.
#[track_caller]
fn got_again(lock_file: &LockFile, spec: &ClaimSpec) -> Claim {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if let Some(claim) = attempt(lock_file, spec) {
            return claim;
        }
    }
    got(lock_file, spec)
}

/// Fails unless another has it for good.
#[track_caller]
fn taken(lock_file: &LockFile, spec: &ClaimSpec) {
    assert_eq!(in_the_way(lock_file, spec), Some(Held::Confirmed));
    assert!(attempt(lock_file, spec).is_none());
}

#[test]
fn a_lease_waits_out_a_reservation_that_is_only_tried() {
    let (_directory, lock_file) = private_lock();
    let is_waited_out = || {
        let description = lock_file.open().unwrap();
        assert!(description.try_write(span().reservation()).unwrap());
        let probe = lock_file.open().unwrap();
        let closer = std::thread::spawn(move || {
            // The claim write-locks its units before it looks at the reservation.
            while probe.conflict(span().lease()).unwrap().is_none() {
                std::thread::yield_now();
            }
            drop(description);
        });
        let claim = try_claim(&lock_file, &whole(Side::Lease), span()).unwrap();
        closer.join().unwrap();
        claim.is_some()
    };
    // On a busy machine the other thread may get no processor for as long as a claim waits.
    assert!((0..50).any(|_| is_waited_out()));
}

#[test]
fn shares_of_both_sides_fill_a_device_and_exclude_the_whole() {
    let (_directory, lock_file) = private_lock();
    let third = |side, number| part(side, Level::Outer, number, 3);
    let held = [(Side::Lease, 0), (Side::Reservation, 1), (Side::Lease, 2)]
        .map(|(side, number)| got(&lock_file, &third(side, number)));
    for side in [Side::Lease, Side::Reservation] {
        let held = in_the_way(&lock_file, &whole(side));
        assert_eq!(held, Some(Held::Tentative), "{side:?}");
    }
    held.iter().for_each(|claim| claim.confirm().unwrap());
    for number in 0..3 {
        taken(&lock_file, &third(Side::Lease, number));
        taken(&lock_file, &third(Side::Reservation, number));
    }
    taken(&lock_file, &whole(Side::Lease));
    taken(&lock_file, &whole(Side::Reservation));
    let lock = lock_file.open().unwrap();
    let seen = crate::Occupancy::read(&lock, Level::Outer, span()).unwrap();
    assert!(seen.confirmed.is_whole() && seen.tentative.is_empty());
    drop(held);
    got_again(&lock_file, &whole(Side::Lease));
}

#[test]
fn inside_what_is_ours_the_inner_ranges_decide() {
    let (_directory, lock_file) = private_lock();
    let ours = got(&lock_file, &whole(Side::Reservation));
    ours.confirm().unwrap();
    let inner = Level::Inner { reserved: true };
    let spec = |side| ClaimSpec {
        side,
        level: inner,
        units: Units::whole(),
    };
    let lease = got(&lock_file, &spec(Side::Lease));
    lease.confirm().unwrap();
    taken(&lock_file, &spec(Side::Lease));
    taken(&lock_file, &spec(Side::Reservation));
    let named = || named_lease(&lock_file, span(), Units::whole()).unwrap();
    assert!(named().is_none(), "the outer lease is taken too");
    drop(lease);
    let named = named().unwrap();
    named.confirm().unwrap();
    for side in [Side::Lease, Side::Reservation] {
        taken(&lock_file, &spec(side));
    }
    drop(named);
    let reservation = got(&lock_file, &spec(Side::Reservation));
    reservation.confirm().unwrap();
    drop(ours);
    // It holds the outer one too.
    taken(&lock_file, &whole(Side::Lease));
}

/// A lease outlives the program around it, from whose lease it was taken: the units must not be
/// free for others then.
#[test]
fn a_lease_inside_a_lease_outlasts_it() {
    let (_directory, lock_file) = private_lock();
    let around = got(&lock_file, &whole(Side::Lease));
    around.confirm().unwrap();
    let inside = ClaimSpec {
        level: Level::Inner { reserved: false },
        ..whole(Side::Lease)
    };
    let inside = got(&lock_file, &inside);
    inside.confirm().unwrap();
    drop(around);
    taken(&lock_file, &whole(Side::Lease));
    drop(inside);
    got_again(&lock_file, &whole(Side::Lease));
}

/// Who waited for what is only tried would wait in vain, and be told the wrong reason.
#[test]
fn what_is_partly_held_for_good_is_not_waited_for() {
    let (_directory, lock_file) = private_lock();
    let other = lock_file.open().unwrap();
    let units = |number| part(Side::Lease, Level::Outer, number, 4).units;
    let region = span().lease();
    for range in units(0).at(region) {
        assert!(other.try_write(range).unwrap());
    }
    for range in units(2).at(region) {
        assert!(other.try_read(range).unwrap());
    }
    let probe = lock_file.open().unwrap();
    let wanted = units(0).union(&units(2));
    assert_eq!(
        across(&probe, &units(0), region).unwrap(),
        Some(Held::Tentative)
    );
    assert_eq!(
        across(&probe, &wanted, region).unwrap(),
        Some(Held::Confirmed)
    );
}

/// What was in the way may be gone when it is looked at: then it was only tried.
#[test]
fn a_claim_that_ended_just_now_was_only_tried() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (_directory, lock_file) = private_lock();
    let begin = || Claim::begin(&lock_file, span(), whole(Side::Lease)).unwrap();
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let other = lock_file.open().unwrap();
                let _ = other.try_write(span().lease());
            }
        });
        let (began, mut attempt, mut seen) = (Instant::now(), begin(), Vec::new());
        while seen.len() < 1000 && began.elapsed() < Duration::from_secs(10) {
            match attempt.steps(TENTATIVE_PATIENCE).write(Region::Own) {
                Ok(None) => attempt = begin(),
                held => seen.push(held),
            }
        }
        over.store(true, Ordering::Relaxed);
        seen
    });
    for held in seen {
        assert_eq!(held.unwrap(), Some(Held::Tentative));
    }
}
