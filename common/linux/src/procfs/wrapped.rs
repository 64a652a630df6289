//! The name of a program as its users know it: a wrapped program runs as `CUDAWRAP_name`,
//! of which the kernel keeps 15 bytes. Reads nothing that can hang on a sick process: its
//! `exe` link, and root's note of what was wrapped.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::file;
use crate::resolve_program::PREFIX;

/// TASK_COMM_LEN of linux/sched.h in bytes, without the final NUL.
const LONGEST_COMM: usize = 15;
/// Where root's create-cudawrap notes what it has wrapped; every user can read it.
const NOTE: &str = "/var/lib/getgpu/wrapped";

/// The name of process `pid`, whose `comm` is this.
pub fn program_name(pid: i32, comm: &str) -> String {
    let Some(start) = comm.strip_prefix(PREFIX) else {
        return comm.to_owned();
    };
    if comm.len() < LONGEST_COMM {
        return start.to_owned();
    }
    of_executable(pid, comm)
        .or_else(|| noted(&file::whole(NOTE).ok()?, start))
        .unwrap_or_else(|| start.to_owned())
}

/// Whether process `pid`, whose `comm` is this, is getgpu or cudawrap, which under a link
/// has the link's name.
pub fn is_getgpu_or_cudawrap(pid: i32, comm: &str) -> bool {
    matches!(comm, "getgpu" | "cudawrap")
        || std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "cudawrap"))
}

/// From the file that runs, unless that is a script's interpreter or another user's
/// process.
fn of_executable(pid: i32, comm: &str) -> Option<String> {
    let path = super::executable(&pid.to_string())?;
    let name = path.file_name()?.to_string_lossy();
    name.starts_with(comm)
        .then(|| name[PREFIX.len()..].to_owned())
}

/// From the wrapped paths, if just one name begins like this.
fn noted(note: &[u8], start: &str) -> Option<String> {
    let names = note
        .split(|byte| *byte == b'\n')
        .filter_map(|line| Path::new(std::ffi::OsStr::from_bytes(line)).file_name());
    let mut names = names
        .filter_map(|name| name.to_str())
        .filter(|name| name.starts_with(start));
    let first = names.next()?;
    names.all(|other| other == first).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{noted, program_name};

    #[test]
    fn names_that_fit_need_no_look() {
        assert_eq!(program_name(0, "python3"), "python3");
        assert_eq!(program_name(0, "CUDAWRAP_app"), "app");
    }

    #[test]
    fn a_note_counts_where_it_is_unambiguous() {
        let note = b"/opt/bin/simulate\n/usr/bin/render\n/opt/other/simulate\n/opt/similar\n";
        assert_eq!(noted(note, "simula").as_deref(), Some("simulate"));
        assert_eq!(noted(note, "simi").as_deref(), Some("similar"));
        assert_eq!(
            (
                noted(note, "simila-x"),
                noted(b"/a/simulate\n/a/simulacrum\n", "simula")
            ),
            (None, None)
        );
    }
}
