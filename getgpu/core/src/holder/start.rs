//! Starts a holder. getgpu forks twice, so that no child appears in the caller's wait, and
//! executes itself, so that the holder is small and contains nothing of NVML. The holder
//! has an empty environment, a session of its own, and two descriptors: the lock and the
//! connection to the getgpu that started it.

use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use getgpu_linux::{ChildUser, detached, poll, run_clock};
use getgpu_lock::{HolderArgs, OPTION, OfdLock};
use getgpu_model::{Failure, reason};

use crate::causes::ReserveCause;
use nix::sys::socket::{Shutdown, shutdown};

/// The word that the reservation is the holder's.
pub const READY_WORD: u8 = b'r';
/// The word that the device was printed. A holder that does not receive it ends.
pub const PRINTED: u8 = b'p';
/// How often a word is tried, should the kernel have no memory for it.
const WORDS: u32 = 5;
/// How long a holder may take to know that the device was printed.
const KNOWN: Duration = Duration::from_secs(1);
/// How long a holder may take to be ready.
const READY: Duration = Duration::from_secs(10);

/// Sends a word to the other end, more than once if need be; false if it could not be sent.
pub fn tell(channel: &mut impl Write, word: u8) -> bool {
    (0..WORDS).any(|_| channel.write_all(&[word]).is_ok())
}

/// A holder that has taken the reservation over and waits for the word.
#[derive(Debug)]
pub struct Started {
    channel: File,
}

/// Starts a holder for a confirmed reservation. When this returns the reservation is the
/// holder's.
pub fn start(
    args: &HolderArgs,
    lock: OfdLock,
    user: Option<ChildUser>,
) -> Result<Started, Failure> {
    let mut words = vec![
        CString::from(c"getgpu"),
        CString::new(OPTION).unwrap_or_default(),
    ];
    words.extend(args.words());
    let ours = detached::start(&words, lock.number(), user);
    let mut ours = File::from(ours.map_err(|e| failed(&reason(&e)))?);
    // From here on it is the holder's alone.
    drop(lock);
    let mut ready = [0u8; 1];
    wait_readable(&ours, READY).map_err(|why| failed(&why))?;
    match ours.read_exact(&mut ready) {
        Ok(()) => Ok(Started { channel: ours }),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(failed("it exited at once")),
        Err(error) => Err(failed(&reason(&error))),
    }
}

fn failed(why: &str) -> Failure {
    ReserveCause::HolderNotStarted { why }.into()
}

fn wait_readable(file: &File, limit: Duration) -> Result<(), String> {
    match poll::readable(file, run_clock::now() + limit) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("it is not ready after {} s", limit.as_secs())),
        Err(errno) => Err(reason(&errno.into())),
    }
}

impl Started {
    /// The device was printed: the reservation begins its life. Returns when the holder
    /// knows.
    pub fn printed(mut self) {
        // Without the word the holder would give up what is printed.
        if tell(&mut self.channel, PRINTED) {
            let _ = poll::readable(&self.channel, run_clock::now() + KNOWN);
        }
    }

    /// Nothing was printed: ends the holder and waits until the device is free.
    pub fn cancel(mut self) {
        let _ = shutdown(self.channel.as_raw_fd(), Shutdown::Write);
        // The holder's end closes with its last descriptor.
        let _ = wait_readable(&self.channel, READY);
        let _ = self.channel.read_exact(&mut [0u8; 1]);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_holder_that_says_nothing_is_waited_for_with_a_limit() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let ours = File::from(std::os::fd::OwnedFd::from(ours));
        let why = wait_readable(&ours, Duration::ZERO).unwrap_err();
        assert_eq!(why, "it is not ready after 0 s");
        drop(theirs);
        wait_readable(&ours, READY).unwrap();
    }

    /// A channel for whose next words the kernel has no memory.
    struct Busy {
        failures: u32,
        told: Vec<u8>,
    }

    impl Write for Busy {
        fn write(&mut self, words: &[u8]) -> io::Result<usize> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
            }
            self.told.write(words)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_word_is_sent_once_and_tried_more_than_once() {
        for (failures, told) in [(0, &[PRINTED][..]), (WORDS - 1, &[PRINTED]), (WORDS, &[])] {
            let mut channel = Busy {
                failures,
                told: Vec::new(),
            };
            assert_eq!(tell(&mut channel, PRINTED), !told.is_empty());
            assert_eq!(channel.told, told);
        }
    }
}
