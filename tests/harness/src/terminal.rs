//! A terminal for a program of a test (pty(7)): what is written to it is kept, and the
//! test can type.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::{Command, wait};

/// The test's side of a terminal.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
    slave: Option<File>,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// One of this size, in characters.
    ///
    /// # Panics
    ///
    /// If the kernel gives none.
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let (keys, slave) = open();
        let sized = std::process::Command::new("stty")
            .args(["cols", &columns.to_string(), "rows", &rows.to_string()])
            .stdin(slave.try_clone().expect("a descriptor"))
            .status();
        assert!(sized.expect("stty").success());
        let mut screen = keys.try_clone().expect("a descriptor");
        let seen = Arc::default();
        let theirs: Arc<Mutex<Vec<u8>>> = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut part = [0u8; 4096];
            // The end of a terminal is an error (EIO, ioctl_tty(2)).
            while let Ok(read @ 1..) = screen.read(&mut part) {
                theirs
                    .lock()
                    .expect("the screen")
                    .extend_from_slice(&part[..read]);
            }
        });
        Self {
            keys,
            slave: Some(slave),
            seen,
            reader,
        }
    }

    /// The program's side.
    ///
    /// # Panics
    ///
    /// After [`Terminal::rest`].
    #[must_use]
    pub fn slave(&self) -> File {
        let slave = self.slave.as_ref().expect("the program's side");
        slave.try_clone().expect("a descriptor")
    }

    /// Gives all three standard streams of a program to it.
    #[must_use]
    pub fn all_streams(&self, command: Command) -> Command {
        command
            .stdin(self.slave())
            .stdout(self.slave())
            .stderr(self.slave())
    }

    /// Everything that was written so far.
    ///
    /// # Panics
    ///
    /// If the reader did.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("the screen")).into_owned()
    }

    /// Whether this was written.
    #[must_use]
    pub fn shows(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Waits until this was written.
    #[track_caller]
    pub fn until_shows(&self, text: &str) {
        wait::until(text, || self.shows(text));
    }

    /// Types.
    ///
    /// # Panics
    ///
    /// If the terminal is gone.
    pub fn type_keys(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("to type");
    }

    /// Everything that was written, once all programs have closed it.
    ///
    /// # Panics
    ///
    /// If the reader did.
    #[must_use]
    pub fn rest(mut self) -> String {
        self.slave = None;
        let (reader, seen) = (self.reader, self.seen);
        reader.join().expect("the reader");
        let bytes = seen.lock().expect("the screen");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Both sides. Programs of other tests, which start meanwhile, inherit neither.
fn open() -> (File, File) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY;
    let master = posix_openpt(flags | OFlag::O_CLOEXEC).expect("a terminal");
    grantpt(&master).expect("the program's side");
    unlockpt(&master).expect("the program's side");
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(ptsname_r(&master).expect("the name of the program's side"))
        .expect("the program's side");
    let keys = master.as_fd().try_clone_to_owned().expect("a descriptor");
    (File::from(keys), slave)
}
