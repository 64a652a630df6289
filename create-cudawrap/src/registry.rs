//! The note of what was wrapped, for `--all`: one path a line, in the host's or the
//! user's own file. Only a hint: every entry is looked at before anything is done, and a
//! note that cannot be kept fails nothing.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use getgpu_linux::regular_file::{self, Links};

use crate::dirlock::{self, IfNoLocks};

/// What is locked while the note changes.
const LOCK: &str = ".wrapped.lock";

/// The file that notes what was wrapped.
#[derive(Clone, Debug)]
pub struct Note {
    file: PathBuf,
    /// Permissions of its directory: root's note can be read by every user, since names of programs
    /// are looked up there.
    mode: u32,
}

/// What becomes of a path in the note of wrapped paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteChange {
    /// It was wrapped.
    Add,
    /// It is wrapped no longer, or does not exist.
    Remove,
}

impl Note {
    /// Root's is the host's; another user's is in the state directory of that user, and a
    /// user without a home has none.
    pub fn find() -> Option<Self> {
        if nix::unistd::geteuid().is_root() {
            return Some(Self {
                file: PathBuf::from("/var/lib/getgpu/wrapped"),
                mode: 0o755,
            });
        }
        let absolute = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let state =
            absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(Self {
            file: state.join("getgpu/wrapped"),
            mode: 0o700,
        })
    }

    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The noted paths; none when there is no note.
    pub fn read(&self) -> io::Result<Vec<PathBuf>> {
        let read = regular_file::open(&self.file, Links::Follow).and_then(|mut file| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        });
        match read {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Makes the change for `path`; none is needed if it was made before.
    pub fn change(&self, path: &Path, change: NoteChange) -> io::Result<()> {
        let noted = change == NoteChange::Add;
        let Some(dir) = self.file.parent() else {
            return Ok(());
        };
        if noted && !dir.exists() {
            let mut new = DirBuilder::new();
            new.recursive(true).mode(self.mode).create(dir)?;
            // Whatever the umask is.
            std::fs::set_permissions(dir, Permissions::from_mode(self.mode))?;
        } else if !noted && !self.file.exists() {
            return Ok(());
        }
        // Not the note itself, which is replaced, and not its directory, which every user
        // who may read it may lock.
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(dir.join(LOCK))?;
        dirlock::lock(&lock, dirlock::PATIENCE, IfNoLocks::GoOn)
            .map_err(|failure| io::Error::other(failure.message))?;
        let mut all = self.read()?;
        if all.iter().any(|known| known == path) == noted {
            return Ok(());
        }
        if noted {
            all.push(path.to_owned());
        } else {
            all.retain(|known| known != path);
        }
        self.replace(dir, &print(&all))
    }

    /// Writes the note anew, durably, under another name first.
    fn replace(&self, dir: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = dir.join(".wrapped~");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&new)?;
        // Whatever the umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.file)
    }
}

/// A newline in a name is written `\012` and a backslash `\134`, as in /proc/mounts.
pub fn print(paths: &[PathBuf]) -> Vec<u8> {
    let mut text = Vec::new();
    for path in paths {
        for &byte in path.as_os_str().as_bytes() {
            match byte {
                b'\n' => text.extend_from_slice(b"\\012"),
                b'\\' => text.extend_from_slice(b"\\134"),
                _ => text.push(byte),
            }
        }
        text.push(b'\n');
    }
    text
}

/// The absolute paths of a note, one a line; any other line is left out.
pub fn parse(text: &[u8]) -> Vec<PathBuf> {
    let lines = text
        .split(|&b| b == b'\n')
        .filter(|line| line.first() == Some(&b'/'));
    lines
        .map(|line| PathBuf::from(OsString::from_vec(unescaped(line))))
        .collect()
}

fn unescaped(mut line: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(line.len());
    while let Some((&first, rest)) = line.split_first() {
        let (byte, rest) = match line {
            [b'\\', b'0', b'1', b'2', rest @ ..] => (b'\n', rest),
            [b'\\', b'1', b'3', b'4', rest @ ..] => (b'\\', rest),
            _ => (first, rest),
        };
        bytes.push(byte);
        line = rest;
    }
    bytes
}

#[cfg(test)]
#[path = "registry_properties.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs::File;

    fn note(dir: &tempfile::TempDir, folder: &str, mode: u32) -> Note {
        let file = dir.path().join(folder).join("wrapped");
        Note { file, mode }
    }

    #[test]
    fn any_name_comes_back_and_garbage_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let note = note(&dir, "a", 0o700);
        let paths = [&b"/a\nb"[..], b"/a\\012", b"/\xff x"]
            .map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)));
        note.change(&paths[0], NoteChange::Remove).unwrap();
        assert!(!dir.path().join("a").exists());
        for path in paths.iter().chain(&paths) {
            note.change(path, NoteChange::Add).unwrap();
        }
        assert_eq!(note.read().unwrap(), paths);
        note.change(&paths[1], NoteChange::Remove).unwrap();
        assert_eq!(note.read().unwrap(), [paths[0].clone(), paths[2].clone()]);
        std::fs::write(&note.file, b"relative\n\n\0\n/x\n").unwrap();
        assert_eq!(note.read().unwrap(), [PathBuf::from("/x")]);
    }
    #[test]
    fn a_lock_on_the_directory_keeps_nothing_out_of_a_public_note() {
        let dir = tempfile::tempdir().unwrap();
        let note = note(&dir, "a", 0o755);
        note.change(Path::new("/x"), NoteChange::Add).unwrap();
        let stranger = File::open(dir.path().join("a")).unwrap();
        dirlock::lock(&stranger, std::time::Duration::ZERO, IfNoLocks::Refuse).unwrap();
        note.change(Path::new("/y"), NoteChange::Add).unwrap();
        assert_eq!(note.read().unwrap(), ["/x", "/y"].map(PathBuf::from));
        let lock = std::fs::metadata(dir.path().join("a").join(LOCK)).unwrap();
        assert_eq!(lock.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn notes_that_are_made_at_once_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o755, 0o700] {
            let note = note(&dir, &format!("{mode:o}"), mode);
            let path = |n: usize| PathBuf::from(format!("/x/{n}"));
            note.change(&path(99), NoteChange::Add).unwrap();
            std::thread::scope(|scope| {
                for n in 0..8 {
                    let note = &note;
                    scope.spawn(move || note.change(&path(n), NoteChange::Add).unwrap());
                }
                scope.spawn(|| note.change(&path(99), NoteChange::Remove).unwrap());
            });
            let mut kept = note.read().unwrap();
            kept.sort();
            assert_eq!(kept, (0..8).map(path).collect::<Vec<_>>(), "{mode:o}");
        }
    }

    #[test]
    fn a_note_that_cannot_be_read_is_an_error_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let note = note(&dir, "", 0o700);
        assert!(note.read().unwrap().is_empty(), "there is none");
        std::fs::create_dir_all(note.path().join("kept")).unwrap();
        assert!(note.read().is_err());
        assert!(
            [NoteChange::Add, NoteChange::Remove]
                .iter()
                .all(|change| note.change(Path::new("/x"), *change).is_err())
        );
        assert!(note.path().join("kept").is_dir());
    }

    #[test]
    fn only_the_owner_looks_into_a_note_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        for expected in [0o755, 0o700] {
            let name = format!("{expected:o}");
            let folder = dir.path().join(&name);
            note(&dir, &name, expected)
                .change(Path::new("/x"), NoteChange::Add)
                .unwrap();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&folder), expected);
            assert_eq!(mode(&folder.join("wrapped")), 0o644);
        }
    }

    #[test]
    fn a_note_is_the_same_whatever_the_umask_is() {
        let script = "umask $1; exec \"$0\" --exact registry::tests::only_the_owner_looks_into_a_note_of_their_own";
        for umask in ["077", "0"] {
            let own = std::env::current_exe().unwrap();
            let mut shell = std::process::Command::new("sh");
            let output = shell
                .args(["-c", script])
                .arg(own)
                .arg(umask)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("1 passed"), "{umask}: {text}");
        }
    }
}
