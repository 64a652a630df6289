use super::*;
use crate::ident::Uuid;
use crate::lock::Origin;
use std::os::unix::fs::MetadataExt;

fn place(dir: &tempfile::TempDir) -> Place {
    let path = dir.path().join("lock");
    Place::find(Some(path), None).unwrap()
}

fn span() -> Span {
    Span::of(&Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap())
}

fn got(attempt: Attempt) -> Claim {
    match attempt {
        Attempt::Got(claim) => claim,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_is_made_once_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (place(&dir), place(&dir));
    assert_eq!(a.identity, b.identity);
    assert_eq!(a.origin, Origin::Environment);
    let meta = std::fs::symlink_metadata(&a.path).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o666, "whatever the umask");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_lease_and_a_reservation_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(&dir);
    let lease = got(attempt(&place, Side::Lease, span()).unwrap());
    assert!(matches!(attempt(&place, Side::Lease, span()).unwrap(), Attempt::Tried));
    assert!(matches!(attempt(&place, Side::Reservation, span()).unwrap(), Attempt::Tried));
    let lease = lease.settle().unwrap();
    assert!(matches!(attempt(&place, Side::Lease, span()).unwrap(), Attempt::Taken));
    assert!(matches!(attempt(&place, Side::Reservation, span()).unwrap(), Attempt::Taken));
    drop(lease);
    let reservation = got(attempt(&place, Side::Reservation, span()).unwrap()).settle().unwrap();
    assert!(matches!(attempt(&place, Side::Lease, span()).unwrap(), Attempt::Taken));
    drop(reservation);
    got(attempt(&place, Side::Lease, span()).unwrap());
}

#[test]
fn a_lease_waits_out_a_reservation_that_is_only_tried() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(&dir);
    let description = place.open().unwrap();
    assert!(description.try_write(span().reservation()).unwrap());
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(description);
    });
    got(attempt(&place, Side::Lease, span()).unwrap());
    closer.join().unwrap();
}

#[test]
fn untrusted_places_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    std::fs::write(&path, "").unwrap();
    let failure = Place::find(Some(path.clone()), None).unwrap_err();
    assert!(failure.message.contains("not a FIFO"), "{failure}");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert_eq!(Place::find(Some(path.clone()), None).unwrap_err().kind, Kind::LockPlace);
    std::fs::remove_file(&path).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let failure = Place::find(Some(path), None).unwrap_err();
    assert!(failure.message.contains("others can write"), "{failure}");
}
