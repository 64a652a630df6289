//! The folder that `SIM_NODE` names: the only thing the simulated parts and the tests
//! share. Several users work in it at once.

use crate::faults::Faults;
use crate::gpu::Node;
use crate::inventory::Inventory;
use crate::{builtin, shared_file};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of a simulated node.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

/// A line of `calls.log`: `PID function args`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The caller.
    pub pid: u32,
    /// The C function, or `attach` when a GPU was touched for the first time in a
    /// session.
    pub function: String,
    /// What it was called for.
    pub args: String,
}

/// A context of a simulated program, from `runs.log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Device.
    pub uuid: String,
    /// Process, as it sees itself.
    pub pid: u32,
    /// Its `--tag`.
    pub tag: String,
    /// CLOCK_MONOTONIC in ns when the context began.
    pub start: u64,
    /// When it ended by itself; `None` if killed or still running.
    pub end: Option<u64>,
}

/// A line of `collisions.log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// Device.
    pub uuid: String,
    /// Who came second.
    pub pid: u32,
    /// Who was there.
    pub other: u32,
}

impl Folder {
    /// Makes the folder with this `node.toml`: the name of a built-in inventory, or TOML.
    pub fn create(root: impl Into<PathBuf>, node: &str) -> io::Result<Self> {
        let folder = Self { root: root.into() };
        shared_file::directory(&folder.root)?;
        shared_file::directory(&folder.running_dir())?;
        folder.set_node(node)?;
        for log in ["runs.log", "collisions.log"] {
            shared_file::open_or_create(&folder.path(log))?;
        }
        Ok(folder)
    }

    /// An existing folder.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder that `SIM_NODE` names, if it is set.
    pub fn from_env() -> Option<Self> {
        std::env::var_os("SIM_NODE")
            .filter(|root| !root.is_empty())
            .map(Self::open)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn running_dir(&self) -> PathBuf {
        self.path("running")
    }

    /// The node as it is now.
    pub fn node(&self) -> io::Result<Node> {
        parse(&fs::read_to_string(self.path("node.toml"))?)
    }

    /// Changes the node: the name of a built-in inventory, or TOML. Seen at the next
    /// `nvmlInit`.
    pub fn set_node(&self, node: &str) -> io::Result<()> {
        let text = builtin(node).unwrap_or(node);
        parse(text)?;
        shared_file::replace(&self.path("node.toml"), text)
    }

    /// What is wrong now; nothing if there is no `faults.toml`.
    pub fn faults(&self) -> io::Result<Faults> {
        match fs::read_to_string(self.path("faults.toml")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Faults::default()),
            Err(error) => Err(error),
            Ok(text) => Faults::parse(&text).map_err(io::Error::other),
        }
    }

    /// Changes what is wrong (TOML; empty: nothing). Seen at the next `nvmlInit`.
    pub fn set_faults(&self, toml: &str) -> io::Result<()> {
        Faults::parse(toml).map_err(io::Error::other)?;
        shared_file::replace(&self.path("faults.toml"), toml)
    }

    /// Logs a call if calls are logged.
    pub fn log_call(&self, function: &str, args: &str) {
        // Without O_CREAT: the file's existence is the switch.
        if let Ok(mut log) = OpenOptions::new().append(true).open(self.path("calls.log")) {
            let line = format!("{} {function} {args}", std::process::id());
            let _ = log.write_all(format!("{}\n", line.trim_end()).as_bytes());
        }
    }

    /// From now on calls are logged; what was logged before is gone.
    pub fn log_calls(&self) -> io::Result<()> {
        shared_file::replace(&self.path("calls.log"), "")
    }

    /// The calls logged since [`Folder::log_calls`], attaches included.
    pub fn calls(&self) -> io::Result<Vec<Call>> {
        let parse = |line: &str| {
            let mut parts = line.splitn(3, ' ');
            let (pid, function) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
            Some(Call {
                pid,
                function,
                args: parts.next().unwrap_or("").to_owned(),
            })
        };
        self.lines("calls.log", parse)
    }

    /// Those of them that touched a GPU for the first time in their session.
    pub fn attaches(&self) -> io::Result<Vec<Call>> {
        let mut calls = self.calls()?;
        calls.retain(|call| call.function == "attach");
        Ok(calls)
    }

    /// The contexts of simulated programs so far, in the order in which they began.
    pub fn runs(&self) -> io::Result<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        for line in self.lines("runs.log", |line| Some(line.to_owned()))? {
            let parts: Vec<&str> = line.splitn(5, ' ').collect();
            let [event, time, uuid, pid, tag] = parts[..] else {
                continue;
            };
            let (Ok(time), Ok(pid)) = (time.parse(), pid.parse()) else {
                continue;
            };
            if event == "start" {
                runs.push(Run {
                    uuid: uuid.to_owned(),
                    pid,
                    tag: tag.to_owned(),
                    start: time,
                    end: None,
                });
                continue;
            }
            let mut begun = runs.iter_mut().rev();
            if let Some(run) = begun.find(|run| run.pid == pid && run.uuid == uuid) {
                run.end = Some(time);
            }
        }
        Ok(runs)
    }

    /// The collisions so far.
    pub fn collisions(&self) -> io::Result<Vec<Collision>> {
        let parse = |line: &str| {
            let parts: Vec<&str> = line.split(' ').collect();
            let [_, uuid, pid, other, ..] = parts[..] else {
                return None;
            };
            Some(Collision {
                uuid: uuid.to_owned(),
                pid: pid.parse().ok()?,
                other: other.parse().ok()?,
            })
        };
        self.lines("collisions.log", parse)
    }

    fn lines<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> io::Result<Vec<T>> {
        let text = fs::read_to_string(self.path(name))?;
        Ok(text.lines().filter_map(parse).collect())
    }
}

fn parse(text: &str) -> io::Result<Node> {
    let node = Inventory::parse(text).and_then(|inventory| Node::new(&inventory));
    node.map_err(io::Error::other)
}
