//! Waiting until a descriptor is ready, until a deadline (poll(2)). A signal's handler does
//! not end the wait, and what is left is rounded up to poll's milliseconds, so that a wait
//! never ends before its deadline.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::run_clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};

/// Waits until one of `fds` is ready; false if none is at `deadline`. After the deadline
/// it looks once more.
///
/// # Errors
///
/// poll(2) failed for another reason than a signal.
pub fn until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> nix::Result<bool> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match nix::poll::poll(fds, left.map_or(PollTimeout::NONE, timeout)) {
            Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
}

/// The same with a deadline of the clock that stands still while this process does.
///
/// # Errors
///
/// As `until`.
pub fn until_in_run_time(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> nix::Result<bool> {
    let Some(deadline) = deadline else {
        return until(fds, None);
    };
    loop {
        let left = deadline.saturating_duration_since(run_clock::now());
        let slice = left.min(run_clock::SLICE);
        let is_ready = run_clock::pause(slice, || until(fds, Some(Instant::now() + slice)))?;
        if is_ready || left.is_zero() {
            return Ok(is_ready);
        }
    }
}

/// Waits until `fd` can be read, or has ended; false if it cannot at `deadline`, a time of `run_clock`.
///
/// # Errors
///
/// poll(2) failed for another reason than a signal.
pub fn readable(fd: &impl AsFd, deadline: Instant) -> nix::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    until_in_run_time(&mut fds, Some(deadline))
}

fn timeout(left: Duration) -> PollTimeout {
    let up = left + Duration::from_nanos(999_999);
    PollTimeout::try_from(up).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn waits_for_whole_milliseconds_and_not_a_moment_less() {
        let milliseconds = |left| timeout(left).as_millis();
        assert_eq!(milliseconds(Duration::ZERO), Some(0));
        assert_eq!(milliseconds(Duration::from_nanos(1)), Some(1));
        assert_eq!(milliseconds(Duration::from_millis(20)), Some(20));
        assert_eq!(milliseconds(Duration::from_micros(20_001)), Some(21));
        assert_eq!(timeout(Duration::MAX / 2), PollTimeout::MAX);
    }

    #[test]
    fn looks_once_after_the_deadline_and_waits_until_it() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let began = Instant::now();
        let deadline = run_clock::now() + Duration::from_millis(20);
        assert_eq!(readable(&reader, deadline), Ok(false));
        assert!(began.elapsed() >= Duration::from_millis(20));
        writer.write_all(b"x").unwrap();
        assert_eq!(readable(&reader, deadline), Ok(true));
    }
}
