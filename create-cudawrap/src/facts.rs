//! What the system knows about a program that is about to be wrapped, gathered for
//! `refuse` to decide on. Each question is asked only here, and an answer that cannot be
//! had is none.

use getgpu_common::error::{Failure, Kind, reason};

use crate::directory::Directory;
use crate::filesystem::network;
use crate::identity::Id;
use crate::inspect::Entry;
use crate::names::OWN;
use crate::package::Owner;
use crate::target::Target;
use crate::wrapper::{Wrapper, identity};
use crate::{acl, apparmor, names};

/// Who may change names in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Whether root asks.
    pub root: bool,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    /// Whether an access control list lets others than these write.
    pub listed: bool,
}

/// What matters for wrapping a program that is not wrapped.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Which of our own programs it is.
    pub own: Option<String>,
    /// The package it belongs to.
    pub owner: Option<Owner>,
    /// Whether dpkg diverts it to `CUDAWRAP_name` already, or is about to.
    pub diverted: bool,
    /// The AppArmor profile attached to its path.
    pub apparmor: Option<String>,
    /// The network file system it is on, when cudawrap is on another one.
    pub network: Option<&'static str>,
}

/// Who may change names in `dir`.
pub fn keeper(dir: &Directory) -> Result<Keeper, Failure> {
    let stat = rustix::fs::fstat(dir.file()).map_err(|e| {
        Failure::new(
            Kind::Refused,
            format!("its directory: {}", reason(&e.into())),
        )
    })?;
    let root = nix::unistd::geteuid().is_root();
    Ok(Keeper {
        root,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mode: stat.st_mode & 0o7777,
        listed: acl::lets_others_write(dir),
    })
}

/// Gathers the rest, apart from what package managers say.
pub fn facts(target: &Target, dir: &Directory, wrapper: &Wrapper) -> Facts {
    Facts {
        own: own(target, wrapper),
        diverted: false,
        owner: None,
        apparmor: apparmor::profile(&target.path()),
        network: other_file_system(dir, wrapper.id),
    }
}

/// Which of our programs the target is or leads to, by name or by being the same file.
pub fn own(target: &Target, wrapper: &Wrapper) -> Option<String> {
    let path = target.path();
    let end = std::fs::canonicalize(&path)
        .ok()
        .and_then(|end| end.file_name().map(ToOwned::to_owned));
    let named = [Some(target.name.clone()), end]
        .into_iter()
        .flatten()
        .find(|name| names::is_own(name));
    if let Some(name) = named {
        return Some(name.to_string_lossy().into_owned());
    }
    let id = identity(&path)?;
    if id == wrapper.id {
        return Some(names::WRAPPER.to_owned());
    }
    let exe = std::env::current_exe().ok()?;
    let beside = OWN
        .iter()
        .find(|name| identity(&exe.with_file_name(name)) == Some(id));
    if identity(&exe) == Some(id) {
        Some("create-cudawrap".to_owned())
    } else {
        beside.map(|name| (*name).to_owned())
    }
}

/// What the user should know although it is wrapped.
pub fn warnings(target: &Target, entry: &Entry) -> Vec<&'static str> {
    let mut all = Vec::new();
    if entry.kind == crate::inspect::Kind::File && entry.linked {
        all.push("the file has other names (hard links); started by one of those, it runs without cudawrap");
    }
    if entry.mode & 0o6000 != 0 {
        all.push("is setuid or setgid: the CUDA library may ignore CUDA_VISIBLE_DEVICES in such a program");
    } else if has_capabilities(target) {
        all.push("has file capabilities: the CUDA library may ignore CUDA_VISIBLE_DEVICES in such a program");
    }
    all
}

fn has_capabilities(target: &Target) -> bool {
    let mut value = [0u8; 64];
    rustix::fs::getxattr(target.path(), "security.capability", &mut value).is_ok()
}

fn other_file_system(dir: &Directory, wrapper: Id) -> Option<&'static str> {
    let magic = dir.filesystem().ok()?.f_type as u64;
    let here = rustix::fs::fstat(dir.file()).ok()?;
    network(magic).filter(|_| here.st_dev != wrapper.dev)
}
