//! What is at the places of a path, in plain data: the only place that asks the file
//! system about them. What it means is decided by `state`, which never looks itself.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use getgpu_common::resolve_program::{beside, chain};
use rustix::fs::FileType;

use crate::directory::Directory;
use crate::identity::{Id, id};
use crate::names::{Names, Place, WRAPPER};
use crate::{package, wrapper};

/// Where a link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To a program called cudawrap.
    Cudawrap,
    /// To a cudawrap that is not there, or cannot be run any more.
    Vanished,
    /// To another link, which leads to cudawrap: to a wrapped path, or into a directory
    /// of links.
    Through,
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
    File,
    Link(Leads),
    Directory,
    /// A device, socket, pipe.
    Special,
}

/// One name in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    /// Which file it is; none when absent.
    pub id: Option<Id>,
    /// Which file it leads to: itself, if it is no link.
    pub leads_to: Option<Id>,
    /// For a link to cudawrap that is not ours: the link that is.
    pub through: Option<PathBuf>,
    /// Whether it can be executed by somebody (for a link: what it leads to).
    pub runs: bool,
    /// The text of a link.
    pub text: Option<OsString>,
    /// When it came under its name, or changed otherwise.
    pub changed: (i64, u64),
    /// The permission bits, with setuid and setgid (for a link: of what it leads to).
    pub mode: u32,
    /// Whether the file has other names too.
    pub linked: bool,
}

impl Entry {
    /// The entry of a name that nothing has.
    pub const ABSENT: Self = Self {
        kind: Kind::Absent,
        id: None,
        leads_to: None,
        through: None,
        runs: false,
        text: None,
        changed: (0, 0),
        mode: 0,
        linked: false,
    };

    /// Whether it is a link of ours, be the cudawrap behind it there or not.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Link(Leads::Cudawrap | Leads::Vanished))
    }

    /// Whether a program can be behind it.
    pub fn is_program(&self) -> bool {
        matches!(
            self.kind,
            Kind::File | Kind::Link(Leads::Program | Leads::Through)
        )
    }
}

/// What the places of a path hold, and where else its program could be.
#[derive(Clone, Debug)]
pub struct Seen {
    pub app: Entry,
    /// `CUDAWRAP_app`.
    pub hidden: Entry,
    /// `.CUDAWRAP_app~`.
    pub tmp: Entry,
    /// `MIGTOOLS_app`.
    pub former: Entry,
    /// The places that lie on the way to what the path runs; none if it runs nothing, or
    /// only what PATH may have.
    pub reach: Option<Vec<Place>>,
    /// The same for `CUDAWRAP_app`.
    pub hidden_reach: Option<Vec<Place>>,
    /// Whether the path is a script that names `CUDAWRAP_app`: somebody's own wrapper of
    /// it, and no newer program.
    pub calls_hidden: bool,
    /// The program that cudawrap finds by PATH when none is beside the link.
    pub behind: Option<PathBuf>,
    /// The spelling of the path that dpkg diverts to `CUDAWRAP_app`.
    pub diverted: Option<PathBuf>,
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
    let path = dir.path().join(names.at(Place::App));
    let here = id(&rustix::fs::fstat(dir.file())?);
    let reach = |place| {
        let found = wrapper::beside_links(&dir.path().join(names.at(place)), own)?;
        let mut places = vec![Place::App, Place::Hidden, Place::Tmp, Place::Former];
        places.retain(|place| found.passes((here.dev, here.ino), names.at(*place)));
        Some(places)
    };
    let (reach, hidden_reach) = (reach(Place::App), reach(Place::Hidden));
    let both = app.kind == Kind::File && hidden.id.is_some();
    let calls_hidden = both && script_names(&path, names.at(Place::Hidden));
    let alone = app.is_ours() && hidden.kind == Kind::Absent;
    let behind = if alone {
        wrapper::in_path(&path, own)
    } else {
        None
    };
    let diverted = package::listed(&path, names.at(Place::Hidden))?;
    Ok(Seen {
        app,
        hidden,
        tmp,
        former,
        reach,
        hidden_reach,
        calls_hidden,
        behind,
        diverted,
    })
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
        leads_to: Some(id(&stat)),
        through: None,
        runs: stat.st_mode & 0o111 != 0,
        text: None,
        changed: (stat.st_ctime, stat.st_ctime_nsec),
        mode: stat.st_mode & 0o7777,
        linked: stat.st_nlink > 1,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => seen.kind = Kind::File,
        FileType::Directory => seen.kind = Kind::Directory,
        FileType::Symlink => {
            let text = dir.readlink(name)?;
            let behind = dir.stat(name, true);
            let path = dir.path().join(name);
            seen.runs = behind.as_ref().is_ok_and(runs);
            seen.leads_to = behind.as_ref().ok().map(id);
            seen.mode = behind.as_ref().map_or(0, |s| s.st_mode & 0o7777);
            seen.through = through(&path, own);
            seen.kind = Kind::Link(leads(&path, &text, behind, own));
            if seen.through.is_some() {
                seen.kind = Kind::Link(Leads::Through);
                seen.runs &= wrapper::program_of(&path, own).is_some();
            }
            seen.text = Some(text);
        }
        _ => {}
    }
    Ok(seen)
}

/// Whether a script has `name` in its first 64 KiB.
fn script_names(path: &Path, name: &OsStr) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    // What cannot be read says nothing.
    let _ = std::fs::File::open(path).and_then(|file| file.take(64 << 10).read_to_end(&mut start));
    start.starts_with(b"#!")
        && start
            .windows(name.len())
            .any(|bytes| bytes == name.as_bytes())
}

fn runs(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o111 != 0
}

/// A cudawrap is known by the name in the link, by the name at the end of the chain, or
/// by being our own.
fn leads(
    path: &Path,
    text: &OsStr,
    behind: io::Result<rustix::fs::Stat>,
    own: Option<Id>,
) -> Leads {
    let last = Path::new(text).file_name().unwrap_or(text);
    let stat = match behind {
        Ok(stat) => stat,
        Err(_) if is_migtools(last) => return Leads::Migtools,
        Err(_) if last != WRAPPER => return Leads::Elsewhere,
        // In the way of looking (no permission, a stale mount) is not gone: such a link
        // is left as it is.
        Err(error) if is_gone(&error) => return Leads::Vanished,
        Err(_) => return Leads::Cudawrap,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Leads::Elsewhere;
    }
    let end = std::fs::canonicalize(path)
        .ok()
        .and_then(|end| end.file_name().map(OsStr::to_owned));
    let end = end.as_deref().unwrap_or(last);
    if last == WRAPPER || end == WRAPPER || own == Some(id(&stat)) {
        return if runs(&stat) {
            Leads::Cudawrap
        } else {
            Leads::Vanished
        };
    }
    if is_migtools(last) || is_migtools(end) {
        Leads::Migtools
    } else {
        Leads::Program
    }
}

fn is_migtools(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"migtools_")
}

fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
    )
}

/// The link behind `path` in its chain that makes it lead to cudawrap, for one that is
/// not ours itself: the last one with a program beside it (python3 -> python3.11 ->
/// cudawrap), or where none has one, beside `path` neither, the next.
fn through(path: &Path, own: Option<Id>) -> Option<PathBuf> {
    let hops = chain(path).hops;
    let links = hops
        .get(1..hops.len().saturating_sub(1))
        .unwrap_or_default();
    if links.is_empty() || !wrapper::is_wrapper(path, own) {
        return None;
    }
    let has_program =
        |hop: &PathBuf| beside(hop).is_some_and(|program| program.symlink_metadata().is_ok());
    let other_name = |hop: &&PathBuf| hop.file_name() != Some(OsStr::new(WRAPPER));
    let next = || {
        links
            .first()
            .filter(other_name)
            .filter(|_| !has_program(&path.to_owned()))
    };
    links
        .iter()
        .rev()
        .find(|hop| has_program(hop))
        .or_else(next)
        .cloned()
}
