//! What is written down of a lease whose descriptors are those that made the claims.

use std::os::unix::fs::PermissionsExt;

use getgpu_lock::{ClaimSpec, Level, LockFile, claim::try_claim, holders};

use super::*;

/// A lease that no user has signed counts as nothing against the limit of one, and is listed as
/// an unknown user's.
#[test]
fn a_lease_is_signed_where_no_descriptor_is_left() {
    let private = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().permissions(private).tempdir();
    let directory = directory.unwrap();
    let path = directory.path().join("lock");
    let lock_file = LockFile::find(Some(path), None).unwrap();
    let span = Span::of(&Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap());
    let spec = ClaimSpec {
        side: Side::Lease,
        level: Level::Outer,
        units: Units::whole(),
    };
    let claim = try_claim(&lock_file, &spec, span).unwrap().unwrap();
    claim.confirm().unwrap();
    let signature = Signature {
        uid: 1234,
        pid: None,
    };
    let held = signature.inherit(vec![claim]);
    let probe = lock_file.open().unwrap();
    let uids = holders::uids(&probe, span, Side::Lease).unwrap();
    assert!(uids.into_iter().eq([1234]));
    assert_eq!(held.len(), 1);
}
