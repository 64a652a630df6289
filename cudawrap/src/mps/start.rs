//! Starting a keeper without a trace in the program, and waiting for its word whether the
//! daemon listens. It has no descriptor but the mutex and the connection to its starter.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use getgpu_linux::{detached, sys::c_string};
use getgpu_lock::OfdLock;
use getgpu_model::{Failure, reason};

use super::daemon::Control;
use super::directory::MpsDirectory;
use crate::causes::{DaemonFault, MpsCause, MpsRemedy};

/// The word on the command line that makes a process a keeper.
pub const OPTION: &str = "--mps-keeper";

/// How long it may take until the daemon listens or has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a keeper, which starts the daemon if none listens. The mutex is handed on:
/// until daemon and keeper are there it is the keeper's too, so that no other process
/// enters in between, even if this one is killed.
pub fn keeper(control: &Control, mutex: OfdLock) -> Result<(), Failure> {
    let mut words = vec![c"cudawrap".to_owned(), c_string(OPTION.as_bytes())];
    words.extend(control.words());
    let ours = detached::start(&words, mutex.number(), None);
    let mut ours = UnixStream::from(ours.map_err(|e| failed(control, &reason(&e)))?);
    let mut answer = Vec::new();
    ours.set_read_timeout(Some(LIMIT))
        .and_then(|()| ours.read_to_end(&mut answer))
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let seconds = LIMIT.as_secs();
                failed(control, &DaemonFault::NoAnswer { seconds }.to_string())
            }
            _ => failed(control, &reason(&error)),
        })?;
    // Only now may others look.
    drop(mutex);
    serde_json::from_slice::<Result<(), Failure>>(&answer)
        .unwrap_or_else(|_| Err(failed(control, &DaemonFault::KeeperExited.to_string())))
}

fn failed(control: &Control, why: &str) -> Failure {
    let (uuid, remedy) = (&control.device, MpsRemedy::Unknown);
    MpsCause::NotStarted { uuid, why, remedy }.into()
}

impl Control {
    /// The words behind `cudawrap --mps-keeper`: the device, the directory, the control
    /// program, and the list of library directories if there is one.
    pub fn words(&self) -> Vec<CString> {
        let directory = self.directory.path().as_os_str();
        [
            OsStr::new(&self.device),
            directory,
            self.program.as_os_str(),
        ]
        .into_iter()
        .chain(self.libraries.as_deref())
        .map(|word| c_string(word.as_bytes()))
        .collect()
    }

    pub fn parse(words: &[OsString]) -> Option<Self> {
        let [device, directory, program, libraries @ ..] = words else {
            return None;
        };
        Some(Self {
            directory: MpsDirectory::at(directory.into()),
            program: program.into(),
            device: device.to_str()?.to_owned(),
            libraries: libraries.first().cloned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_keepers_command_line_says_what_it_keeps() {
        for libraries in [None, Some("/a:/b".into())] {
            let control = Control {
                directory: MpsDirectory::at("/tmp/getgpu-mps-0/MIG-1".into()),
                program: "/usr/bin/x y".into(),
                device: "MIG-1".into(),
                libraries,
            };
            let words = control.words().into_iter();
            let words: Vec<_> = words
                .map(|word| OsString::from_vec(word.into_bytes()))
                .collect();
            assert_eq!(Control::parse(&words), Some(control));
        }
        assert_eq!(Control::parse(&[]), None);
        assert_eq!(Control::parse(&["MIG-1".into(), "/x".into()]), None);
    }
}
