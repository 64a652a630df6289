//! What the processes of a sandbox have open, locked and in memory at one moment, from
//! /proc alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use harness::Sandbox;

/// What is counted, by its name in the CSV file, and how much it may grow over a whole run.
#[rustfmt::skip]
pub(crate) const FIGURES: [(&str, u64); 8] = [
    ("contexts", 0), ("processes", 0), ("zombies", 0), ("descriptors", 0), ("locks", 0),
    ("rss_kib", 1024), ("anonymous_kib", 128), ("files", 0),
];

/// One look at all processes of a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Their command lines.
    pub(crate) processes: BTreeMap<i32, String>,
    pub(crate) figures: [u64; 8],
}

impl Look {
    /// A process that ends during the look counts as far as it was seen.
    pub(crate) fn take(sandbox: &Sandbox) -> Self {
        let lock = fs::metadata(sandbox.lock()).expect("the lock");
        let mut processes = BTreeMap::new();
        // The stranger is this process itself.
        let mut ranges = locks(std::process::id().cast_signed(), &lock);
        let (mut zombies, mut descriptors, mut rss, mut anonymous) = (0, 0, 0, 0);
        for pid in sandbox.processes() {
            let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
            let children = read(&format!("task/{pid}/children")).unwrap_or_default();
            let status = read("status").unwrap_or_default();
            let children = children.split(' ').map(state);
            zombies += children.filter(|state| *state == Some('Z')).count();
            descriptors += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            ranges += locks(pid, &lock);
            rss += kib(&status, "VmRSS:");
            anonymous += kib(&status, "RssAnon:");
            let words = read("cmdline").unwrap_or_default().replace('\0', " ");
            processes.insert(pid, words);
        }
        let entries = |name| fs::read_dir(sandbox.path(name)).map_or(0, Iterator::count);
        let files = ["run", "home", "work"].map(entries).iter().sum();
        let (contexts, count) = (sandbox.running(), processes.len());
        let figures = [
            contexts,
            count,
            zombies,
            descriptors,
            ranges,
            rss,
            anonymous,
            files,
        ];
        let figures = figures.map(|figure: usize| figure as u64);
        Self { processes, figures }
    }

    /// Whether nothing is left besides what was there then.
    pub(crate) fn is_as(&self, then: &Self) -> bool {
        let counted = |look: &Self| [2, 4, 7].map(|figure| look.figures[figure]);
        self.processes.keys().eq(then.processes.keys()) && counted(self) == counted(then)
    }
}

/// The letter of the process's state.
pub(crate) fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn kib(status: &str, name: &str) -> usize {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// Locked ranges on descriptors of this process that are open on the lock (proc(5),
/// fdinfo). /proc/locks is read in parts: while a process gives up thousands of locks, it
/// leaves out others.
fn locks(pid: i32, lock: &fs::Metadata) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let same = |file: fs::Metadata| (file.dev(), file.ino()) == (lock.dev(), lock.ino());
    let mut count = 0;
    for entry in open.into_iter().flatten().flatten() {
        if fs::metadata(entry.path()).is_ok_and(same) {
            let number = entry.file_name();
            let path = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
            let info = fs::read_to_string(path).unwrap_or_default();
            count += info.matches("lock:").count();
        }
    }
    count
}
