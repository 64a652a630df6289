//! What the processes of a sandbox have open, locked and in memory at one moment, from
//! /proc alone, and the line of the CSV file that records it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use harness::Sandbox;

/// The first line of the CSV file.
pub(crate) const HEADER: &str = "seconds,disturbance,quiet,launches,contexts,processes,zombies,\
                                 descriptors,locks,rss_kib,anonymous_kib,files,collisions";

/// One look at all processes of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Live processes.
    pub(crate) processes: Vec<i32>,
    /// Their children that have exited and that they have not waited for.
    pub(crate) zombies: usize,
    /// Their open descriptors.
    pub(crate) descriptors: usize,
    /// Ranges of the sandbox's lock that are locked on them, and a stranger's.
    pub(crate) locks: usize,
    /// Resident memory, in KiB.
    pub(crate) rss: u64,
    /// The part of it that no file backs.
    pub(crate) anonymous: u64,
    /// Files and directories of the sandbox, but for those of the simulated node.
    pub(crate) files: usize,
    /// Simulated programs that have a context.
    pub(crate) contexts: usize,
    /// Programs that met another on a device, so far.
    pub(crate) collisions: usize,
}

impl Sample {
    /// A process that ends during the look counts as far as it was seen.
    pub(crate) fn take(sandbox: &Sandbox) -> Self {
        let processes = sandbox.processes();
        let mut sample = Self {
            files: files(sandbox.root(), &sandbox.path("node")),
            contexts: sandbox.running(),
            collisions: sandbox.folder().collisions().map_or(0, |all| all.len()),
            ..Self::default()
        };
        let lock = fs::metadata(sandbox.lock()).expect("the lock");
        // The stranger is this process itself.
        let own = i32::try_from(std::process::id()).expect("a process id");
        sample.locks = locks(own, &lock);
        for pid in &processes {
            sample.locks += locks(*pid, &lock);
            sample.descriptors +=
                fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            sample.zombies += children
                .unwrap_or_default()
                .split_whitespace()
                .filter(|child| is_zombie(child))
                .count();
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            sample.rss += kib(&status, "VmRSS:");
            sample.anonymous += kib(&status, "RssAnon:");
        }
        sample.processes = processes;
        sample
    }

    /// The line of the CSV file.
    pub(crate) fn line(&self, seconds: f64, what: &str, quiet: bool, launches: u64) -> String {
        let mut line = format!("{seconds:.1},{what},{},{launches}", u8::from(quiet));
        let figures = [
            self.contexts,
            self.processes.len(),
            self.zombies,
            self.descriptors,
            self.locks,
        ];
        for figure in figures {
            let _ = write!(line, ",{figure}");
        }
        let (rss, anonymous) = (self.rss, self.anonymous);
        let _ = write!(
            line,
            ",{rss},{anonymous},{},{}",
            self.files, self.collisions
        );
        line
    }
}

fn is_zombie(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Locked ranges on descriptors of this process that are open on the lock (proc(5),
/// fdinfo). /proc/locks is read in parts: while somebody gives up thousands of locks, it
/// leaves out others.
fn locks(pid: i32, lock: &fs::Metadata) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    open.flatten()
        .filter(|entry| {
            fs::metadata(entry.path())
                .is_ok_and(|file| (file.dev(), file.ino()) == (lock.dev(), lock.ino()))
        })
        .map(|entry| {
            let number = entry.file_name();
            let path = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
            let info = fs::read_to_string(path).unwrap_or_default();
            info.lines()
                .filter(|line| line.starts_with("lock:"))
                .count()
        })
        .sum()
}

fn files(directory: &Path, without: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| entry.path() != without)
        .map(|entry| {
            let below = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if below {
                files(&entry.path(), without)
            } else {
                0
            }
        })
        .sum()
}
