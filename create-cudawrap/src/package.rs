//! Which package a file belongs to, as dpkg and rpm know it. The tools are run without a
//! shell, with a time limit, and only where they exist.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::poll;

use crate::wrapper::tool;

/// dpkg-query(1): 1 says that no package has such a file; 2 is a failure, such as a data base
/// that cannot be read.
const DPKG_KNOWS_NONE: RangeInclusive<i32> = 1..=1;
/// rpm says the same by any status; from 126 on it did not even run.
const RPM_KNOWS_NONE: RangeInclusive<i32> = 1..=125;
const LIMIT: Duration = Duration::from_secs(10);
/// More of an answer is not read.
const LONGEST: usize = 1 << 20;

/// The package that owns `path`.
pub fn owner(path: &Path) -> Result<Option<String>, Failure> {
    if let Some(dpkg) = tool("dpkg") {
        for path in spellings(path) {
            let args = [OsStr::new("-S"), OsStr::new("--"), &literal(&path)];
            let known = ask(&dpkg, &args)?.known(&dpkg, DPKG_KNOWS_NONE)?;
            if let Some(package) = known.as_deref().and_then(dpkg_package) {
                return Ok(Some(package));
            }
        }
    }
    if let Some(rpm) = tool("rpm") {
        let args = ["-qf", "--queryformat", "%{NAME}\\n"].map(OsStr::new);
        let args = [&args[..], &[path.as_os_str()]].concat();
        let known = ask(&rpm, &args)?.known(&rpm, RPM_KNOWS_NONE)?;
        if let Some(package) = known.as_deref().and_then(|text| text.lines().next()) {
            return Ok(Some(package.to_owned()));
        }
    }
    Ok(None)
}

struct Answer {
    status: ExitStatus,
    bytes: Vec<u8>,
}

impl Answer {
    /// What `tool` knows of a file; nothing if it ended by one of the statuses `none`.
    /// Any other end, such as that by a signal or for want of memory, is no answer.
    fn known(self, tool: &Path, none: RangeInclusive<i32>) -> Result<Option<String>, Failure> {
        match self.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&self.bytes).into_owned())),
            Some(code) if none.contains(&code) => Ok(None),
            _ => Err(unanswered(tool, &format!("failed ({})", self.status))),
        }
    }
}

/// The failure of a tool that does not say whose file it is.
fn unanswered(tool: &Path, why: &str) -> Failure {
    Failure::new(Kind::Refused, format!("{}: {why}", tool.display()))
        .hint("--force wraps without asking which package owns the file")
}

/// Runs a tool that reads a data base and answers; one that hangs is given up.
fn ask(program: &Path, args: &[&OsStr]) -> Result<Answer, Failure> {
    let failed = |why: &str| unanswered(program, why);
    let mut child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        // Debian's rpm makes a data base of its own in the home of whoever asks it
        // anything.
        .env("HOME", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| failed(&reason(&e)))?;
    let until = Instant::now() + LIMIT;
    let Some(bytes) = output(&mut child, until) else {
        let _ = child.kill();
        return Err(failed("no answer in 10 s"));
    };
    loop {
        match child.try_wait().map_err(|e| failed(&reason(&e)))? {
            Some(status) => {
                return Ok(Answer { status, bytes });
            }
            None if Instant::now() >= until => {
                let _ = child.kill();
                return Err(failed("does not exit"));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// What a program prints until it closes its standard output; none if it has not at `until`.
fn output(child: &mut Child, until: Instant) -> Option<Vec<u8>> {
    let mut pipe = child.stdout.take()?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    while bytes.len() < LONGEST {
        if !poll::readable(&pipe, until).ok()? {
            return None;
        }
        match pipe.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(piece.get(..length)?),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Some(bytes)
}

/// With and without `/usr`: where /bin is a link to /usr/bin, packages may have recorded
/// either.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if let Ok(rest) = path.strip_prefix("/usr") {
        let short = Path::new("/").join(rest);
        let same_dir = |a: &Path, b: &Path| {
            Some((a.parent()?.canonicalize().ok()?) == b.parent()?.canonicalize().ok()?)
        };
        if same_dir(&short, path) == Some(true) {
            all.push(short);
        }
    }
    all
}

/// The path as dpkg's pattern that means just this path.
fn literal(path: &Path) -> std::ffi::OsString {
    let special = |b: &u8| matches!(b, b'*' | b'?' | b'[' | b']' | b'\\');
    let escaped = path
        .as_os_str()
        .as_bytes()
        .iter()
        .flat_map(|b| special(b).then_some(b'\\').into_iter().chain([*b]));
    std::ffi::OsString::from_vec(escaped.collect())
}

/// The first package in dpkg's answer (`a, b: /path`), which also speaks of diversions.
fn dpkg_package(answer: &str) -> Option<String> {
    let mut owners = answer
        .lines()
        .filter(|line| !line.starts_with("diversion by ") && !line.starts_with("local diversion "));
    owners.find_map(|line| {
        line.split_once(": /")
            .map(|(packages, _)| packages.split(", ").next().unwrap_or(packages).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpkgs_answer_is_read_without_its_diversions() {
        let answer = "diversion by dash from: /bin/sh\nlocal diversion to: /bin/sh.x\ncoreutils, other:amd64: /bin/ls\n";
        assert_eq!(dpkg_package(answer).as_deref(), Some("coreutils"));
        assert_eq!(dpkg_package("local diversion from: /bin/sh\n"), None);
        assert_eq!(literal(Path::new("/a/[*")), OsStr::new("/a/\\[\\*"));
    }
}
