use super::*;
use crate::ident::Uuid;
use crate::lock::LockOrigin;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A directory that others cannot write to. A test beside this one, which creates a lock
/// file, has umask 0 for a moment.
pub(crate) fn private_directory() -> tempfile::TempDir {
    let private = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new()
        .permissions(private)
        .tempdir()
        .unwrap()
}

fn lock_file(dir: &tempfile::TempDir) -> LockFile {
    let path = dir.path().join("lock");
    LockFile::find(Some(path), None).unwrap()
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
    let size = crate::lock::UNITS / of;
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

fn got(attempt: Attempt) -> Claim {
    match attempt {
        Attempt::Got(claim) => claim,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_is_made_once_and_found_again() {
    let dir = private_directory();
    let (a, b) = (lock_file(&dir), lock_file(&dir));
    assert_eq!(a.identity, b.identity);
    assert_eq!(a.origin, LockOrigin::Environment);
    let meta = std::fs::symlink_metadata(&a.path).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o666, "whatever the umask");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn a_lease_and_a_reservation_exclude_each_other() {
    let dir = private_directory();
    let lock_file = lock_file(&dir);
    let lease = got(try_claim(&lock_file, &whole(Side::Lease), span()).unwrap());
    assert!(matches!(
        try_claim(&lock_file, &whole(Side::Lease), span()).unwrap(),
        Attempt::Tentative
    ));
    assert!(matches!(
        try_claim(&lock_file, &whole(Side::Reservation), span()).unwrap(),
        Attempt::Tentative
    ));
    lease.confirm().unwrap();
    assert!(matches!(
        try_claim(&lock_file, &whole(Side::Lease), span()).unwrap(),
        Attempt::Taken
    ));
    assert!(matches!(
        try_claim(&lock_file, &whole(Side::Reservation), span()).unwrap(),
        Attempt::Taken
    ));
    drop(lease);
    let reservation = got(try_claim(&lock_file, &whole(Side::Reservation), span()).unwrap());
    reservation.confirm().unwrap();
    assert!(matches!(
        try_claim(&lock_file, &whole(Side::Lease), span()).unwrap(),
        Attempt::Taken
    ));
    drop(reservation);
    got(try_claim(&lock_file, &whole(Side::Lease), span()).unwrap());
}

#[test]
fn a_lease_waits_out_a_reservation_that_is_only_tried() {
    let dir = private_directory();
    let lock_file = lock_file(&dir);
    let description = lock_file.open().unwrap();
    assert!(description.try_write(span().reservation()).unwrap());
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(description);
    });
    got(try_claim(&lock_file, &whole(Side::Lease), span()).unwrap());
    closer.join().unwrap();
}

#[test]
fn shares_of_both_sides_fill_a_device_and_exclude_the_whole() {
    let dir = private_directory();
    let lock_file = lock_file(&dir);
    let claim =
        |side, number| try_claim(&lock_file, &part(side, Level::Outer, number, 3), span()).unwrap();
    let held: Vec<Claim> = [(Side::Lease, 0), (Side::Reservation, 1), (Side::Lease, 2)]
        .map(|(side, n)| got(claim(side, n)))
        .into();
    held.iter().for_each(|claim| claim.confirm().unwrap());
    for number in 0..3 {
        assert!(
            matches!(claim(Side::Lease, number), Attempt::Taken),
            "{number}"
        );
        assert!(
            matches!(claim(Side::Reservation, number), Attempt::Taken),
            "{number}"
        );
    }
    assert!(matches!(
        try_claim(&lock_file, &whole(Side::Lease), span()).unwrap(),
        Attempt::Taken
    ));
    let taken =
        crate::lock::Occupancy::look(&lock_file.open().unwrap(), Level::Outer, span()).unwrap();
    assert!(taken.confirmed.is_whole() && taken.tentative.is_empty());
    drop(held);
    got(try_claim(&lock_file, &whole(Side::Lease), span()).unwrap());
}

#[test]
fn inside_what_is_ours_the_inner_ranges_decide() {
    let dir = private_directory();
    let lock_file = lock_file(&dir);
    let ours = got(try_claim(&lock_file, &whole(Side::Reservation), span()).unwrap());
    ours.confirm().unwrap();
    let inner = Level::Inner { reserved: true };
    let spec = |side| ClaimSpec {
        side,
        level: inner,
        units: Units::whole(),
    };
    let lease = got(try_claim(&lock_file, &spec(Side::Lease), span()).unwrap());
    lease.confirm().unwrap();
    assert!(matches!(
        try_claim(&lock_file, &spec(Side::Lease), span()).unwrap(),
        Attempt::Taken
    ));
    assert!(matches!(
        try_claim(&lock_file, &spec(Side::Reservation), span()).unwrap(),
        Attempt::Taken
    ));
    assert!(
        named_lease(&lock_file, span(), Units::whole())
            .unwrap()
            .is_none(),
        "the outer lease is taken too"
    );
    drop(lease);
    let named = named_lease(&lock_file, span(), Units::whole())
        .unwrap()
        .unwrap();
    named.confirm().unwrap();
    for side in [Side::Lease, Side::Reservation] {
        assert!(
            matches!(
                try_claim(&lock_file, &spec(side), span()).unwrap(),
                Attempt::Taken
            ),
            "a named lease is in the way"
        );
    }
    drop(named);
    let reservation = got(try_claim(&lock_file, &spec(Side::Reservation), span()).unwrap());
    reservation.confirm().unwrap();
    drop(ours);
    assert!(
        matches!(
            try_claim(&lock_file, &whole(Side::Lease), span()).unwrap(),
            Attempt::Taken
        ),
        "it holds the outer one too"
    );
}

#[test]
fn untrusted_places_are_refused() {
    let dir = private_directory();
    let path = dir.path().join("lock");
    std::fs::write(&path, "").unwrap();
    let failure = LockFile::find(Some(path.clone()), None).unwrap_err();
    assert!(failure.message.contains("not a FIFO"), "{failure}");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert_eq!(
        LockFile::find(Some(path.clone()), None).unwrap_err().kind,
        Kind::LockPlace
    );
    std::fs::remove_file(&path).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let failure = LockFile::find(Some(path), None).unwrap_err();
    assert!(failure.message.contains("others can write"), "{failure}");
}
