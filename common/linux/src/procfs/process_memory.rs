//! Environment and arguments of a process. Such a read can hang for ever on one sick
//! process (its memory lock held by a thread in D state), so only the holder of a
//! reservation, which hangs alone, reads those of processes it does not know.

use super::Stat;
use super::file::whole;

/// What reading a process's memory gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The bytes: entries that end in NUL.
    Bytes(Vec<u8>),
    /// It may not be read (execute-only, setgid or not dumpable).
    Denied,
    /// The process is gone.
    Gone,
}

/// The environment that `pid` was started with. An empty one is read again, since in the
/// middle of execve it is empty, and then from the other threads, since a first thread
/// that has ended has none. One that ends has none either: its user may not read it then,
/// as if it were secret.
pub fn environ(pid: i32) -> Secret {
    let mut secret = read(pid, "environ");
    for _ in 0..3 {
        if secret != Secret::Bytes(Vec::new()) {
            break;
        }
        std::thread::yield_now();
        secret = read(pid, "environ");
    }
    if matches!(&secret, Secret::Bytes(block) if !block.is_empty()) {
        return secret;
    }
    match of_other_thread(pid).unwrap_or(secret) {
        Secret::Denied if Stat::read(pid).is_none_or(|stat| stat.exiting) => Secret::Gone,
        secret => secret,
    }
}

/// The environment as the threads behind the first one show it; a few are asked.
fn of_other_thread(pid: i32) -> Option<Secret> {
    let threads = super::file::numbers(&format!("/proc/{pid}/task")).into_iter();
    let others = threads.filter(|thread| *thread != pid).take(4);
    others
        .map(|thread| read(pid, &format!("task/{thread}/environ")))
        .find(|secret| matches!(secret, Secret::Bytes(block) if !block.is_empty()))
}

/// The arguments of `pid`, NUL behind each; nothing where they cannot be read.
pub fn cmdline(pid: i32) -> Vec<u8> {
    whole(&format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn read(pid: i32, file: &str) -> Secret {
    match whole(&format!("/proc/{pid}/{file}")) {
        Ok(bytes) => Secret::Bytes(bytes),
        Err(error) => match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Secret::Denied,
            _ => Secret::Gone,
        },
    }
}

/// The value of `name` in an environment block.
pub fn value<'a>(block: &'a [u8], name: &str) -> Option<&'a [u8]> {
    block
        .split(|b| *b == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
