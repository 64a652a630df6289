//! What is our own: reservations of our uid, and leases of our ancestors. A choice
//! believes proof alone, and the proof is fdinfo: a process of our uid whose open
//! descriptor holds the lock. Without proof it is somebody else's.

use std::time::{Duration, Instant};

use super::{LockFile, Range, Span, Units};
use crate::ident::Uuid;
use crate::job::Job;
use crate::procfs::fdinfo::OwnLock;
use crate::procfs::{self, ancestry, fdinfo, process_memory, process_memory::Secret};

/// The process name of a reservation's holder.
pub const HOLDER_NAME: &str = "getgpu-hold";

/// What the command line of a holder says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderLine {
    /// The holder.
    pub pid: i32,
    /// Its own start, in clock ticks after boot: with the pid, which process it is.
    pub start: u64,
    /// Every device it reserves.
    pub devices: Vec<Uuid>,
    /// The caller's pid and name.
    pub caller: (i32, String),
    /// The caller's start, in clock ticks after boot.
    pub caller_start: u64,
    /// The process until whose end it holds, whatever runs; 0: until it is released.
    pub hold: Option<i32>,
    /// The tag, if any.
    pub tag: Option<String>,
    /// What was asked for under the tag, as a number that only says whether it was the
    /// same.
    pub asked: Option<String>,
    /// The batch job that it was made in.
    pub job: Option<Job>,
    /// The forks of the caller between it and that getgpu, as pid and start: a `$( )`, a
    /// background subshell.
    pub forks: Vec<(i32, u64)>,
    /// When the getgpu that made it was started, in clock ticks after boot.
    pub since: u64,
}

impl HolderLine {
    /// Reads the command line of `pid`, a process that is called like a holder. A
    /// stranger could make such a read hang, so this is asked only of processes named by
    /// the lock or of our own uid.
    pub fn of(pid: i32) -> Option<Self> {
        if !called(pid) {
            return None;
        }
        let start = procfs::Stat::read(pid)?.start;
        let Secret::Bytes(bytes) = process_memory::cmdline(pid) else {
            return None;
        };
        Some(Self {
            start,
            ..Self::parse(pid, &bytes)?
        })
    }

    /// The same of a process that may be a stranger's, in a time that the stranger does
    /// not decide.
    fn of_stranger(pid: i32, limit: Duration) -> Option<Self> {
        let start = procfs::Stat::read(pid)?.start;
        let read = || match process_memory::cmdline(pid) {
            Secret::Bytes(bytes) => bytes,
            _ => Vec::new(),
        };
        Some(Self {
            start,
            ..Self::parse(pid, &crate::sys::within(limit, read)?)?
        })
    }

    /// `getgpu --holder MIG-...[,...] caller=4711(bash) start=123 for=60 [hold=PID]
    /// [tag=NAME]`, NUL between the words.
    pub fn parse(pid: i32, bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text
            .split('\0')
            .skip_while(|word| *word != "--holder")
            .skip(1);
        let devices = words
            .next()?
            .split(',')
            .map(Uuid::parse)
            .collect::<Option<Vec<_>>>()?;
        let mut line = Self {
            pid,
            start: 0,
            devices,
            caller: (0, String::new()),
            caller_start: 0,
            hold: None,
            tag: None,
            asked: None,
            job: None,
            forks: Vec::new(),
            since: 0,
        };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "caller" => {
                    let (number, name) = value.split_once('(')?;
                    line.caller = (number.parse().ok()?, name.strip_suffix(')')?.to_owned());
                }
                "start" => line.caller_start = value.parse().ok()?,
                "hold" => line.hold = Some(value.split('(').next()?.parse().ok()?),
                "tag" => line.tag = Some(value.to_owned()),
                "asked" => line.asked = Some(value.to_owned()),
                "job" => {
                    line.job = Some(Job {
                        id: value.to_owned(),
                        task: None,
                    })
                }
                "task" => line
                    .job
                    .as_mut()
                    .into_iter()
                    .for_each(|job| job.task = value.parse().ok()),
                "forks" => line.forks = parse_forks(value)?,
                "since" => line.since = value.parse().ok()?,
                _ => {}
            }
        }
        Some(line)
    }

    /// The batch job that it is for: the prolog's are named after theirs.
    pub fn job(&self) -> Option<Job> {
        let of_tag = || {
            let id = self.tag.as_ref()?.strip_prefix("slurm-")?;
            id.bytes().all(|b| b.is_ascii_digit()).then(|| Job {
                id: id.to_owned(),
                task: None,
            })
        };
        self.job.clone().or_else(of_tag)
    }

    /// How many generations above a process this reservation was made: for that process
    /// itself 0, `usize::MAX` if it was made for none of its `lineage` (the process and
    /// its ancestors as pid and start, nearest first).
    pub fn distance(&self, lineage: &[(i32, u64)]) -> usize {
        let made_for = |(pid, start): &(i32, u64)| {
            self.hold == Some(*pid) || self.caller.0 == *pid || self.forks.contains(&(*pid, *start))
        };
        lineage.iter().position(made_for).unwrap_or(usize::MAX)
    }
}

/// Processes as the command line of a holder names them: `4711:1234,4712:1236`, pid and
/// start.
pub fn forks_text(forks: &[(i32, u64)]) -> String {
    forks
        .iter()
        .map(|(pid, start)| format!("{pid}:{start}"))
        .collect::<Vec<_>>()
        .join(",")
}

/// Reads them back.
pub fn parse_forks(text: &str) -> Option<Vec<(i32, u64)>> {
    let one = |text: &str| {
        let (pid, start) = text.split_once(':')?;
        Some((pid.parse().ok()?, start.parse().ok()?))
    };
    text.split(',').map(one).collect()
}

/// Whether a process has the name of a holder.
fn called(pid: i32) -> bool {
    procfs::comm(pid).is_some_and(|name| name == HOLDER_NAME)
}

/// How long one stranger's command line is waited for, and all of them together.
const STRANGER: Duration = Duration::from_millis(200);
const STRANGERS: Duration = Duration::from_secs(1);

/// The holders of `uid` (all uids for root that asks for everybody's): found by name,
/// believed by proof.
pub fn reservations(lock_file: &LockFile, uid: Option<u32>) -> Vec<HolderLine> {
    let (own, began) = (std::process::id() as i32, Instant::now());
    let ours = nix::unistd::geteuid().as_raw();
    procfs::pids()
        .into_iter()
        // The cheapest question first, since it is asked of thousands: a file's owner,
        // then a name, then a whole status.
        .filter(|pid| {
            *pid != own && uid.is_none_or(|uid| procfs::may_be_of(*pid, uid)) && called(*pid)
        })
        .filter(|pid| uid.is_none_or(|uid| procfs::euid(*pid) == Some(uid)))
        // Anybody may call a process so. Whether it holds anything is seen without its
        // help.
        .filter(|pid| holds_something(lock_file, *pid))
        .filter_map(|pid| {
            if procfs::euid(pid) == Some(ours) {
                return HolderLine::of(pid);
            }
            let left = STRANGERS.saturating_sub(began.elapsed());
            HolderLine::of_stranger(pid, STRANGER.min(left))
        })
        .filter(|line| proven(lock_file, line))
        .collect()
}

/// Whether a process shows any settled lock on the file.
fn holds_something(lock_file: &LockFile, pid: i32) -> bool {
    fdinfo::settled_locks(&pid.to_string())
        .iter()
        .any(|lock| lock.inode == lock_file.identity.1)
}

/// Whether the holder's own descriptors show the lock on every device that its command
/// line names.
pub fn proven(lock_file: &LockFile, line: &HolderLine) -> bool {
    let locks = fdinfo::settled_locks(&line.pid.to_string());
    line.devices
        .iter()
        .all(|device| !within(&locks, lock_file, Span::of(device).reservation()).is_empty())
}

/// The units of a device that the holder's own descriptors show.
pub fn reserved_units(lock_file: &LockFile, line: &HolderLine, device: &Uuid) -> Units {
    within(
        &fdinfo::settled_locks(&line.pid.to_string()),
        lock_file,
        Span::of(device).reservation(),
    )
}

/// What the holder of a reservation shows of its state, on the lock and with proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Its programs have exited, and it waits for the caller's next one.
    Lingering,
    /// It agrees that the reservation is reused by the process that asked.
    Consent,
    /// It does not.
    Refusal,
}

/// Whether the holder shows this for all of its devices.
pub fn shows(lock_file: &LockFile, line: &HolderLine, state: Shows) -> bool {
    let locks = fdinfo::settled_locks(&line.pid.to_string());
    let shown = |device| {
        let span = Span::of(device);
        let byte = match state {
            Shows::Lingering => span.lingering(),
            Shows::Consent => span.consent(),
            Shows::Refusal => span.refusal(),
        };
        !fdinfo::within(&locks, lock_file.identity.1, byte).is_empty()
    };
    line.devices.iter().all(shown)
}

/// The locks that descriptors of ours show: before we lease anything, those that we
/// inherited.
pub fn inherited_locks() -> Vec<OwnLock> {
    fdinfo::settled_locks("self")
}

/// The locks that ancestors of our uid show.
pub fn ancestors_locks() -> Vec<OwnLock> {
    let uid = nix::unistd::geteuid().as_raw();
    let own = ancestry::ancestors(std::process::id() as i32, 64);
    let own = own
        .iter()
        .filter(|stat| procfs::euid(stat.pid) == Some(uid));
    own.flat_map(|stat| fdinfo::settled_locks(&stat.pid.to_string()))
        .collect()
}

/// The locks that `pid` shows; none if they may not be read.
pub fn locks_of(pid: i32) -> Vec<OwnLock> {
    fdinfo::settled_locks(&pid.to_string())
}

/// The units of a device on which `locks` are a lease. They are read once, since a grant
/// may name many devices.
pub fn leased(locks: &[OwnLock], lock_file: &LockFile, device: &Uuid) -> Units {
    within(locks, lock_file, Span::of(device).lease())
}

/// The units that `locks` show in a region of a device.
pub fn shown_in(locks: &[OwnLock], lock_file: &LockFile, region: Range) -> Units {
    within(locks, lock_file, region)
}

/// The devices of a reservation, each with the units that the holder's own descriptors
/// show.
pub fn reserved(lock_file: &LockFile, line: &HolderLine) -> Vec<(Uuid, Units)> {
    let locks = locks_of(line.pid);
    let units = |device: &Uuid| {
        (
            device.clone(),
            within(&locks, lock_file, Span::of(device).reservation()),
        )
    };
    line.devices.iter().map(units).collect()
}

fn within(locks: &[OwnLock], lock_file: &LockFile, region: Range) -> Units {
    Units::of(fdinfo::within(locks, lock_file.identity.1, region), region)
}

#[cfg(test)]
mod tests {
    use super::HolderLine;

    #[test]
    fn a_holders_command_line_says_what_it_is() {
        let uuid = "MIG-0d1e2f30-1111-5222-8333-444455556666";
        let bytes = format!(
            "getgpu\0--holder\0{uuid}\0caller=4711(my (odd) shell)\0start=99\0for=60\0hold=4712(sh (2))\0forks=8:80,9:90\0"
        );
        let line = HolderLine::parse(7, bytes.as_bytes()).unwrap();
        assert_eq!(
            (line.caller.clone(), line.caller_start, line.hold),
            ((4711, "my (odd) shell".into()), 99, Some(4712))
        );
        assert_eq!(
            [
                &[(4712, 1), (4711, 1), (1, 1)][..],
                &[(5, 1), (9, 90), (4711, 1)],
                &[(5, 1), (9, 91), (4711, 1)],
                &[(5, 1)]
            ]
            .map(|lineage| line.distance(lineage)),
            [0, 1, 2, usize::MAX]
        );
        assert_eq!(line.devices[0].as_str(), uuid);
        for bad in [
            "",
            "getgpu\0--holder",
            "getgpu\0--holder\0x\0",
            "sleep\x001\0",
        ] {
            assert_eq!(HolderLine::parse(7, bad.as_bytes()), None, "{bad}");
        }
    }
}
