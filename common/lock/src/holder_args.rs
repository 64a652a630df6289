//! The command line of a reservation's holder: what it reserves, for whom and until when.
//! getgpu writes it, the holder takes everything it needs from it, people read it in
//! ps(1), and every program of this package reads it back from /proc.

use std::ffi::CString;
use std::time::Duration;

use getgpu_linux::{Process, Stat};
use getgpu_model::{Job, Uuid};

/// The option that makes a getgpu a holder; the words follow it.
pub const OPTION: &str = "--holder";

/// The first word on getgpu's command line by which the Python package asks for a lease. It is
/// not among the options, so that no option can turn a reservation into a lease.
pub const LEASE_WORD: &str = "--as-lease";

/// The key of the word that a holder writes over while it runs, so that its value always has
/// the same length.
pub const KEEPER: &str = "keeper";

/// As long as a process id of seven digits and a start, in clock ticks after boot, of sixteen.
const KEEPER_LENGTH: usize = 24;

/// The value of the word [`KEEPER`].
pub fn keeper_text(keeper: Option<&Process>) -> String {
    let text = keeper.map(|process| format!("{}@{}", process.pid, process.start));
    let text = text.filter(|text| text.len() <= KEEPER_LENGTH);
    format!("{:KEEPER_LENGTH$}", text.unwrap_or_default())
}

/// What a reservation is. Words on the holder's command line tell it that no option can write, and
/// never its tag, which is only a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It is for the programs that name its devices.
    #[default]
    Reservation,
    /// If it is held for a process, it is the lease of that process (packaging/python).
    Lease,
    /// A part of a device that Slurm's prolog has reserved for its job.
    JobPart,
    /// What Slurm's TaskProlog has reserved for its task: it is the task's whether it is used or not.
    Task,
}

impl Role {
    /// The key of the holder's word for it, which a plain reservation has not.
    fn key(self) -> &'static str {
        match self {
            Self::Reservation => "",
            Self::Lease => "lease",
            Self::JobPart => "part",
            Self::Task => "of-task",
        }
    }
}

/// Until when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// While programs name the device, with a limit for the first to appear.
    Programs {
        /// For the first program to appear.
        wait: Duration,
    },
    /// Until this process exits, so long at most.
    Over(Process, Option<Duration>),
    /// Until it is released.
    Released,
}

/// What a holder's command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderArgs {
    /// The devices that are reserved.
    pub devices: Vec<Uuid>,
    /// What the reservation is.
    pub role: Role,
    /// What was printed: a program that has exactly this in CUDA_VISIBLE_DEVICES names
    /// the device.
    pub value: String,
    /// The process for which they are reserved.
    pub caller: Process,
    /// The batch job that it is made in.
    pub job: Option<Job>,
    /// The line for the system's log at its end; `None`: none.
    pub record: Option<String>,
    /// The grant that the devices were chosen from, where it names more than they are: a
    /// process that names all of it was granted it, and is no use of the reservation.
    pub grant: Vec<Uuid>,
    /// Start of the getgpu that made it, in clock ticks: unreadable processes count only
    /// from then on.
    pub since: u64,
    /// One of the devices was in the environment of getgpu before: older programs that
    /// name it do not count.
    pub granted: bool,
    /// Until when.
    pub until: Until,
    /// Its name, and what was asked for under it.
    pub tag: Option<Tag>,
    /// The name that listings show, if that is another one. `--tag` and `--release` do not find the
    /// reservation by it.
    pub label: Option<String>,
    /// How long it outlasts the last of its programs, or of those that the process of a hold has left
    /// behind.
    pub linger: Duration,
    /// Variables, besides CUDA_VISIBLE_DEVICES, that had the UUID of a device before it was
    /// printed: what has them was not told it by this reservation.
    pub told_before: Vec<String>,
    /// The site's own programs that run beside the others and never use CUDA.
    pub background: Vec<String>,
    /// A process that keeps the reservation now, as its holder has found; the start is not known.
    pub keeper: Option<Process>,
}

/// The name of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The name, as it was typed.
    pub name: String,
    /// A number that is the same for the same request.
    pub asked: String,
}

impl HolderArgs {
    /// The words behind `getgpu --holder`. A NUL cannot occur: process names end at one.
    pub fn words(&self) -> Vec<CString> {
        let shown = |process: &Process| format!("{}({})", process.pid, process.name);
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let list = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
        let (wait, hold, longest) = match &self.until {
            Until::Programs { wait } => (Some(*wait), None, None),
            Until::Over(process, longest) => (None, Some(shown(process)), *longest),
            Until::Released => (None, Some("0()".to_owned()), None),
        };
        let hold_start = self.held_for().map(|process| process.start);
        let (job, tag) = (self.job.as_ref(), self.tag.as_ref());
        let (task, grant) = (job.and_then(|job| job.task), Uuid::join(&self.grant));
        let lingers = self.until != Until::Released;
        let has_role = self.role != Role::Reservation;
        let pairs = [
            ("caller", Some(shown(&self.caller))),
            ("start", Some(self.caller.start.to_string())),
            ("for", wait.map(seconds)),
            ("hold", hold),
            ("hold-start", hold_start.map(|start| start.to_string())),
            ("longest", longest.map(seconds)),
            ("linger", lingers.then(|| seconds(self.linger))),
            ("since", Some(self.since.to_string())),
            (self.role.key(), has_role.then(|| "1".to_owned())),
            ("record", self.record.clone()),
            ("job", job.map(|job| job.id.clone())),
            ("task", task.map(|task| task.to_string())),
            ("grant", Some(grant).filter(|grant| !grant.is_empty())),
            ("value", Some(self.value.clone())),
            ("granted", self.granted.then(|| "1".to_owned())),
            ("tag", tag.map(|tag| tag.name.clone())),
            ("asked", tag.map(|tag| tag.asked.clone())),
            ("label", self.label.clone()),
            ("told", list(&self.told_before)),
            ("background", list(&self.background)),
            (KEEPER, Some(keeper_text(self.keeper.as_ref()))),
        ];
        let words = pairs
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        std::iter::once(Uuid::join(&self.devices))
            .chain(words)
            .filter_map(|word| CString::new(word).ok())
            .collect()
    }

    /// Reads the words behind `--holder`. A word that an older version did not write has
    /// the value that it stood for then.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut words = words.into_iter();
        let devices = parse_devices(words.next()?)?;
        let words = HolderWords(words.filter_map(|word| word.split_once('=')).collect());
        let until = match words.find("hold") {
            Some(text) => match process(text, words.number("hold-start")?)? {
                Process { pid: 0, .. } => Until::Released,
                process => Until::Over(process, words.seconds("longest")),
            },
            None => Until::Programs {
                wait: words.seconds("for").unwrap_or_default(),
            },
        };
        let roles = [Role::Lease, Role::JobPart, Role::Task];
        let is_named = |role: &Role| words.find(role.key()).is_some();
        let role = roles.into_iter().find(is_named).unwrap_or_default();
        Some(Self {
            devices,
            role,
            value: words.find("value").unwrap_or_default().to_owned(),
            caller: process(words.find("caller")?, words.number("start")?)?,
            since: words.number("since")?,
            record: words.find("record").map(str::to_owned),
            job: words.find("job").map(|id| Job {
                id: id.into(),
                task: words.find("task").and_then(|task| task.parse().ok()),
            }),
            grant: words
                .find("grant")
                .map_or(Some(Vec::new()), parse_devices)?,
            granted: words.find("granted").is_some(),
            tag: words.find("tag").map(|name| Tag {
                name: name.into(),
                asked: words.find("asked").unwrap_or_default().into(),
            }),
            label: words.find("label").map(str::to_owned),
            linger: words.seconds("linger").unwrap_or_default(),
            told_before: words.list("told"),
            background: words.list("background"),
            keeper: words
                .find(KEEPER)
                .and_then(|text| process_at(text.trim_end())),
            until,
        })
    }

    /// The process until whose end it holds, whatever runs.
    pub fn held_for(&self) -> Option<&Process> {
        match &self.until {
            Until::Over(process, _) => Some(process),
            _ => None,
        }
    }

    /// Whether it is about to end: the process that it holds for has exited.
    pub fn is_ending(&self) -> bool {
        let process = self.held_for();
        process.is_some_and(|process| !Stat::runs(process.pid, process.start))
    }

    /// Whether the process that it was held for has exited, and it goes on for what that process
    /// left behind.
    pub fn has_outlived_its_hold(&self) -> bool {
        self.keeper.is_some() && self.is_ending()
    }

    /// The process whose lease this is, as if cudawrap had started it: a program beside it
    /// must not use the device, whatever reservation both run under.
    pub fn lessee(&self) -> Option<&Process> {
        self.held_for().filter(|_| self.role == Role::Lease)
    }

    /// Whether it is the lease of a program that is beside those of a `lineage`, and not
    /// one of them. To `lease_of`, a process that asks for a lease, its own are such too.
    pub fn is_lease_beside(&self, lineage: &[(i32, u64)], lease_of: Option<i32>) -> bool {
        self.lessee().is_some_and(|lessee| {
            let above = lineage.contains(&(lessee.pid, lessee.start));
            !above || lease_of == Some(lessee.pid)
        })
    }

    /// Whether Slurm's TaskProlog has reserved it for another task of the step that `own` is a task
    /// of.
    pub fn is_of_task_beside(&self, own: &Job) -> bool {
        let job = self.job.as_ref().filter(|_| self.role == Role::Task);
        job.is_some_and(|job| job.id == own.id && job.task != own.task)
    }

    /// Whether it follows the programs that name its devices, as a plain reservation does.
    pub fn is_plain(&self) -> bool {
        matches!(self.until, Until::Programs { .. })
    }

    /// The number of the job whose part this is.
    pub fn job_of_part(&self) -> Option<&str> {
        let job = self.job.as_ref().filter(|_| self.role == Role::JobPart);
        job.map(Job::number)
    }

    /// How many generations above a process this reservation was made: for that process
    /// itself 0, `usize::MAX` if it was made for none of its `lineage` (the process and
    /// its ancestors as pid and start, nearest first).
    pub fn distance(&self, lineage: &[(i32, u64)]) -> usize {
        lineage
            .iter()
            .position(|(pid, _)| {
                self.held_for().is_some_and(|process| process.pid == *pid)
                    || self.caller.pid == *pid
            })
            .unwrap_or(usize::MAX)
    }
}

/// The words behind the devices, `key=value` each. Keys that this version does not know are ignored.
struct HolderWords<'a>(Vec<(&'a str, &'a str)>);

impl<'a> HolderWords<'a> {
    /// The value of a key.
    fn find(&self, key: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value)
    }

    /// The whole number under a key, 0 without it; none if it is no number.
    fn number(&self, key: &str) -> Option<u64> {
        self.find(key).map_or(Some(0), |text| text.parse().ok())
    }

    /// The names under a key.
    fn list(&self, key: &str) -> Vec<String> {
        let names = self.find(key).unwrap_or_default().split(',');
        let names = names.filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    /// The duration under a key.
    fn seconds(&self, key: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.find(key)?.parse().ok()?).ok()
    }
}

/// The devices of a text as getgpu prints it: UUIDs with commas between.
pub fn parse_devices(text: &str) -> Option<Vec<Uuid>> {
    text.split(',').map(Uuid::parse).collect()
}

/// `4711@123456`, without its name, which changes when the process executes another program.
fn process_at(text: &str) -> Option<Process> {
    let (pid, start) = text.split_once('@')?;
    Some(Process {
        pid: pid.parse().ok()?,
        start: start.parse().ok()?,
        name: String::new(),
    })
}

/// `4711(bash)`
fn process(text: &str, start: u64) -> Option<Process> {
    let (pid, name) = text.split_once('(').unwrap_or((text, ")"));
    Some(Process {
        pid: pid.parse().ok()?,
        start,
        name: name.strip_suffix(')')?.to_owned(),
    })
}

#[cfg(test)]
#[path = "holder_args_tests.rs"]
mod tests;
