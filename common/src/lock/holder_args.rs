//! The command line of a reservation's holder: what it reserves, for whom and until when.
//! getgpu writes it, the holder takes everything it needs from it, people read it in
//! ps(1), and every program of ours reads it back from /proc.

use std::ffi::CString;
use std::time::Duration;

use super::device_words::DeviceWords;
use crate::ident::Uuid;
use crate::job::Job;
use crate::procfs::Process;

/// The option that makes a getgpu a holder; the words follow it.
pub const OPTION: &str = "--holder";

/// How the tags of Python's leases begin (packaging/python): a reservation that is held
/// for a process under such a tag is the lease of that process.
pub const LEASE_TAG: &str = "python-";

/// Until when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// While programs name the device: waits so long for the first, and lingers so long
    /// behind the last.
    Programs {
        /// For the first program to appear.
        wait: Duration,
        /// Behind the last one, while the caller lives.
        linger: Duration,
    },
    /// Until this process exits, so long at most.
    Over(Process, Option<Duration>),
    /// Until it is released.
    Released,
}

/// Everything a holder is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderArgs {
    pub devices: Vec<Uuid>,
    /// What was printed: a program that has exactly this in CUDA_VISIBLE_DEVICES names
    /// the device.
    pub value: String,
    pub caller: Process,
    /// The batch job that it is made in.
    pub job: Option<Job>,
    /// What the system's log is told of its end; `None`: nothing.
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
}

/// The name of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    /// A number that is the same for the same request.
    pub asked: String,
}

impl HolderArgs {
    /// The words behind `getgpu --holder`. A NUL cannot occur: process names end at one.
    pub fn words(&self) -> Vec<CString> {
        let mut words = vec![
            joined(&self.devices),
            format!("caller={}({})", self.caller.pid, self.caller.name),
            format!("start={}", self.caller.start),
        ];
        match &self.until {
            Until::Programs { wait, linger } => {
                words.push(format!("for={}", wait.as_secs_f64()));
                words.push(format!("linger={}", linger.as_secs_f64()));
            }
            Until::Over(process, longest) => {
                words.push(format!("hold={}({})", process.pid, process.name));
                words.push(format!("hold-start={}", process.start));
                words.extend(longest.map(|longest| format!("longest={}", longest.as_secs_f64())));
            }
            Until::Released => words.push("hold=0()".into()),
        }
        words.push(format!("since={}", self.since));
        words.extend(self.record.as_ref().map(|text| format!("record={text}")));
        if let Some(job) = &self.job {
            words.push(format!("job={}", job.id));
            words.extend(job.task.map(|task| format!("task={task}")));
        }
        if !self.grant.is_empty() {
            words.push(format!("grant={}", joined(&self.grant)));
        }
        words.push(format!("value={}", self.value));
        if self.granted {
            words.push("granted=1".into());
        }
        if let Some(tag) = &self.tag {
            words.extend([format!("tag={}", tag.name), format!("asked={}", tag.asked)]);
        }
        words
            .into_iter()
            .filter_map(|word| CString::new(word).ok())
            .collect()
    }

    /// Reads the words behind `--holder`. A word that an older version did not write has
    /// the value that it stood for then.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let words = DeviceWords::parse(words)?;
        let find = |key: &str| words.find(key);
        let number = |key: &str| find(key).map_or(Some(0), |text| text.parse::<u64>().ok());
        let seconds = |key: &str| Duration::try_from_secs_f64(find(key)?.parse().ok()?).ok();
        let until = match find("hold") {
            Some(text) => match process(text, number("hold-start")?)? {
                Process { pid: 0, .. } => Until::Released,
                process => Until::Over(process, seconds("longest")),
            },
            None => Until::Programs {
                wait: seconds("for").unwrap_or_default(),
                linger: seconds("linger").unwrap_or_default(),
            },
        };
        Some(Self {
            value: find("value").unwrap_or_default().to_owned(),
            caller: process(find("caller")?, number("start")?)?,
            since: number("since")?,
            record: find("record").map(str::to_owned),
            job: find("job").map(|id| Job {
                id: id.into(),
                task: find("task").and_then(|task| task.parse().ok()),
            }),
            grant: find("grant").map_or(Some(Vec::new()), parse_devices)?,
            granted: find("granted").is_some(),
            tag: find("tag").map(|name| Tag {
                name: name.into(),
                asked: find("asked").unwrap_or_default().into(),
            }),
            devices: words.devices,
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

    /// The process whose lease this is, as if cudawrap had started it: a program beside it
    /// must not use the device, whatever reservation both run under.
    pub fn lessee(&self) -> Option<&Process> {
        let tag = self.tag.as_ref()?;
        self.held_for().filter(|_| tag.name.starts_with(LEASE_TAG))
    }

    /// Whether it is the lease of a program that is beside those of a `lineage`, and not
    /// one of them. To `lease_of`, a process that asks for a lease, its own are such too.
    pub fn is_lease_beside(&self, lineage: &[(i32, u64)], lease_of: Option<i32>) -> bool {
        self.lessee().is_some_and(|lessee| {
            let above = lineage.contains(&(lessee.pid, lessee.start));
            !above || lease_of == Some(lessee.pid)
        })
    }

    /// Whether it follows the programs that name its devices, as a plain reservation does.
    pub fn is_plain(&self) -> bool {
        matches!(self.until, Until::Programs { .. })
    }

    /// The batch job that it is for: the prolog's are named after theirs.
    pub fn job(&self) -> Option<Job> {
        let of_tag = || {
            let id = self.tag.as_ref()?.name.strip_prefix("slurm-")?;
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
        let made_for = |(pid, _): &(i32, u64)| {
            self.held_for().is_some_and(|process| process.pid == *pid) || self.caller.pid == *pid
        };
        lineage.iter().position(made_for).unwrap_or(usize::MAX)
    }
}

/// Devices as one word: `MIG-...,MIG-...`.
fn joined(devices: &[Uuid]) -> String {
    let devices = devices.iter().map(Uuid::as_str);
    devices.collect::<Vec<_>>().join(",")
}

fn parse_devices(text: &str) -> Option<Vec<Uuid>> {
    text.split(',').map(Uuid::parse).collect()
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
