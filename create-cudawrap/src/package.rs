//! Which package a file belongs to, as dpkg and rpm know it. The tools are run without a
//! shell, with a time limit, and only where they exist.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use getgpu_model::{Failure, reason};

use crate::causes::{PackageFault, PathCause};

use crate::wrapper::tool;

/// dpkg-query(1): 1 says that no package has such a file; 2 is a failure, such as a data base
/// that cannot be read.
const DPKG_KNOWS_NONE: RangeInclusive<i32> = 1..=1;
/// rpm says the same by any status; those from 124 on are timeout(1)'s.
const RPM_KNOWS_NONE: RangeInclusive<i32> = 1..=123;
/// timeout(1) has ended the tool.
const TIMED_OUT: i32 = 124;

/// The package that owns `path`.
pub fn owner(path: &Path) -> Result<Option<String>, Failure> {
    if let Some(dpkg) = tool("dpkg") {
        for path in spellings(path) {
            let args = [OsStr::new("-S"), OsStr::new("--"), path.as_os_str()];
            let known = known(&dpkg, &args, DPKG_KNOWS_NONE)?;
            if let Some(package) = known.as_deref().and_then(dpkg_package) {
                return Ok(Some(package));
            }
        }
    }
    if let Some(rpm) = tool("rpm") {
        let args = ["-qf", "--queryformat", "%{NAME}\\n"].map(OsStr::new);
        let args = [&args[..], &[path.as_os_str()]].concat();
        let known = known(&rpm, &args, RPM_KNOWS_NONE)?;
        if let Some(package) = known.as_deref().and_then(|text| text.lines().next()) {
            return Ok(Some(package.to_owned()));
        }
    }
    Ok(None)
}

/// What `program`, which reads a data base, knows of a file; nothing if it ended by one of the
/// statuses `none`. Any other end, such as that by a signal or for want of memory, is no
/// answer; timeout(1) ends one that hangs.
fn known(
    program: &Path,
    args: &[&OsStr],
    none: RangeInclusive<i32>,
) -> Result<Option<String>, Failure> {
    let timeout = tool("timeout").unwrap_or_else(|| "/usr/bin/timeout".into());
    let Output { status, stdout, .. } = Command::new(timeout)
        .args(["-k", "1", "10"])
        .arg(program)
        .args(args)
        .env("LC_ALL", "C")
        // Debian's rpm makes a database in the home of the user who runs it.
        .env("HOME", "/dev/null")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| {
            let why = reason(&error);
            unanswered(program, PackageFault::NotStarted { why })
        })?;
    match status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&stdout).into_owned())),
        Some(TIMED_OUT) => Err(unanswered(program, PackageFault::NoAnswer)),
        Some(code) if none.contains(&code) => Ok(None),
        _ => Err(unanswered(program, PackageFault::Failed { status })),
    }
}

/// The failure of a tool that does not say whose file it is.
fn unanswered(tool: &Path, why: PackageFault) -> Failure {
    let tool = tool.display();
    PathCause::PackageUnknown { tool, why }.into()
}

/// With and without `/usr`: where /bin is a link to /usr/bin, packages may have recorded
/// either.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if let Ok(rest) = path.strip_prefix("/usr") {
        let short = Path::new("/").join(rest);
        let real_directory = directory(&short);
        if real_directory.is_some() && real_directory == directory(path) {
            all.push(short);
        }
    }
    all
}

/// The directory of a file, without links.
fn directory(path: &Path) -> Option<PathBuf> {
    path.parent()?.canonicalize().ok()
}

/// The first package in dpkg's answer (`a, b: /path`), which also speaks of diversions.
fn dpkg_package(answer: &str) -> Option<String> {
    let mut owners = answer
        .lines()
        .filter(|line| !line.starts_with("diversion by ") && !line.starts_with("local diversion "));
    let (packages, _) = owners.find_map(|line| line.split_once(": /"))?;
    packages.split(", ").next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpkgs_answer_is_read_without_its_diversions() {
        let answer = "diversion by dash from: /bin/sh\nlocal diversion to: /bin/sh.x\ncoreutils, other:amd64: /bin/ls\n";
        assert_eq!(dpkg_package(answer).as_deref(), Some("coreutils"));
        assert_eq!(dpkg_package("local diversion from: /bin/sh\n"), None);
    }
}
