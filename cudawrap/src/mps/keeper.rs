//! The keeper: a small process that starts the daemon for its starter, waits until no process holds a client's lock any more, however they
//! ended, then tells the daemon to quit and removes the directory. If it is killed, the next program starts another.

use std::ffi::{CString, OsStr, OsString};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use getgpu_common::error::Failure;
use getgpu_common::lock::Description;
use getgpu_common::sys;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::daemon::{self, Control};
use super::member::wait_for;
use super::place::{CLIENTS, KEEPER, MUTEX, Place};
use super::start::{MUTEX_FD, STARTER_FD};

/// The word on the command line that makes a process a keeper.
pub const OPTION: &str = "--mps-keeper";
/// The word to the starter that the daemon listens.
pub const READY: u8 = b'r';
/// The word to the starter that it does not; message and hint follow, a line each.
pub const FAILED: u8 = b'f';
/// After which time a daemon that was told to quit, and did not, is told again.
const AGAIN: Duration = Duration::from_millis(200);

/// Everything a keeper is told; people read it in ps(1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The directory.
    pub place: Place,
    /// How to speak to the daemon.
    pub control: Control,
}

impl Line {
    /// The words behind `cudawrap --mps-keeper`.
    pub fn words(&self) -> Vec<CString> {
        let Control { program, device, libraries } = &self.control;
        let directory = self.place.directory().as_os_str();
        let mut words = vec![
            device.clone().into_bytes(),
            [b"directory=", directory.as_bytes()].concat(),
            [b"control=", program.as_os_str().as_bytes()].concat(),
        ];
        words.extend(libraries.as_ref().map(|list| [b"libraries=", list.as_bytes()].concat()));
        words.into_iter().map(|word| CString::new(word).unwrap_or_default()).collect()
    }

    /// Reads them back.
    pub fn parse(words: &[OsString]) -> Option<Self> {
        let value = |name: &str| {
            let found = words.iter().find_map(|word| word.as_bytes().strip_prefix(name.as_bytes()))?;
            Some(OsStr::from_bytes(found).to_owned())
        };
        Some(Self {
            place: Place::at(PathBuf::from(value("directory=")?)),
            control: Control {
                program: PathBuf::from(value("control=")?),
                device: String::from_utf8(words.first()?.clone().into_vec()).ok()?,
                libraries: value("libraries="),
            },
        })
    }
}

/// The keeper's own main: executed afresh with the mutex, held, on descriptor 3 and its starter on 4.
pub fn main(words: &[OsString]) -> i32 {
    sys::set_name(c"cudawrap-mps");
    let Some(Line { place, control }) = Line::parse(words) else { return 2 };
    let (mutex, mut starter) = (sys::own_fd(MUTEX_FD), std::fs::File::from(sys::own_fd(STARTER_FD)));
    // A daemon that had them too would hold the mutex, and keep the starter waiting, as long as it lives.
    for inherited in [mutex.as_fd(), starter.as_fd()] {
        if fcntl(inherited, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).is_err() {
            return 1;
        }
    }
    let _unaged = place.keep_from_cleaners();
    let ours = place.open().ok().filter(|keeper| matches!(keeper.try_write(KEEPER), Ok(true)));
    let started = if daemon::listens(&place) { Ok(()) } else { control.start(&place) };
    let _ = starter.write_all(&word(started));
    drop((starter, mutex));
    match ours {
        Some(ours) => keep(&place, &control, &ours),
        // Another one watches already: only the daemon was missing.
        None => 0,
    }
}

/// What the starter is told; one write, far smaller than a socket's buffer.
fn word(started: Result<(), Failure>) -> Vec<u8> {
    match started {
        Ok(()) => vec![READY],
        Err(failure) => {
            let text = format!("{}\n{}", failure.message.replace('\n', " "), failure.hint.unwrap_or_default());
            [&[FAILED], text.as_bytes()].concat()
        }
    }
}

/// Watches over the clients until there is none, and ends the daemon.
fn keep(place: &Place, control: &Control, ours: &Description) -> i32 {
    loop {
        // Let go at once: nobody who wants to be a client shall find it locked while we wait for the mutex.
        let Ok(none_left) = wait_for(place, CLIENTS) else { return 1 };
        drop(none_left);
        let Ok(mutex) = wait_for(place, MUTEX) else { return 1 };
        // Somebody has removed the directory under us; what is there now, if anything, is not ours to end.
        if !place.is_of(ours) {
            return 1;
        }
        match mutex.conflict(CLIENTS) {
            Ok(Some(_)) => {}
            Ok(None) if !daemon::listens(place) || control.quit(place) => {
                place.remove();
                return 0;
            }
            // The daemon obeys one front end at a time, and somebody has one open.
            Ok(None) => {
                drop(mutex);
                std::thread::sleep(AGAIN);
            }
            Err(_) => return 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keepers_command_line_says_what_it_keeps() {
        let control =
            Control { program: "/usr/bin/x y".into(), device: "MIG-1".into(), libraries: Some("/a:/b".into()) };
        let bare = Control { libraries: None, ..control.clone() };
        for control in [control, bare] {
            let line = Line { place: Place::at("/tmp/getgpu-mps-0/MIG-1".into()), control };
            let words: Vec<OsString> = line.words().into_iter().map(|w| OsString::from_vec(w.into_bytes())).collect();
            assert_eq!(Line::parse(&words), Some(line));
        }
        assert_eq!(Line::parse(&[]), None);
        assert_eq!(Line::parse(&["MIG-1".into(), "control=/x".into()]), None);
    }
}
