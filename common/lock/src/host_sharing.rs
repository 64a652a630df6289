//! Whether a lock is really the host's: in a container it may be one of the container's
//! own, and then devices that the host gives out are not excluded. What cannot be found
//! out counts as shared.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::statfs;

use super::LockFile;
use getgpu_linux::{
    LockOrigin,
    procfs::{ancestry, namespaces},
};

/// File systems on which a lock excludes no process outside this mount or node
/// (linux/magic.h; Lustre's llite).
const NOT_OURS_ALONE: [(u64, &str); 5] = [
    (0x794c_7630, "overlayfs"),
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x6573_5546, "FUSE"),
    (0xff53_4d42, "CIFS"),
];

/// Whether locks of `place` exclude the programs of the whole host.
pub fn with_host(lock_file: &LockFile) -> bool {
    match lock_file.origin {
        // A setting named it: what it is shared with is the site's or the user's choice.
        LockOrigin::Environment => true,
        LockOrigin::Private => false,
        LockOrigin::Host => {
            !foreign_file_system(&lock_file.path)
                && same_outside(lock_file)
                && (namespaces::host_pids() || mounted(&lock_file.path))
        }
    }
}

fn foreign_file_system(path: &Path) -> bool {
    statfs(path).is_ok_and(|fs| {
        NOT_OURS_ALONE
            .iter()
            .any(|(magic, _)| *magic == (fs.filesystem_type().0 as u64 & 0xffff_ffff))
    })
}

/// Process 1 and our ancestors, where they may be looked into and have other mounts than
/// we do, must have the same file under the path.
fn same_outside(lock_file: &LockFile) -> bool {
    let Ok(relative) = lock_file.path.strip_prefix("/") else {
        return true;
    };
    let own = mount_namespace("self");
    let ancestors = ancestry::ancestors(std::process::id() as i32, 16)
        .into_iter()
        .map(|stat| stat.pid.to_string());
    !ancestors.chain(["1".to_owned()]).any(|pid| {
        mount_namespace(&pid).is_some_and(|other| Some(other) != own)
            && match std::fs::metadata(Path::new("/proc").join(pid).join("root").join(relative)) {
                Ok(meta) => (meta.dev(), meta.ino()) != lock_file.identity,
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            }
    })
}

fn mount_namespace(pid: &str) -> Option<u64> {
    let meta = std::fs::metadata(format!("/proc/{pid}/ns/mnt")).ok()?;
    Some(meta.ino())
}

/// Whether the lock or its directory is a mount of its own, as `-v
/// /run/getgpu:/run/getgpu` makes it.
fn mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    is_mounted_in(&mounts, path)
}

/// The same by a list of mounts (proc_pid_mountinfo(5)).
fn is_mounted_in(mounts: &str, path: &Path) -> bool {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let directory = path.parent();
    points
        .into_iter()
        .any(|point| Path::new(point) == path || Some(Path::new(point)) == directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_the_lock_by_a_mount_of_its_file_or_directory() {
        let path = Path::new("/run/getgpu/lock");
        let cases = [
            ("/run/getgpu", true),
            ("/run/getgpu/lock", true),
            ("/run", false),
            ("/run/getgpu/lock/x", false),
        ];
        for (point, is_mounted) in cases {
            let mounts = format!(
                "22 1 0:21 / / rw - overlay o rw\n36 22 0:30 /getgpu {point} rw - tmpfs tmpfs rw\n"
            );
            assert_eq!(is_mounted_in(&mounts, path), is_mounted, "{point}");
        }
    }
}
