//! Who waits, for people: the processes that have signed their ticket, with what they
//! were started with. Any user can lock such a byte, so nothing is decided by it.

use getgpu_model::lease_tag;
use serde::Serialize;

use getgpu_auto::LEASE_WORKER_OPTION;
use getgpu_linux::{CommandLines, Stat, procfs, users};
use getgpu_lock::kept::{Count, Keeper};
use getgpu_lock::{Held, LockFile, OfdLock, holders, layout};
use getgpu_model::Failure;

/// More waiters than this are not listed.
const MOST: usize = 2000;
/// A process that waits for a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// The process id.
    pub pid: i32,
    /// The user's id.
    pub uid: u32,
    /// The user's name.
    pub user: String,
    /// What it was started with; only its name where that cannot be read.
    pub command: String,
    /// When it started, in Unix seconds.
    pub since: Option<u64>,
    /// The name that its lease will have.
    pub tag: Option<String>,
    /// How many devices are kept for it, where it is its turn.
    pub kept: Option<Count>,
}

/// The processes that have signed their ticket and wait.
///
/// # Errors
///
/// The lock file cannot be asked.
pub(crate) fn waiting_processes(probe: &OfdLock) -> Result<Vec<Stat>, Failure> {
    let region = layout::waiter_pids();
    let mut found = Vec::new();
    for conflict in probe.conflicts(region, MOST)?.found {
        if conflict.held != Held::Confirmed {
            continue;
        }
        for offset in (conflict.range.start()..conflict.range.end()).take(MOST) {
            let pid = i32::try_from(offset - region.start()).unwrap_or(0);
            found.extend(Stat::read(pid).filter(waits));
        }
    }
    Ok(found)
}

/// The processes that wait, in the order in which they started.
///
/// # Errors
///
/// The lock file cannot be asked.
pub fn queued(lock_file: &LockFile, probe: &OfdLock) -> Result<Vec<Queued>, Failure> {
    let command_lines = CommandLines::start();
    let waiting = waiting_processes(probe)?.into_iter();
    let mut found: Vec<(u32, Stat)> = waiting
        .filter_map(|stat| Some((procfs::euid(stat.pid)?, stat)))
        .collect();
    let keeper = Keeper::seen(lock_file, probe)?.and_then(Keeper::pid);
    let kept = keeper.map(|_| Count::told(probe)).transpose()?;
    found.sort_by_key(|(_, stat)| (stat.start, stat.pid));
    Ok(found
        .into_iter()
        .map(|(uid, stat)| {
            let line = command_lines.command_line(stat.pid, uid);
            let line = String::from_utf8_lossy(&line);
            let words = line.split('\0').filter(|word| !word.is_empty());
            let words: Vec<String> = words.map(str::to_owned).collect();
            let (pid, command) = waits_for(&stat, uid, &words);
            Queued {
                pid,
                uid,
                user: users::name(uid),
                command,
                since: holders::since(&stat),
                tag: tag(&words).or_else(|| lease_tag::of(&command_lines, stat.pid, uid)),
                kept: kept.filter(|_| keeper == Some(stat.pid)),
            }
        })
        .collect())
}

/// The process that is to have the device, and its command: a program at its first CUDA
/// call has another process of its user `uid` wait for it (`getgpu_auto`).
fn waits_for(stat: &Stat, uid: u32, words: &[String]) -> (i32, String) {
    match words {
        [_, option, pid, program, ..] if option == LEASE_WORKER_OPTION => {
            let named = pid.parse().ok();
            let own = named.filter(|pid| procfs::euid(*pid) == Some(uid));
            (own.unwrap_or(stat.pid), program.clone())
        }
        [] => (stat.pid, stat.comm.clone()),
        words => (stat.pid, words.join(" ")),
    }
}

/// Whether it is getgpu or cudawrap, before it becomes the user's program.
fn waits(stat: &Stat) -> bool {
    stat.alive() && procfs::is_getgpu_or_cudawrap(stat.pid, &stat.comm)
        || procfs::program_name(stat.pid, &stat.comm) != stat.comm
}

/// What was typed as `--tag`, before the program. The options of a linked program are its own.
fn tag(words: &[String]) -> Option<String> {
    let started_as = words.first()?.rsplit('/').next();
    if !matches!(started_as, Some("getgpu" | "cudawrap")) {
        return None;
    }
    let mut options = words.iter().take_while(|word| *word != "--");
    let typed = options.find_map(|word| word.strip_prefix("--tag"))?;
    let value = typed
        .strip_prefix('=')
        .or(options.next().map(String::as_str));
    lease_tag::parse(value?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_what_was_typed_for_these_commands_and_not_for_the_program() {
        #[rustfmt::skip]
        let cases = [
            ("/usr/bin/cudawrap --wait --tag night -- app", Some("night")),
            ("cudawrap --tag=a.b --wait -- app --tag own", Some("a.b")),
            ("getgpu --hold --tag x", Some("x")),
            ("cudawrap --wait -- app --tag own", None),
            // A link to cudawrap has the program's name and options.
            ("/opt/train --tag own", None),
            ("cudawrap --wait --tag \u{1b}[31m -- app", None),
            ("cudawrap --tag", None),
            ("", None),
        ];
        for (line, expected) in cases {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(tag(&words).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_program_that_another_process_waits_for_is_shown_itself() {
        let stat = Stat::read(std::process::id() as i32).unwrap();
        // A child of this process would have copies of the locks of other tests until its exec.
        let pid = std::os::unix::process::parent_id() as i32;
        let own = procfs::euid(pid).unwrap();
        let of_user = |uid: u32, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            waits_for(&stat, uid, &words)
        };
        let shown = |words: &[&str]| of_user(own, words);
        let number = pid.to_string();
        let worker = [
            "cudawrap",
            LEASE_WORKER_OPTION,
            &number,
            "/opt/app",
            "one-thread",
        ];
        let app = "/opt/app".to_owned();
        assert_eq!(shown(&worker), (pid, app.clone()));
        // Another user's words name no process of this one.
        assert_eq!(of_user(own + 1, &worker), (stat.pid, app));
        assert_eq!(
            shown(&["getgpu", "--wait"]),
            (stat.pid, "getgpu --wait".into())
        );
        assert_eq!(shown(&[]), (stat.pid, stat.comm.clone()));
    }
}
