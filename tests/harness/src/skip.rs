//! Tests that need more than every machine has, or what some machines forbid: they say so
//! in one line and pass. The line goes past the test runner's capture and into the file
//! that `SKIPPED_LOG` names, which `make check` counts at its end.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a test may need.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// To run as root, for other users and mounts.
    Root,
    /// This program in PATH.
    Tool(&'static str),
    /// A mount namespace of one's own (root).
    Mounts,
    /// A user namespace for an ordinary user.
    UserNamespace,
    /// That this machine's own settings, lock and records can be hidden from a program.
    Bare,
    /// Process ids of the host, and not of a container.
    HostPids,
}

/// Whether something is missing; then it has been said and the test returns.
pub fn lacks(needs: &[Need]) -> bool {
    let Some(why) = needs.iter().find_map(|need| need.missing()) else {
        return false;
    };
    say(&why);
    true
}

/// Says that this test does not do what it is for, and why.
pub fn say(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    let log = std::env::var_os("SKIPPED_LOG");
    let log = log.and_then(|path| File::options().append(true).create(true).open(path).ok());
    if let Some(mut log) = log {
        let _ = log.write_all(line.as_bytes());
    }
}

impl Need {
    fn missing(self) -> Option<String> {
        let root = nix::unistd::geteuid().is_root();
        let (there, why) = match self {
            Self::Root => (root, "not run as root"),
            Self::Tool(name) => (tool(name).is_some(), name),
            Self::Mounts => (root && works("unshare -m true"), "no mount namespaces here"),
            Self::UserNamespace => {
                let plain = if root {
                    "setpriv --reuid=1001 --clear-groups "
                } else {
                    ""
                };
                let there = works(&format!("{plain}unshare -Ur true"));
                (there, "no user namespaces for ordinary users here")
            }
            Self::Bare => (
                crate::sandbox::nothing_to_hide() || works("unshare -rm true"),
                "the getgpu of this machine cannot be hidden: no namespaces here",
            ),
            Self::HostPids => {
                // PROC_PID_INIT_INO (include/linux/proc_ns.h).
                let own = std::fs::metadata("/proc/self/ns/pid");
                let there = own.is_ok_and(|own| own.ino() == 0xEFFF_FFFC);
                (there, "in a pid namespace of its own")
            }
        };
        let why = match self {
            Self::Tool(name) => format!("{name} is not installed"),
            _ => why.to_owned(),
        };
        (!there).then_some(why)
    }
}

/// Where `name` is in PATH.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

fn works(line: &str) -> bool {
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
