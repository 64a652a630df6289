//! What is at the places of a path, in plain data: the only place that asks the file system about them.
//! What it means is decided by `state`, which never looks itself.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::directory::Directory;
use crate::identity::{Id, id};
use crate::names::{Names, PREFIX, Place, WRAPPER};
use crate::wrapper;

/// Where a link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To a program called cudawrap.
    Cudawrap,
    /// To a cudawrap that is not there, or cannot be run any more.
    Vanished,
    /// To the wrapper of migtools.
    Migtools,
    /// To another file.
    Program,
    /// Nowhere, or to something that is no file.
    Elsewhere,
}

/// What sort of thing has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing has it.
    Absent,
    /// A regular file.
    File,
    /// A symbolic link.
    Link(Leads),
    /// A directory.
    Directory,
    /// A device, socket, pipe.
    Special,
}

/// One name in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Which file it is; none when absent.
    pub id: Option<Id>,
    /// Whether it can be executed by somebody (for a link: what it leads to).
    pub runs: bool,
    /// The text of a link.
    pub text: Option<OsString>,
    /// The permission bits, with setuid and setgid (for a link: of what it leads to).
    pub mode: u32,
    /// Whether the file has other names too.
    pub linked: bool,
}

impl Entry {
    /// The entry of a name that nothing has.
    pub const ABSENT: Self = Self { kind: Kind::Absent, id: None, runs: false, text: None, mode: 0, linked: false };

    /// Whether it is a link of ours, be the cudawrap behind it there or not.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Link(Leads::Cudawrap | Leads::Vanished))
    }

    /// Whether a program can be behind it.
    pub fn is_program(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Link(Leads::Program))
    }
}

/// What the places of a path hold, and where else its program could be.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The path itself.
    pub app: Entry,
    /// `CUDAWRAP_app`.
    pub hidden: Entry,
    /// `.CUDAWRAP_app~`.
    pub tmp: Entry,
    /// `MIGTOOLS_app`.
    pub former: Entry,
    /// The link further down the chain that is the wrapped one, when this one only leads to it.
    pub through: Option<PathBuf>,
    /// The program that cudawrap finds by PATH when none is beside the link.
    pub behind: Option<PathBuf>,
}

impl Seen {
    /// The entry at `place`.
    pub fn at(&self, place: Place) -> &Entry {
        match place {
            Place::App => &self.app,
            Place::Hidden => &self.hidden,
            Place::Tmp => &self.tmp,
            Place::Former => &self.former,
        }
    }
}

/// Looks at all places; `own` is our cudawrap where it is known.
pub fn look(dir: &Directory, names: &Names, own: Option<Id>) -> io::Result<Seen> {
    let app = entry(dir, names.at(Place::App), own)?;
    let hidden = entry(dir, names.at(Place::Hidden), own)?;
    let tmp = entry(dir, names.at(Place::Tmp), own)?;
    let former = entry(dir, names.at(Place::Former), own)?;
    let alone = app.is_ours() && hidden.kind == Kind::Absent;
    let through = if alone { wrapped_hop(&dir.path().join(names.at(Place::App))) } else { None };
    let behind = if alone { wrapper::behind(dir.path(), names.at(Place::App)) } else { None };
    Ok(Seen { app, hidden, tmp, former, through, behind })
}

/// Looks at one name.
pub fn entry(dir: &Directory, name: &OsStr, own: Option<Id>) -> io::Result<Entry> {
    let stat = match dir.stat(name, false) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entry::ABSENT),
        Err(error) => return Err(error),
    };
    let mut seen = Entry {
        kind: Kind::Special,
        id: Some(id(&stat)),
        runs: stat.st_mode & 0o111 != 0,
        text: None,
        mode: stat.st_mode & 0o7777,
        linked: stat.st_nlink > 1,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => seen.kind = Kind::File,
        FileType::Directory => seen.kind = Kind::Directory,
        FileType::Symlink => {
            let text = dir.readlink(name)?;
            let behind = dir.stat(name, true);
            seen.runs = behind.as_ref().is_ok_and(runs);
            seen.mode = behind.as_ref().map_or(0, |s| s.st_mode & 0o7777);
            seen.kind = Kind::Link(leads(&dir.path().join(name), &text, behind, own));
            seen.text = Some(text);
        }
        _ => {}
    }
    Ok(seen)
}

fn runs(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o111 != 0
}

/// A cudawrap is known by the name in the link, by the name at the end of the chain, or by being our own.
fn leads(path: &Path, text: &OsStr, behind: io::Result<rustix::fs::Stat>, own: Option<Id>) -> Leads {
    let last = Path::new(text).file_name().unwrap_or(text);
    let stat = match behind {
        Ok(stat) => stat,
        Err(_) if is_migtools(last) => return Leads::Migtools,
        Err(_) if last != WRAPPER => return Leads::Elsewhere,
        // In the way of looking (no permission, a stale mount) is not gone: such a link is left as it is.
        Err(error) if is_gone(&error) => return Leads::Vanished,
        Err(_) => return Leads::Cudawrap,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Leads::Elsewhere;
    }
    let end = std::fs::canonicalize(path).ok().and_then(|end| end.file_name().map(OsStr::to_owned));
    let end = end.as_deref().unwrap_or(last);
    if last == WRAPPER || end == WRAPPER || own == Some(id(&stat)) {
        return if runs(&stat) { Leads::Cudawrap } else { Leads::Vanished };
    }
    if is_migtools(last) || is_migtools(end) { Leads::Migtools } else { Leads::Program }
}

fn is_migtools(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"migtools_")
}

fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// The first link behind `path` in its chain with its program beside it (python3 -> python3.11 -> cudawrap).
fn wrapped_hop(path: &Path) -> Option<PathBuf> {
    let mut hop = path.to_owned();
    for _ in 0..40 {
        let text = std::fs::read_link(&hop).ok()?;
        hop = hop.parent()?.join(text);
        let mut hidden = OsString::from(PREFIX);
        hidden.push(hop.file_name()?);
        if hop.symlink_metadata().ok()?.is_symlink() && hop.with_file_name(hidden).symlink_metadata().is_ok() {
            return Some(hop);
        }
    }
    None
}
