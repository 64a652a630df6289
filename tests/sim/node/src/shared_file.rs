//! Files that several users write, whatever the umask of the one who makes them. A file
//! appears under its name only with its final mode, so that nobody is turned away in
//! between.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new file of mode 0666 with this content under a name nobody else uses.
pub(crate) fn temporary(beside: &Path, content: &str) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // The time as well: pids repeat, and processes of different pid namespaces share the
    // folder.
    let unique = format!(
        ".new-{}-{}-{number}",
        std::process::id(),
        crate::registry::monotonic_ns()
    );
    let path = beside.parent().unwrap_or(Path::new(".")).join(unique);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    let written = file
        .set_permissions(Permissions::from_mode(0o666))
        .and_then(|()| file.write_all(content.as_bytes()));
    if let Err(error) = written {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok((file, path))
}

/// Puts a file with this content in place of whatever has the name.
pub(crate) fn replace(path: &Path, content: &str) -> io::Result<()> {
    let (_, new) = temporary(path, content)?;
    fs::rename(new, path)
}

/// Opens a file for appending or locking, making it first if need be.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).append(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (_, new) = temporary(path, "")?;
            // A link, not a rename: who comes second must not replace the file that the
            // first already uses.
            let linked = fs::hard_link(&new, path);
            let _ = fs::remove_file(&new);
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => open(),
            }
        }
        other => other,
    }
}

/// Appends a line in one write, so that lines of different processes never mix.
pub(crate) fn append(path: &Path, line: &str) -> io::Result<()> {
    open_or_create(path)?.write_all(format!("{line}\n").as_bytes())
}

/// A directory in which every user may make and remove files.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o777))
}
