//! A terminal for a program of a test (openpty(3)): what is written to it is kept, and the
//! test can type.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::pty::{Winsize, openpty};

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
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).expect("a terminal");
        let keys = File::from(pty.master);
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
            slave: Some(File::from(pty.slave)),
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
