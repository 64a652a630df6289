//! What the system knows about a program that is about to be wrapped, gathered for
//! `checks` to decide on. Each question is asked only here, and an answer that cannot be
//! had is none.

use std::path::PathBuf;

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::resolve_program::{Identity, identity};

use crate::directory::Directory;
use crate::filesystem::network;
use crate::inspect::{EntryKind, PathSnapshot};
use crate::names::OWN;
use crate::target::Target;
use crate::wrapper::Wrapper;
use crate::{apparmor, names};

/// Who may change names in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Whether root asks.
    pub root: bool,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

/// What matters for wrapping a program that is not wrapped.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Which of our own programs it is.
    pub own: Option<String>,
    /// The package it belongs to.
    pub package: Option<String>,
    /// The AppArmor profile that names its path.
    pub apparmor: Option<PathBuf>,
    /// The network file system it is on, when cudawrap is on another one.
    pub network: Option<&'static str>,
}

/// Who may change names in `dir`.
pub fn keeper(dir: &Directory) -> Result<Keeper, Failure> {
    let stat = dir.own_stat().map_err(|error| {
        let message = format!("its directory: {}", reason(&error));
        Failure::new(Kind::Refused, message)
    })?;
    Ok(Keeper {
        root: nix::unistd::geteuid().is_root(),
        uid: stat.st_uid,
        gid: stat.st_gid,
        mode: stat.st_mode & 0o7777,
    })
}

/// Gathers the rest, apart from what package managers say.
pub fn facts(target: &Target, dir: &Directory, wrapper: &Wrapper) -> Facts {
    Facts {
        own: own(target, wrapper),
        package: None,
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
    let mut beside = OWN.iter();
    beside
        .find(|name| identity(&exe.with_file_name(name)) == Some(id))
        .map(|name| (*name).to_owned())
}

/// What the user should know although it is wrapped.
pub fn warnings(target: &Target, seen: &PathSnapshot) -> Vec<&'static str> {
    let entry = &seen.app;
    let mut all = Vec::new();
    if entry.kind == EntryKind::File && entry.linked {
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

fn other_file_system(dir: &Directory, wrapper: Identity) -> Option<&'static str> {
    let magic = dir.filesystem().ok()?.f_type as u64;
    let here = dir.own_stat().ok()?;
    network(magic).filter(|_| here.st_dev != wrapper.0)
}
