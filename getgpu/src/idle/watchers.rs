//! Since when reserved devices have been empty, as the processes that watch them say in
//! their command lines.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use getgpu_common::ident::Uuid;
use getgpu_common::procfs::process_memory::{self, Secret};
use getgpu_common::{procfs, reader_child};

use super::watch_args::{NAME, OPTION, WatchArgs};

/// What one watcher says of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    pub device: Uuid,
    /// The user that it runs as: it can speak of this user's reservations only.
    pub uid: u32,
    /// In Unix seconds.
    pub empty_since: u64,
}

/// How long one process's command line is waited for, and all of them together: anybody
/// can call a process so and make the read hang.
const ONE: Duration = Duration::from_millis(200);
const ALL: Duration = Duration::from_secs(1);

/// What those of these users say, as far as we may see them.
pub fn read(uids: &HashSet<u32>) -> Vec<Watched> {
    let began = Instant::now();
    let name = NAME.to_string_lossy();
    let watches = |pid: &i32| procfs::comm(*pid).is_some_and(|comm| comm == name);
    procfs::pids()
        .into_iter()
        .filter(watches)
        .filter_map(|pid| Some((pid, procfs::euid(pid).filter(|uid| uids.contains(uid))?)))
        .take_while(|_| began.elapsed() < ALL)
        .filter_map(|(pid, uid)| of(pid, uid, ONE))
        .flatten()
        .collect()
}

fn of(pid: i32, uid: u32, limit: Duration) -> Option<Vec<Watched>> {
    let read = || match process_memory::cmdline(pid) {
        Secret::Bytes(bytes) => bytes,
        Secret::Denied | Secret::Gone => Vec::new(),
    };
    let line = reader_child::within(limit, read)?;
    let words: Vec<&str> = line
        .split(|byte| *byte == 0)
        .filter_map(|word| std::str::from_utf8(word).ok())
        .collect();
    let words = match words.as_slice() {
        [_, option, words @ ..] if *option == OPTION => words,
        _ => return None,
    };
    let args = WatchArgs::parse(words.iter().copied())?;
    let since = args.spell.flatten()?.since.unix.as_secs();
    let say = |device| Watched {
        device,
        uid,
        empty_since: since,
    };
    Some(args.devices.into_iter().map(say).collect())
}
