//! NVIDIA's control daemon: finding the program, seeing whether a daemon listens,
//! starting one, and ending it by its own `quit`. It is never looked for, and never
//! killed, by a process's name or number (nvidia-cuda-mps-control(1)).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use getgpu_linux::{can_run, directories, run_clock, sys, unseen_child::absolute_entries};
use getgpu_model::{Failure, Uuid, reason};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::directory::MpsDirectory;
use super::variables::{LOG, PIPE};
use crate::causes::{DaemonFault, MpsCause, MpsRemedy};

const NAME: &str = "nvidia-cuda-mps-control";
/// Where packages and containers put it, behind PATH.
const PLACES: [&str; 5] = [
    "/usr/bin",
    "/usr/local/bin",
    "/usr/local/nvidia/bin",
    "/usr/local/cuda/bin",
    "/usr/lib/wsl/lib",
];
/// Where the daemon looks for its server, behind its own directory.
const SERVER_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a daemon may take to listen.
const LISTENS: Duration = Duration::from_secs(10);
/// How long after a quit command that had no effect it is sent again.
pub const AGAIN: Duration = Duration::from_millis(200);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(2);

/// How to speak to the daemon of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Of this user, device and batch job.
    pub directory: MpsDirectory,
    /// nvidia-cuda-mps-control.
    pub program: PathBuf,
    /// The device, as the daemon is to see it.
    pub device: String,
    /// LD_LIBRARY_PATH for the daemon and its server, which loads the driver's library.
    pub libraries: Option<OsString>,
}

impl Control {
    /// The program in the absolute entries of `path`, else where it usually is. The
    /// daemon runs as the user whose PATH that is.
    pub fn find(device: &Uuid, path: Option<OsString>) -> Result<Self, Failure> {
        let entries = directories(path.as_deref()).into_iter();
        let program = entries
            .filter(|entry| entry.is_absolute())
            .chain(PLACES.map(PathBuf::from))
            .map(|directory| directory.join(NAME))
            .find(|file| can_run(file));
        let program = program.ok_or_else(|| {
            let name = NAME;
            MpsCause::NotInstalled { name }
        })?;
        let libraries = std::env::var_os("LD_LIBRARY_PATH").filter(|_| !sys::secure_execution());
        Ok(Self {
            directory: MpsDirectory::of(device),
            program,
            device: device.to_string(),
            libraries: libraries
                .and_then(|list| absolute_entries(list.as_bytes()))
                .map(OsString::from_vec),
        })
    }

    /// Starts the daemon; when this returns it listens. The error says why it does not, with
    /// what its log says.
    pub fn start(&self) -> Result<(), Failure> {
        let said = self.directory.log().join("start.log");
        let (listening, status) = self
            .run_until_it_listens(&said)
            .map_err(|error| self.failed(&reason(&error)))?;
        if listening {
            return Ok(());
        }
        let (program, seconds) = (self.program.display(), LISTENS.as_secs());
        let why = last_line(&said).unwrap_or_else(|| match status {
            Some(status) => DaemonFault::Ended { program, status }.to_string(),
            None => DaemonFault::NotReady { program, seconds }.to_string(),
        });
        Err(self.failed(&why))
    }

    /// Whether a daemon listens, and the status of the command that starts it. Some daemons
    /// listen a little after their command has exited; one whose command failed never does.
    fn run_until_it_listens(&self, said: &Path) -> io::Result<(bool, Option<ExitStatus>)> {
        let output = File::create(said)?;
        let mut command = self
            .command()
            .arg("-d")
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .spawn()?;
        let deadline = run_clock::now() + LISTENS;
        loop {
            let status = command.try_wait()?;
            let listening = status.is_some() && listens(&self.directory)?;
            let failed = status.is_some_and(|status| !status.success());
            if listening || failed {
                return Ok((listening, status));
            }
            if run_clock::now() >= deadline {
                let _ = command.kill();
                let _ = command.wait();
                return Ok((listens(&self.directory)?, status));
            }
            run_clock::sleep(PAUSE);
        }
    }

    /// Why it cannot be started, with what its log says.
    fn failed(&self, why: &str) -> Failure {
        let (uuid, program) = (&self.device, self.program.display());
        let remedy = match last_line(&self.directory.log().join("control.log")) {
            Some(line) => MpsRemedy::Log { line },
            None => MpsRemedy::NoLog { program },
        };
        MpsCause::NotStarted { uuid, why, remedy }.into()
    }

    /// Ends the daemon and its server, which first waits for clients that it still has.
    /// False if it still listens after [`AGAIN`], or if that cannot be told.
    pub fn quit(&self) -> bool {
        let mut command = self.command();
        if let Ok(mut child) = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
        {
            if let Some(mut words) = child.stdin.take() {
                let _ = words.write_all(b"quit\n");
            }
            let _ = child.wait();
        }
        // Its front end may end a little before it does.
        let deadline = run_clock::now() + AGAIN;
        while !matches!(listens(&self.directory), Ok(false)) {
            if run_clock::now() >= deadline {
                return false;
            }
            run_clock::sleep(PAUSE);
        }
        true
    }

    fn command(&self) -> Command {
        let own = self.program.parent().unwrap_or(Path::new("/usr/bin"));
        let path = [own.as_os_str(), OsStr::new(SERVER_PATH)].join(OsStr::new(":"));
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", path)
            .env(PIPE, self.directory.pipe())
            .env(LOG, self.directory.log())
            .env("CUDA_VISIBLE_DEVICES", &self.device);
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }
}

/// Whether a daemon accepts clients, asked as a CUDA program asks it.
///
/// # Errors
///
/// It cannot be told: no descriptor is left, no memory, no right. Only ENOENT and
/// ECONNREFUSED of connect(2) mean that there is none.
pub fn listens(directory: &MpsDirectory) -> io::Result<bool> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let address = UnixAddr::new(&directory.pipe().join("control"))?;
    let ours = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    match connect(ours.as_raw_fd(), &address) {
        // Not at once because many others are waiting to be accepted: then it listens.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ENOENT | Errno::ECONNREFUSED) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn last_line(file: &Path) -> Option<String> {
    let text = std::fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(|line| line.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_doubt_it_is_not_said_that_no_daemon_listens() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!listens(&MpsDirectory::at(directory.path().join("none"))).unwrap());
        std::fs::create_dir(directory.path().join("pipe")).unwrap();
        std::fs::write(directory.path().join("pipe/control"), "").unwrap();
        assert!(
            !listens(&MpsDirectory::at(directory.path().into())).unwrap(),
            "a file that nobody listens on"
        );
        let long = directory.path().join("x".repeat(120));
        assert!(
            listens(&MpsDirectory::at(long)).is_err(),
            "a path that no socket can have"
        );
    }
}
