//! Which ancestor reads what this call prints: the one that has the other end of the pipe open, or
//! that made the pair of sockets. A fork of a shell that passes the answer on by its own standard
//! output is not meant, but the process that reads that.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use getgpu_linux::{
    Stat,
    procfs::{self, file},
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// The reader among `ancestors`, nearest first; none where standard output is something else, or
/// is not read by just one of them.
pub fn find(ancestors: &[Stat]) -> Option<&Stat> {
    let mut at = own_reader(ancestors)?;
    while let Some(next) = next_reader(ancestors, at) {
        at = next;
    }
    let reader = &ancestors[at];
    // cron and sshd read what their users' commands print, and are not who asked.
    let own = nix::unistd::geteuid().as_raw();
    (procfs::euid(reader.pid) == Some(own)).then_some(reader)
}

/// Who reads the standard output of this process.
fn own_reader(ancestors: &[Stat]) -> Option<usize> {
    let output = output_of("self")?;
    if is_pipe(&output) {
        return only_reader(&output, ancestors.iter().map(|stat| stat.pid));
    }
    // The kernel notes who made a pair of sockets (unix(7), SO_PEERCRED).
    let stdout = io::stdout();
    let maker = getsockopt(&stdout.as_fd(), PeerCredentials).ok()?.pid();
    ancestors.iter().position(|stat| stat.pid == maker)
}

/// Who reads the standard output of the reader at `at`, if that is a mere fork of its parent, made
/// for this output.
fn next_reader(ancestors: &[Stat], at: usize) -> Option<usize> {
    let (fork, above) = (&ancestors[at], &ancestors[at + 1..]);
    let parent = above.first()?;
    if !fork.forked || fork.arg_start == 0 || fork.arg_start != parent.arg_start {
        return None;
    }
    let output = output_of(&fork.pid.to_string())?;
    if is_pipe(&output) {
        let reader = only_reader(&output, above.iter().map(|stat| stat.pid));
        return reader.map(|reader| at + 1 + reader);
    }
    // The kernel does not tell who made a socket pair. But a fork whose socket differs from that of its
    // parent was given the socket by this parent, which reads the answer at the other end.
    let inherited = output_of(&parent.pid.to_string()) == Some(output.clone());
    (output.starts_with("socket:[") && !inherited).then_some(at + 1)
}

/// What the standard output of a process is: `pipe:[4711]` (proc(5)).
fn output_of(pid: &str) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
    link.into_os_string().into_string().ok()
}

/// Whether it is a pipe, or the file without a name that ksh93 has instead of one.
fn is_pipe(output: &str) -> bool {
    output.starts_with("pipe:[") || output.ends_with(" (deleted)")
}

/// The only one of these processes that has the pipe open for reading. What may not be looked at
/// is taken for none.
fn only_reader(pipe: &str, pids: impl Iterator<Item = i32>) -> Option<usize> {
    let mut readers = pids
        .enumerate()
        .filter_map(|(at, pid)| reads(pid, pipe).then_some(at));
    let first = readers.next()?;
    readers.next().is_none().then_some(first)
}

fn reads(pid: i32, pipe: &str) -> bool {
    let open = file::numbers(&format!("/proc/{pid}/fd")).into_iter();
    let mut paths = open.map(|number| PathBuf::from(format!("/proc/{pid}/fd/{number}")));
    paths.any(|path| {
        let is_it = std::fs::read_link(&path).is_ok_and(|link| link.as_os_str() == pipe);
        // The mode of the link is that of the descriptor.
        let mode = || {
            path.symlink_metadata()
                .map(|link| link.permissions().mode())
        };
        is_it && mode().is_ok_and(|mode| mode & 0o400 != 0)
    })
}
