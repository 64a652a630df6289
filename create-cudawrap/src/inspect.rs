//! What is at the places of a path, in plain data: the only module that asks the file
//! system about them. What it means is decided by `state`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use getgpu_linux::regular_file::Links;
use getgpu_linux::{Identity, beside, chain};
use nix::sys::stat::{FileStat, SFlag};

use crate::directory::{Directory, id};
use crate::executable::{Form, form};
use crate::names::{Names, Place, WRAPPER};
use crate::wrapper;

/// Where a link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To a program called cudawrap.
    Cudawrap,
    /// To a cudawrap that does not exist, or that must not be run as it is.
    Vanished,
    /// To the wrapper of migtools.
    Migtools,
    /// To another file, perhaps by way of cudawrap: then through another link.
    Program,
    /// To nothing, or to something that is no file.
    Elsewhere,
}

/// What sort of thing has the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing has it.
    #[default]
    Absent,
    File,
    Link(Leads),
    Directory,
    /// A device, socket, pipe.
    Special,
}

/// One name in the directory, by default one that nothing has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameEntry {
    pub kind: EntryKind,
    /// Which file it is; none when absent.
    pub id: Option<Identity>,
    /// Which file it leads to: itself, if it is no link.
    pub leads_to: Option<Identity>,
    /// For a link that leads to cudawrap through another link, a wrapped path or one in a directory
    /// of links: that link.
    pub through: Option<PathBuf>,
    /// Whether any user can execute it (for a link: what it leads to).
    pub runs: bool,
    /// The text of a link.
    pub text: Option<OsString>,
}

impl NameEntry {
    /// Whether it is a link to cudawrap, whatever state that cudawrap is in.
    pub fn is_ours(&self) -> bool {
        matches!(
            self.kind,
            EntryKind::Link(Leads::Cudawrap | Leads::Vanished)
        )
    }

    /// How it is opened: a file that is exchanged for a link has changed.
    pub fn links(&self) -> Links {
        if self.kind == EntryKind::File {
            Links::Refuse
        } else {
            Links::Follow
        }
    }

    /// Whether a program can be behind it.
    pub fn is_program(&self) -> bool {
        matches!(self.kind, EntryKind::File | EntryKind::Link(Leads::Program))
    }
}

/// What the places of a path hold, and where else its program could be.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    pub app: NameEntry,
    /// `CUDAWRAP_app`.
    pub hidden: NameEntry,
    /// `.CUDAWRAP_app~`.
    pub tmp: NameEntry,
    /// `MIGTOOLS_app`.
    pub former: NameEntry,
    /// What the file at the path is; none where it is no file.
    pub form: Option<Form>,
    /// Whether the path runs a program by what is beside links, whatever PATH may have.
    pub resolves: bool,
    /// Whether `CUDAWRAP_app` lies on the way to that program.
    pub reaches_hidden: bool,
    /// Whether one of the other names leads through `.CUDAWRAP_app~`.
    pub tmp_in_use: bool,
    /// What is wrong with the cudawrap that the path leads to.
    pub wrapper_fault: Option<String>,
    /// The program that cudawrap finds by PATH when none is beside the link.
    pub behind: Option<PathBuf>,
    /// The name that an older program would get.
    pub replaced: OsString,
}

/// Looks at all places; `own` is our cudawrap where it is known.
pub fn snapshot(dir: &Directory, names: &Names, own: Option<Identity>) -> io::Result<PathSnapshot> {
    let app = entry(dir, names.at(Place::App), own)?;
    let hidden = entry(dir, names.at(Place::Hidden), own)?;
    let path = dir.path.join(names.at(Place::App));
    let here = id(&dir.own_stat()?);
    let found = wrapper::beside_links(&path, own);
    let passes = |place| {
        let found = found.as_ref();
        found.is_some_and(|found| found.passes(here, names.at(place)))
    };
    let passes_tmp = |place| {
        let hops = chain(&dir.path.join(names.at(place))).hops;
        hops.iter().any(|hop| hop.ends_with(names.at(Place::Tmp)))
    };
    let file = app.is_program() && app.through.is_none();
    let alone = app.is_ours() && hidden.kind == EntryKind::Absent;
    Ok(PathSnapshot {
        tmp: entry(dir, names.at(Place::Tmp), own)?,
        former: entry(dir, names.at(Place::Former), own)?,
        form: file.then(|| form(&path, app.links())).transpose()?,
        resolves: found.is_some(),
        reaches_hidden: passes(Place::Hidden),
        tmp_in_use: passes(Place::Tmp) || passes_tmp(Place::App) || passes_tmp(Place::Hidden),
        wrapper_fault: app.is_ours().then(|| wrapper::fault(&path)).flatten(),
        behind: alone.then(|| wrapper::in_path(&path, own)).flatten(),
        replaced: replaced(dir, names, hidden.id),
        app,
        hidden,
    })
}

/// The first `CUDAWRAP_app.replaced-N` that is free, or that an interrupted run has given to the
/// program already. A name that cannot be looked at counts as free: link(2) replaces nothing, and
/// the step that would use the name fails.
fn replaced(dir: &Directory, names: &Names, program: Option<Identity>) -> OsString {
    let mut number = 1;
    loop {
        let name = names.replaced(number);
        match dir.stat(&name) {
            Ok(stat) if program != Some(id(&stat)) => number += 1,
            _ => return name,
        }
    }
}

/// Looks at one name.
pub fn entry(dir: &Directory, name: &OsStr, own: Option<Identity>) -> io::Result<NameEntry> {
    let stat = match dir.stat(name) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NameEntry::default()),
        Err(error) => return Err(error),
    };
    let mut seen = NameEntry {
        kind: EntryKind::Special,
        id: Some(id(&stat)),
        leads_to: Some(id(&stat)),
        runs: stat.st_mode & 0o111 != 0,
        ..NameEntry::default()
    };
    match file_type(&stat) {
        SFlag::S_IFREG => seen.kind = EntryKind::File,
        SFlag::S_IFDIR => seen.kind = EntryKind::Directory,
        SFlag::S_IFLNK => {
            let text = dir.readlink(name)?;
            let behind = dir.stat_behind(name);
            let path = dir.path.join(name);
            seen.runs = behind.as_ref().is_ok_and(runs);
            seen.leads_to = behind.as_ref().ok().map(id);
            seen.through = through(&path, own);
            seen.kind = EntryKind::Link(leads(&path, &text, behind, own));
            if seen.through.is_some() {
                seen.kind = EntryKind::Link(Leads::Program);
                seen.runs &= wrapper::program_of(&path, own).is_some();
            }
            seen.text = Some(text);
        }
        _ => {}
    }
    Ok(seen)
}

/// The bits of the mode that say what it is (inode(7)).
fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

fn runs(stat: &FileStat) -> bool {
    file_type(stat) == SFlag::S_IFREG && stat.st_mode & 0o111 != 0
}

/// A link to cudawrap is known by the name in it, by the name at the end of the chain, or
/// by leading to our own: what has become of the file itself is another question.
fn leads(path: &Path, text: &OsStr, behind: io::Result<FileStat>, own: Option<Identity>) -> Leads {
    let last = Path::new(text).file_name().unwrap_or(text);
    let stat = match behind {
        Ok(stat) => stat,
        Err(_) if is_migtools(last) => return Leads::Migtools,
        Err(_) if last != WRAPPER => return Leads::Elsewhere,
        // A cudawrap that cannot be looked at (no permission, a stale mount) still exists.
        Err(error) if is_gone(&error) => return Leads::Vanished,
        Err(_) => return Leads::Cudawrap,
    };
    if file_type(&stat) != SFlag::S_IFREG {
        return Leads::Elsewhere;
    }
    let end = std::fs::canonicalize(path).unwrap_or_default();
    let end = end.file_name().unwrap_or(last);
    if last == WRAPPER || end == WRAPPER || own == Some(id(&stat)) {
        if runs(&stat) {
            Leads::Cudawrap
        } else {
            Leads::Vanished
        }
    } else if is_migtools(last) || is_migtools(end) {
        Leads::Migtools
    } else {
        Leads::Program
    }
}

fn is_migtools(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"migtools_")
}

fn is_gone(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP))
}

/// The link behind `path` in its chain that makes it lead to cudawrap, for one that is
/// not itself a link to cudawrap: the last one with a program beside it (python3 ->
/// python3.11 -> cudawrap), or where none has one, beside `path` neither, the next.
fn through(path: &Path, own: Option<Identity>) -> Option<PathBuf> {
    let hops = chain(path).hops;
    let links = hops
        .get(1..hops.len().saturating_sub(1))
        .unwrap_or_default();
    if links.is_empty() || !wrapper::is_wrapper(path, own) {
        return None;
    }
    let has_program =
        |hop: &PathBuf| beside(hop).is_some_and(|program| program.symlink_metadata().is_ok());
    let other_name = |hop: &&PathBuf| !hop.ends_with(WRAPPER);
    links
        .iter()
        .rev()
        .find(|hop| has_program(hop))
        .or_else(|| {
            links
                .first()
                .filter(other_name)
                .filter(|_| !has_program(&path.to_owned()))
        })
        .cloned()
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
pub(crate) mod tests;
