//! Wrapped programs in a sandbox: links to cudawrap beside a payload, and what the
//! payload saw.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::{Command, Sandbox, copy_program, skip};

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
    copy_program("/bin/bash", &hidden);
    link
}

/// Wraps a script as `directory/name`; gives the path that is started.
pub fn wrap_script(sandbox: &Sandbox, directory: &str, name: &str, text: &str) -> PathBuf {
    let link = wrap(sandbox, directory, name, "probe");
    let hidden = link.with_file_name(format!("CUDAWRAP_{name}"));
    fs::remove_file(&hidden).expect("its program");
    sandbox.file(&format!("{directory}/CUDAWRAP_{name}"), text, 0o755);
    link
}

/// Puts `program` of the sandbox's `bin` at `path`, as another name of the same file.
pub fn put(sandbox: &Sandbox, path: &Path, program: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
    fs::hard_link(sandbox.path("bin").join(program), path).expect("a program of the sandbox");
}

/// A python3 that runs with the sandbox's environment, not only with the test's.
pub fn python() -> Option<String> {
    let places = ["/usr/bin/python3", "/usr/local/bin/python3"];
    let found = places.into_iter().find(|path| Path::new(path).exists());
    found.map(str::to_owned)
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
            let value = line[end..].strip_prefix(' ').unwrap_or("");
            (line[..end].to_owned(), value.to_owned())
        };
        let lines = text.lines().map(pair).collect();
        Self { lines }
    }

    /// Reads what a probe left in the file of `--out`.
    #[track_caller]
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path);
        Self::parse(&text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
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
        let found = self.lines.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All arguments, the name first.
    pub fn arguments(&self) -> Vec<&str> {
        let argument = |number: u32| self.get(&format!("arg{number}"));
        (0..).map_while(argument).collect()
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
        let is_lease = |value: &str| {
            let mut words = value.split(' ');
            let kind = words.next();
            let mut number = || words.next()?.parse::<i64>().ok();
            let (start, end) = (number(), number());
            kind == Some("READ")
                && start.is_some_and(|start| start <= first)
                && end.is_some_and(|end| end >= first + bytes::UNITS - 1)
        };
        let locked = |(fd, _): &(i32, String)| {
            let name = format!("lock{fd}");
            let mut lines = self.lines.iter();
            lines.any(|(known, value)| *known == name && is_lease(value))
        };
        let descriptors = self.descriptors_of(&sandbox.lock()).into_iter();
        descriptors.filter(locked).map(|(fd, _)| fd).collect()
    }

    /// All facts but those that `leave_out` names, as lines.
    pub fn without(&self, leave_out: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let lines = self.lines.iter();
        let kept = lines.filter(|(name, value)| !leave_out(name, value));
        kept.map(|(name, value)| format!("{name} {value}"))
            .collect()
    }

    /// By how much the count of each line differs between the two outputs.
    pub fn difference(ours: &[String], theirs: &[String]) -> BTreeMap<String, i32> {
        let mut counts = BTreeMap::new();
        for (lines, one) in [(ours, 1), (theirs, -1)] {
            for line in lines {
                *counts.entry(line.clone()).or_default() += one;
            }
        }
        counts.retain(|_, count| *count != 0);
        counts
    }
}
