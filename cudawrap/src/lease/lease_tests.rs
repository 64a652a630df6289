//! What is written down of a lease: by the descriptors that made the claims, or inside an
//! ancestor's.

use std::os::unix::fs::PermissionsExt;

use getgpu_lock::{Claim, ClaimSpec, Level, LockFile, claim::try_claim, holders, occupancy};

use getgpu_model::Device;

use super::*;

const DEVICE: &str = "MIG-0d1e2f30-1111-5222-8333-444455556666";

/// A lock of this test's own, which is gone with its directory.
fn private_lock() -> (tempfile::TempDir, LockFile) {
    let private = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().permissions(private).tempdir();
    let directory = directory.unwrap();
    let path = directory.path().join("lock");
    let lock_file = LockFile::find(Some(path), None).unwrap();
    (directory, lock_file)
}

fn confirmed(lock_file: &LockFile, span: Span) -> Claim {
    let spec = ClaimSpec {
        side: Side::Lease,
        level: Level::Outer,
        units: Units::whole(),
    };
    let claim = try_claim(lock_file, &spec, span).unwrap().unwrap();
    claim.confirm().unwrap();
    claim
}

fn part(got: Got) -> Part {
    let device = Device::by_uuid(Uuid::parse(DEVICE).unwrap());
    Part { device, got }
}

/// A lease that no user has signed counts as nothing against the limit of one, and is listed as
/// an unknown user's.
#[test]
fn a_lease_is_signed_where_no_descriptor_is_left() {
    let (_directory, lock_file) = private_lock();
    let span = Span::of(&Uuid::parse(DEVICE).unwrap());
    let claim = confirmed(&lock_file, span);
    let signature = Signature {
        uid: 1234,
        pid: None,
    };
    let held = signature.inherit(vec![part(Got::Claimed(claim))]);
    let probe = lock_file.open().unwrap();
    let uids = holders::uids(&probe, span, Side::Lease).unwrap();
    assert!(uids.into_iter().eq([1234]));
    assert_eq!(held.len(), 1);
}

/// It may outlast the ancestor's, and counts then as before.
#[test]
fn a_lease_inside_that_of_an_ancestor_is_held_and_signed() {
    let (_directory, lock_file) = private_lock();
    let span = Span::of(&Uuid::parse(DEVICE).unwrap());
    let ancestors = confirmed(&lock_file, span);
    let signature = Signature {
        uid: 1234,
        pid: Some(77),
    };
    let description = lock_file.open().unwrap();
    let joined = [part(Got::Joined(Units::whole()))];
    signature.hold(&description, &joined).unwrap();
    let probe = lock_file.open().unwrap();
    let signed = || {
        let uids = holders::uids(&probe, span, Side::Lease).unwrap();
        let pids = holders::process_ids(&probe, span, Side::Lease).unwrap();
        (
            uids.into_iter().collect::<Vec<_>>(),
            pids.into_iter().collect::<Vec<_>>(),
        )
    };
    assert_eq!(signed(), (vec![1234], vec![77]));
    drop(ancestors);
    let held = occupancy::seen(&probe, span).unwrap();
    assert!(held.is_some(), "the ancestor's has ended");
}
