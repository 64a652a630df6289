//! Wrapped programs in a sandbox: links to cudawrap beside a payload, and what the
//! payload saw.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::{Command, Sandbox, skip};

use crate::bytes;

/// Puts `program` of the sandbox's `bin` into `directory` as `CUDAWRAP_name`, and `name`
/// beside it as a link to cudawrap.
pub fn wrap(sandbox: &Sandbox, directory: &str, name: &str, program: &str) -> PathBuf {
    let hidden = sandbox.path(&format!("{directory}/CUDAWRAP_{name}"));
    put(sandbox, &hidden, program);
    let link = hidden.with_file_name(name);
    symlink(sandbox.path("bin/cudawrap"), &link).expect("a link to cudawrap");
    link
}

/// Wraps a shell as `directory/name` in `sandbox`; gives the path that is started.
pub fn wrap_shell(sandbox: &Sandbox, directory: &str, name: &str) -> PathBuf {
    let link = wrap(sandbox, directory, name, "probe");
    let hidden = link.with_file_name(format!("CUDAWRAP_{name}"));
    fs::remove_file(&hidden).expect("its program");
    fs::copy("/bin/bash", &hidden).expect("a copy of the shell");
    link
}

/// Puts `program` of the sandbox's `bin` at `path`, as another name of the same file.
pub fn put(sandbox: &Sandbox, path: &Path, program: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
    fs::hard_link(sandbox.path("bin").join(program), path).expect("a program of the sandbox");
}

/// A python3 that runs with the sandbox's environment, not only with the test's.
pub fn python() -> Option<String> {
    ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .map(str::to_owned)
}

/// Whether there is no python3; then it has been said.
pub fn lacks_python() -> bool {
    python().is_none() && skip::lacks(&[skip::Need::Tool("/usr/bin/python3")])
}

/// What a probe said of itself, by name and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    lines: Vec<(String, String)>,
}

impl Facts {
    /// Reads what a probe printed.
    pub fn parse(text: &str) -> Self {
        let pair = |line: &str| {
            let start = if line.starts_with("env ") { 4 } else { 0 };
            let end = line[start..].find(' ').map_or(line.len(), |at| at + start);
            (
                line[..end].to_owned(),
                line[end..].strip_prefix(' ').unwrap_or("").to_owned(),
            )
        };
        Self {
            lines: text.lines().map(pair).collect(),
        }
    }

    /// Reads what a probe left in the file of `--out`.
    #[track_caller]
    pub fn read(path: &Path) -> Self {
        Self::parse(
            &fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    }

    /// What the probe that this command starts prints.
    #[track_caller]
    pub fn of(command: Command) -> Self {
        Self::parse(&command.run().exits(0).stdout)
    }

    /// A variable of its environment; empty where it has none.
    pub fn env(&self, name: &str) -> &str {
        self.get(&format!("env {name}")).unwrap_or("")
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All arguments, the name first.
    pub fn arguments(&self) -> Vec<&str> {
        (0..)
            .map_while(|number| self.get(&format!("arg{number}")))
            .collect()
    }

    /// CUDA_VISIBLE_DEVICES.
    pub fn visible(&self) -> Option<&str> {
        self.get("env CUDA_VISIBLE_DEVICES")
    }

    /// Number and description of the descriptors that lead to `path`.
    pub fn descriptors_of(&self, path: &Path) -> Vec<(i32, String)> {
        let end = format!(" {}", path.display());
        let of = |(name, value): &(String, String)| {
            let number = name.strip_prefix("fd")?.parse().ok()?;
            Some((number, value.strip_suffix(&end)?.to_owned()))
        };
        self.lines.iter().filter_map(of).collect()
    }

    /// The descriptors of the lock that hold the lease of a whole device, by a read lock on
    /// all of its units.
    pub fn leases(&self, sandbox: &Sandbox, uuid: &str) -> Vec<i32> {
        let first = bytes::span(uuid) + bytes::LEASE;
        let locked = |fd: &i32| {
            let name = format!("lock{fd}");
            let is_lease = |value: &str| {
                let Some((start, end)) = value
                    .strip_prefix("READ ")
                    .and_then(|range| range.split_once(' '))
                else {
                    return false;
                };
                let number = |text: &str| text.parse::<i64>().ok();
                number(start).is_some_and(|start| start <= first)
                    && number(end).is_some_and(|end| end >= first + bytes::UNITS - 1)
            };
            self.lines
                .iter()
                .any(|(known, value)| *known == name && is_lease(value))
        };
        let numbers = self.descriptors_of(&sandbox.lock());
        numbers
            .into_iter()
            .map(|(fd, _)| fd)
            .filter(locked)
            .collect()
    }

    /// All facts but those that `leave_out` names, as lines.
    pub fn without(&self, leave_out: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let kept = self
            .lines
            .iter()
            .filter(|(name, value)| !leave_out(name, value));
        kept.map(|(name, value)| format!("{name} {value}"))
            .collect()
    }

    /// How often each line is there in one but not in the other, for a readable failure.
    pub fn difference(ours: &[String], theirs: &[String]) -> BTreeMap<String, i32> {
        let mut counts = BTreeMap::new();
        for line in ours {
            *counts.entry(format!("wrapped: {line}")).or_default() += 1;
        }
        for line in theirs {
            let other = format!("wrapped: {line}");
            match counts.get_mut(&other) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => drop(counts.remove(&other)),
                None => *counts.entry(format!("direct: {line}")).or_default() += 1,
            }
        }
        counts
    }
}
