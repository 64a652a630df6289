//! The holder's command line: what it reserves, for whom and until when. People read it
//! in ps(1), getgpu reads it back (`getgpu_common::lock::own::HolderLine`), and the
//! holder itself takes everything it needs from it.

use std::ffi::{CString, OsString};
use std::time::Duration;

use getgpu_common::ident::Uuid;
use getgpu_common::job::Job;
use getgpu_common::lock::ownership_proof;

use crate::caller::Process;

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
    /// Until this process is over, so long at most.
    Over(Process, Option<Duration>),
    /// Until it is released.
    Released,
}

/// Everything a holder is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderArgs {
    /// What it reserves.
    pub devices: Vec<Uuid>,
    /// What was printed: a program that has exactly this in CUDA_VISIBLE_DEVICES names
    /// the device.
    pub value: String,
    /// For whom.
    pub caller: Process,
    /// The batch job that it is made in.
    pub job: Option<Job>,
    /// What the system's log is told of its end; `None`: nothing.
    pub record: Option<String>,
    /// The caller's forks between it and the getgpu that made it, as pid and start.
    pub forks: Vec<(i32, u64)>,
    /// Start of the getgpu that made it, in clock ticks: unreadable processes count only
    /// from then on.
    pub since: u64,
    /// The value was in the environment of getgpu or its caller before: older programs
    /// that have it do not count.
    pub granted: bool,
    /// Until when.
    pub until: Until,
    /// Its name, and what was asked for under it.
    pub tag: Option<Tag>,
}

/// The name of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The name.
    pub name: String,
    /// A number that is the same for the same request.
    pub asked: String,
}

impl HolderArgs {
    /// The words behind `getgpu --holder`. A NUL cannot occur: process names end at one.
    pub fn words(&self) -> Vec<CString> {
        let devices = self
            .devices
            .iter()
            .map(Uuid::as_str)
            .collect::<Vec<_>>()
            .join(",");
        let mut words = vec![
            devices,
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
        if !self.forks.is_empty() {
            words.push(format!(
                "forks={}",
                ownership_proof::forks_text(&self.forks)
            ));
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

    /// Reads the words back.
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let devices = arguments.next()?.into_string().ok()?;
        let devices: Vec<Uuid> = devices.split(',').map(Uuid::parse).collect::<Option<_>>()?;
        let words: Vec<String> = arguments
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let find = |key: &str| {
            words
                .iter()
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        let number = |key: &str| find(key)?.parse::<u64>().ok();
        let seconds = |key: &str| Duration::try_from_secs_f64(find(key)?.parse().ok()?).ok();
        let until = match find("hold") {
            Some("0()") => Until::Released,
            Some(process) => {
                Until::Over(named(process, number("hold-start")?)?, seconds("longest"))
            }
            None => Until::Programs {
                wait: seconds("for")?,
                linger: seconds("linger")?,
            },
        };
        Some(Self {
            value: find("value")?.to_owned(),
            caller: named(find("caller")?, number("start")?)?,
            since: number("since")?,
            record: find("record").map(str::to_owned),
            job: find("job").map(|id| Job {
                id: id.into(),
                task: find("task").and_then(|task| task.parse().ok()),
            }),
            forks: find("forks")
                .and_then(ownership_proof::parse_forks)
                .unwrap_or_default(),
            granted: find("granted").is_some(),
            tag: find("tag").zip(find("asked")).map(|(name, asked)| Tag {
                name: name.into(),
                asked: asked.into(),
            }),
            devices,
            until,
        })
    }
}

/// `4711(bash)`
fn named(text: &str, start: u64) -> Option<Process> {
    let (pid, name) = text.split_once('(')?;
    Some(Process {
        pid: pid.parse().ok()?,
        start,
        name: name.strip_suffix(')')?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn what_is_written_is_read_back() {
        let process = |pid, name: &str| Process {
            pid,
            start: 99,
            name: name.into(),
        };
        let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
        let line = |until| HolderArgs {
            devices: vec![uuid.clone()],
            value: "3".into(),
            caller: process(4711, "odd (name=x)"),
            since: 123,
            record: Some("MIG-1 user=ana share=1".into()),
            job: Some(Job {
                id: "7.0".into(),
                task: Some(3),
            }),
            forks: vec![(4712, 100), (4713, 101)],
            granted: true,
            until,
            tag: Some(Tag {
                name: "slurm-7".into(),
                asked: "1f".into(),
            }),
        };
        for until in [
            Until::Programs {
                wait: Duration::from_millis(1500),
                linger: Duration::from_secs(5),
            },
            Until::Over(process(5, "bash"), None),
            Until::Over(process(5, "bash"), Some(Duration::from_secs(3600))),
            Until::Released,
        ] {
            let line = line(until);
            let words = line
                .words()
                .into_iter()
                .map(|word| OsString::from_vec(word.into_bytes()));
            assert_eq!(HolderArgs::parse(words), Some(line));
        }
        assert_eq!(HolderArgs::parse(["x".into()].into_iter()), None);
    }
}
