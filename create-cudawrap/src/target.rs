//! From a PATH as typed to a directory and a name in it, as bytes. The name itself is
//! never resolved: a link given as PATH is the link, not what it leads to.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use getgpu_model::{Failure, reason};

use crate::causes::{PathCause, UnfitRemedy};

/// One path to work on.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its directory, absolute and without links.
    pub dir: PathBuf,
    /// The name in there.
    pub name: OsString,
}

impl Target {
    /// Splits `path`; a directory, or one that cannot be reached, is a failure.
    pub fn parse(path: &Path) -> Result<Self, Failure> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            return Err(PathCause::NoPath.into());
        }
        let (parent, name) = match bytes.iter().rposition(|&b| b == b'/') {
            Some(0) => (&b"/"[..], &bytes[1..]),
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (&b"."[..], bytes),
        };
        if matches!(name, b"" | b"." | b"..") {
            // As for a program with a slash behind its name.
            std::fs::metadata(path).map_err(PathCause::from)?;
            let (what, remedy) = ("a directory", UnfitRemedy::NamePrograms);
            return Err(PathCause::Unfit { what, remedy }.into());
        }
        let dir = std::fs::canonicalize(OsStr::from_bytes(parent)).map_err(|error| {
            let why = reason(&error);
            PathCause::DirectoryUnreachable { why }
        })?;
        Ok(Self {
            dir,
            name: OsStr::from_bytes(name).to_owned(),
        })
    }

    /// The absolute path: what is noted, and what package managers know.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }
}

/// Whether there is nothing left of a path: neither it nor its directory.
pub fn is_gone(path: &Path) -> bool {
    let parent = path.parent().unwrap_or(Path::new("/"));
    match std::fs::metadata(parent) {
        Ok(meta) => !meta.is_dir(),
        Err(error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_or_dots_name_a_directory() {
        for path in ["/", "/usr/", ".", "..", "/usr/.", "/usr/..", ""] {
            assert!(Target::parse(Path::new(path)).is_err(), "{path}");
        }
        let why = |path: &str| Target::parse(Path::new(path)).unwrap_err().message;
        assert_eq!(why("/usr/"), "is a directory");
        assert_eq!(why("/dev/null/"), "Not a directory");
        let target = Target::parse(Path::new("/usr/../usr/x y")).unwrap();
        assert_eq!(target.path(), Path::new("/usr/x y"));
        assert_eq!(Target::parse(Path::new("/x")).unwrap().dir, Path::new("/"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(Target::parse(Path::new("x")).unwrap().dir, here);
    }
}
