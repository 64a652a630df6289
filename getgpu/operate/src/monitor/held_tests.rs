//! What is held from one look to the next, on a lock of its own.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use getgpu_linux::procfs::namespaces;
use getgpu_lock::{Level, claim::sign};

use super::*;

/// The process of a lease may be older: it has waited, or takes it at its first CUDA call.
#[test]
fn a_lease_that_is_seen_to_begin_counts_from_then() {
    let private = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().permissions(private).tempdir();
    let directory = directory.unwrap();
    let path = directory.path().join("lock");
    let lock_file = LockFile::find(Some(path), None).unwrap();
    let device = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
    let (span, pid) = (Span::of(&device), std::process::id() as i32);
    let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
    for has_looked in [false, true] {
        let mut held = HeldDevices::default();
        if has_looked {
            assert!(
                held.update(&lock_file, std::slice::from_ref(&device))
                    .unwrap()
                    .is_empty()
            );
        }
        let before = sys::boot_time();
        let lease = lock_file.open().unwrap();
        assert!(
            lease
                .try_read(span.of_side(Side::Lease, Level::Outer))
                .unwrap()
        );
        sign(&lease, Side::Lease, span, uid, Some(pid));
        assert!(
            held.update(&lock_file, std::slice::from_ref(&device))
                .unwrap()
                .is_empty()
        );
        let began = held.iter_mut().next().unwrap().began;
        assert_eq!(began >= before, has_looked);
        drop(lease);
        // A child that another test has forked has the lease for a moment longer.
        let until = Instant::now() + Duration::from_secs(10);
        let ended = || held.update(&lock_file, &[]).unwrap();
        let mut looks = std::iter::repeat_with(ended).take_while(|_| Instant::now() < until);
        assert_eq!(looks.find(|ended| !ended.is_empty()).unwrap().len(), 1);
    }
}
