//! Where we are: the host's own pid and user namespace, or a container's, and how our uid
//! is called on the host. The initial namespaces have fixed inode numbers
//! (include/linux/proc_ns.h).

use std::os::unix::fs::MetadataExt;

/// PROC_PID_INIT_INO
const HOST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// PROC_USER_INIT_INO
const HOST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Whether process ids here are those of the host.
pub fn host_pids() -> bool {
    std::fs::metadata("/proc/self/ns/pid").map_or(true, |m| m.ino() == HOST_PID_NAMESPACE)
}

/// The number of this process's pid namespace; 0 where it cannot be read.
pub fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

/// Whether this is a container, as far as can be told: by its pid namespace, or by the files
/// that Docker and Podman make in one.
pub fn in_container() -> bool {
    let marks = ["/.dockerenv", "/run/.containerenv"];
    !host_pids() || marks.iter().any(|mark| std::path::Path::new(mark).exists())
}

/// Whether uids here are those of the host.
pub fn host_users() -> bool {
    std::fs::metadata("/proc/self/ns/user").map_or(true, |m| m.ino() == HOST_USER_NAMESPACE)
}

/// How `uid` is called in the parent user namespace, which for containers is the host's.
pub fn host_uid(uid: u32) -> u32 {
    if host_users() {
        return uid;
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    translate(&map, uid).unwrap_or(uid)
}

/// Whether we are the host's root, and not one of a user namespace that any user can
/// make.
pub fn is_host_root() -> bool {
    host_uid(nix::unistd::geteuid().as_raw()) == 0
}

/// Whether the host's root has a name in this user namespace.
pub(crate) fn host_root_mapped() -> bool {
    host_users()
        || std::fs::read_to_string("/proc/self/uid_map")
            .is_ok_and(|map| rows(&map).any(|(_, outside, n)| outside == 0 && n > 0))
}

/// The uid that stands for all users who are not mapped here.
pub(crate) fn overflow_uid() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    text.trim().parse().unwrap_or(65534)
}

fn rows(map: &str) -> impl Iterator<Item = (u64, u64, u64)> {
    map.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().map(|f| f.parse().ok());
        Some((fields.next()??, fields.next()??, fields.next()??))
    })
}

pub(super) fn translate(map: &str, uid: u32) -> Option<u32> {
    let uid = u64::from(uid);
    let (inside, outside, _) =
        rows(map).find(|(inside, _, n)| uid.checked_sub(*inside).is_some_and(|at| at < *n))?;
    u32::try_from(outside.checked_add(uid - inside)?).ok()
}
