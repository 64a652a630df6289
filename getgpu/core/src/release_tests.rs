//! How processes are ended that do not end at once. Any process stands for a holder here.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use getgpu_lock::HolderArgs;
use getgpu_model::Verbosity;

use super::*;

/// A process in the place of a holder, which ends with the test.
struct StandIn(Child);

impl StandIn {
    /// Runs a script, and returns when that has printed a line.
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = [0u8; 1];
        let mut told = child.stdout.take().unwrap();
        told.read_exact(&mut line).unwrap();
        Self(child)
    }

    fn holder(&self) -> HolderProcess {
        let pid = self.0.id() as i32;
        let words = ["MIG-0d1e2f30-1111-5222-8333-444455556666", "caller=1(init)"];
        HolderProcess {
            pid,
            start: Stat::read(pid).unwrap().start,
            args: HolderArgs::parse(words).unwrap(),
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ended(holders: &[HolderProcess]) -> Result<(), Failure> {
    let private = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().permissions(private).tempdir();
    let directory = directory.unwrap();
    let path = directory.path().join("lock");
    let lock_file = LockFile::find(Some(path), None).unwrap();
    let diag = Diag::new("getgpu", Verbosity::Normal);
    end(&lock_file, holders, PATIENCE, &diag)
}

/// Its parent may never look at it, and it holds nothing any more.
#[test]
fn a_holder_that_no_parent_has_waited_for_has_exited() {
    let process = StandIn::start("echo; exec sleep 60");
    let holder = process.holder();
    kill(Pid::from_raw(process.0.id() as i32), Signal::SIGKILL).unwrap();
    ended(std::slice::from_ref(&holder)).unwrap();
    assert!(!ask_to_end(&holder));
}

#[test]
fn a_holder_that_does_not_end_delays_no_other() {
    let deaf = StandIn::start("trap '' TERM; echo; exec sleep 60");
    let mut other = StandIn::start("echo; exec sleep 60");
    let (holders, began) = ([deaf.holder(), other.holder()], Instant::now());
    let waiting = std::thread::spawn(move || {
        other.0.wait().unwrap();
        began.elapsed()
    });
    let failure = ended(&holders).unwrap_err();
    let last = format!("the holder (pid {}) does not end", deaf.0.id());
    assert!(failure.message.ends_with(&last), "{failure}");
    assert!(waiting.join().unwrap() < PATIENCE);
}
