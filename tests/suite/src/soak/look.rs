//! What the processes of a sandbox have open, locked and in memory at one moment, from
//! /proc alone, and whether a figure grew over a run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use harness::Sandbox;

/// What is counted; the names are those of the CSV file.
#[rustfmt::skip]
pub(crate) const FIGURES: [&str; 8] = [
    "contexts", "processes", "zombies", "descriptors", "locks", "rss_kib", "anonymous_kib", "files",
];

/// How much each may grow over a whole run. Of counts not one more: half of one is what a
/// line through whole numbers may err.
pub(crate) const MOST: [f64; 8] = [0.5, 0.5, 0.5, 0.5, 0.5, 1024.0, 128.0, 0.5];

/// One look at all processes of a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) processes: Vec<i32>,
    pub(crate) figures: [u64; 8],
}

impl Look {
    /// A process that ends during the look counts as far as it was seen.
    pub(crate) fn take(sandbox: &Sandbox) -> Self {
        let processes = sandbox.processes();
        let lock = fs::metadata(sandbox.lock()).expect("the lock");
        // The stranger is this process itself.
        let mut ranges = locks(std::process::id().cast_signed(), &lock);
        let (mut zombies, mut descriptors, mut rss, mut anonymous) = (0, 0, 0, 0);
        for pid in &processes {
            let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
            ranges += locks(*pid, &lock);
            descriptors += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            let children = read(&format!("task/{pid}/children")).unwrap_or_default();
            zombies += children
                .split_whitespace()
                .filter(|child| is_zombie(child))
                .count();
            let status = read("status").unwrap_or_default();
            rss += kib(&status, "VmRSS:");
            anonymous += kib(&status, "RssAnon:");
        }
        let files = files(sandbox.root(), &sandbox.path("node"));
        let counts = [
            sandbox.running(),
            processes.len(),
            zombies,
            descriptors,
            ranges,
        ];
        let [contexts, count, zombies, descriptors, ranges] = counts.map(|count| count as u64);
        let files = files as u64;
        #[rustfmt::skip]
        let figures = [
            contexts, count, zombies, descriptors, ranges, rss, anonymous, files,
        ];
        Self { processes, figures }
    }

    /// Whether nothing is left besides what was there then.
    pub(crate) fn is_as(&self, then: &Self) -> bool {
        let counted = |look: &Self| [2, 4, 7].map(|figure| look.figures[figure]);
        self.processes == then.processes && counted(self) == counted(then)
    }

    /// The processes that were not there then.
    pub(crate) fn others(&self, then: &Self) -> Vec<String> {
        let others = self
            .processes
            .iter()
            .filter(|pid| !then.processes.contains(pid));
        let words = |pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        others
            .map(|pid| {
                format!(
                    "{pid} {}",
                    String::from_utf8_lossy(&words(pid)).replace('\0', " ")
                )
            })
            .collect()
    }
}

/// The letter of the process's state.
pub(crate) fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_zombie(pid: &str) -> bool {
    state(pid) == Some('Z')
}

fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// Locked ranges on descriptors of this process that are open on the lock (proc(5),
/// fdinfo). /proc/locks is read in parts: while a process gives up thousands of locks, it
/// leaves out others.
fn locks(pid: i32, lock: &fs::Metadata) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let same = |file: fs::Metadata| (file.dev(), file.ino()) == (lock.dev(), lock.ino());
    let on_lock = open.filter(|entry| fs::metadata(entry.path()).is_ok_and(same));
    on_lock
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
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut count = 0;
    for entry in entries.filter(|entry| entry.path() != without) {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        count += 1 + if is_directory {
            files(&entry.path(), without)
        } else {
            0
        };
    }
    count
}

/// How much a figure grew over the whole run: the slope of the least-squares line, times
/// the time between the first point and the last.
pub(crate) fn growth(points: &[(f64, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return 0.0;
    };
    let count = points.len() as f64;
    let middle = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let level = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - middle).powi(2)).sum();
    let common: f64 = points.iter().map(|(x, y)| (x - middle) * (y - level)).sum();
    if spread == 0.0 {
        0.0
    } else {
        common / spread * (last.0 - first.0)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn growth_is_that_of_the_line_through_all_points() {
        let grown = |y: fn(f64) -> f64| {
            let points: Vec<_> = (0..101).map(f64::from).map(|x| (x, y(x))).collect();
            super::growth(&points)
        };
        assert!((grown(|x| 7.0 - 0.5 * x) + 50.0).abs() < 1e-9);
        // One high point in the middle is no growth, a step that stays is.
        assert!(grown(|x| f64::from(u8::from(x == 50.0))).abs() < 1e-9);
        assert!(grown(|x| f64::from(u8::from(x > 50.0))) > 1.0);
        assert!(super::growth(&[]).abs() < 1e-9);
    }
}
