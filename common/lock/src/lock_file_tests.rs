//! What is refused in the place of the lock. Two locks would hand a device out twice.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::unistd::mkfifo;

use super::*;
use crate::claim::tests::private_lock;

#[track_caller]
fn refuses<T>(result: Result<T, Failure>, why: &str) {
    let failure = result.err().expect("it is accepted");
    assert!(failure.message.contains(why), "{failure}");
}

#[test]
fn a_link_is_refused_also_if_it_leads_to_a_lock() {
    let (directory, lock_file) = private_lock();
    let link = directory.path().join("link");
    symlink(&lock_file.path, &link).unwrap();
    refuses(LockFile::find(Some(link), None), "cannot be opened");
}

#[test]
fn another_file_in_its_place_is_refused() {
    let (directory, lock_file) = private_lock();
    lock_file.open().unwrap();
    let other = directory.path().join("other");
    mkfifo(&other, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    std::fs::rename(&other, &lock_file.path).unwrap();
    refuses(lock_file.open(), "it was replaced while in use");
    refuses(lock_file.open_read_only(), "it was replaced while in use");
    // The next call begins with the new one.
    LockFile::find(Some(lock_file.path), None).unwrap();
}

/// The owner and the mode of one directory say nothing of a file that was opened in another one.
#[test]
fn a_directory_that_is_replaced_meanwhile_is_refused() {
    let (above, _lock_file) = private_lock();
    let places = ["one", "two"].map(|name| above.path().join(name));
    for place in &places {
        std::fs::create_dir(place).unwrap();
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
        mkfifo(&place.join("lock"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    }
    let [one, two] = &places;
    let over = AtomicBool::new(false);
    let refusal = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat2(AT_FDCWD, one, AT_FDCWD, two, RenameFlags::RENAME_EXCHANGE).unwrap();
            }
        });
        let began = Instant::now();
        let mut refusal = None;
        while refusal.is_none() && began.elapsed() < Duration::from_secs(20) {
            refusal = LockFile::find(Some(one.join("lock")), None).err();
        }
        over.store(true, Ordering::Relaxed);
        refusal
    });
    let why = "its directory was replaced while it was opened";
    refuses(refusal.map_or(Ok(()), Err), why);
}

/// A private lock beside that of the host would not exclude other users.
#[test]
fn a_place_that_cannot_be_looked_at_is_not_missing() {
    assert!(exists(Path::new("/proc/self")).unwrap());
    assert!(!exists(Path::new("/proc/self/missing")).unwrap());
    refuses(
        exists(Path::new("/proc/self/status/getgpu")),
        "Not a directory",
    );
}
