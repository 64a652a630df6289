//! Starting a keeper without a trace in the program, and waiting for its word whether the
//! daemon listens. It has no descriptor but the mutex and the connection to its starter.

use std::ffi::CString;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use getgpu_common::detached;
use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::lock::OfdLock;

use super::args;
use super::daemon::Control;

/// How long it may take until the daemon listens or has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a keeper, which starts the daemon if none listens. The mutex is handed on:
/// until daemon and keeper are there it is the keeper's too, so that no other process
/// enters in between, even if this one is killed.
pub fn keeper(control: &Control, mutex: OfdLock) -> Result<(), Failure> {
    let mut words = vec![
        CString::from(c"cudawrap"),
        CString::new(args::OPTION).unwrap_or_default(),
    ];
    words.extend(control.words());
    let ours = detached::start(&words, mutex.number(), None);
    let mut ours = UnixStream::from(ours.map_err(|e| failed(control, &reason(&e)))?);
    let mut answer = Vec::new();
    ours.set_read_timeout(Some(LIMIT))
        .and_then(|()| ours.read_to_end(&mut answer))
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                failed(control, &format!("no answer after {} s", LIMIT.as_secs()))
            }
            _ => failed(control, &reason(&error)),
        })?;
    // Only now may others look.
    drop(mutex);
    serde_json::from_slice::<Result<(), Failure>>(&answer)
        .unwrap_or_else(|_| Err(failed(control, "cudawrap-mps exited at once")))
}

fn failed(control: &Control, why: &str) -> Failure {
    let device = &control.device;
    let text = format!("{device}: the MPS daemon cannot be started: {why}");
    Failure::new(Kind::Refused, text)
}
