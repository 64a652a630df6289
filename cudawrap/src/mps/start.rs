//! Starting a keeper without a trace in the program, and waiting for its word whether the
//! daemon listens. It has no descriptor but the mutex and the connection to its starter.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use getgpu_common::detached::{self, Detached};
use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::lock::OfdLock;
use getgpu_common::nvml_client::channel;
use getgpu_common::poll;

use super::args::{self, SupervisorArgs};
use super::daemon::Control;
use super::directory::MpsDirectory;

/// How long it may take until the daemon listens or has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a keeper, which starts the daemon if none listens. The mutex is handed on:
/// until daemon and keeper are there it is the keeper's too, so that nobody comes in
/// between even if this process is killed.
pub fn keeper(directory: &MpsDirectory, control: &Control, mutex: OfdLock) -> Result<(), Failure> {
    let failed = |why: &str| {
        Failure::new(
            Kind::Refused,
            format!(
                "{}: the MPS daemon cannot be started: {why}",
                control.device
            ),
        )
    };
    let (ours, theirs) = channel().map_err(|e| failed(&reason(&e)))?;
    let mut line = vec![
        CString::from(c"cudawrap"),
        CString::new(args::OPTION).unwrap_or_default(),
    ];
    line.extend(
        SupervisorArgs {
            directory: directory.clone(),
            control: control.clone(),
        }
        .words(),
    );
    let spec = Detached {
        words: &line,
        environment: &[],
        descriptors: [mutex.number(), theirs.as_raw_fd()],
        user: None,
    };
    detached::launch(&spec).map_err(|e| failed(&reason(&e.into())))?;
    drop(theirs);
    let answer = answer(File::from(ours)).map_err(|why| failed(&why))?;
    // Only now may others look.
    drop(mutex);
    match answer.split_first() {
        Some((&args::READY, _)) => Ok(()),
        Some((&args::FAILED, text)) => Err(failure(&String::from_utf8_lossy(text))),
        _ => Err(failed("cudawrap-mps exited at once")),
    }
}

/// What the keeper says when the daemon does not start: a message, and a hint if there is
/// one.
fn failure(text: &str) -> Failure {
    let (message, hint) = text.split_once('\n').unwrap_or((text, ""));
    let failure = Failure::new(Kind::Refused, message);
    if hint.is_empty() {
        failure
    } else {
        failure.hint(hint)
    }
}

/// Everything the keeper says until it closes its end.
fn answer(mut from: File) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + LIMIT;
    let mut answer = Vec::new();
    let mut part = [0u8; 1024];
    loop {
        if !poll::readable(&from, deadline).map_err(|errno| reason(&errno.into()))? {
            return Err(format!("no answer after {} s", LIMIT.as_secs()));
        }
        match from.read(&mut part).map_err(|error| reason(&error))? {
            0 => return Ok(answer),
            read => answer.extend_from_slice(&part[..read]),
        }
    }
}
