//! What a program ended with, and assertions on it that show everything when they fail.
//! Lines are compared whole, so a word more on stderr is a failed test.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// What a program ended with.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output, if it was not sent elsewhere.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// From before its start to after its end.
    pub elapsed: Duration,
    pub words: Vec<OsString>,
}

impl Outcome {
    /// Of a command that needs no sandbox of this crate.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let started = Instant::now();
        let output = command.output().expect("a command that can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            status: output.status,
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            elapsed: started.elapsed(),
            words: std::iter::once(command.get_program())
                .chain(command.get_args())
                .map(OsStr::to_owned)
                .collect(),
        }
    }

    /// Exit status, or none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Asserts the exit status.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code(), Some(code), "status of {self:#?}");
        self
    }

    /// Asserts standard output, to the byte.
    #[track_caller]
    pub fn prints(&self, text: &str) -> &Self {
        assert_eq!(self.stdout, text, "standard output of {self:#?}");
        self
    }

    /// Asserts success with this standard output, and nothing on standard error.
    #[track_caller]
    pub fn answers(&self, text: &str) -> &Self {
        self.exits(0).prints(text).says(&[])
    }

    /// Asserts the lines of standard error, whole and all of them.
    #[track_caller]
    pub fn says(&self, lines: &[&str]) -> &Self {
        let said: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(said, lines, "standard error of {self:#?}");
        self
    }

    /// Asserts that some line of standard error holds `part`.
    #[track_caller]
    pub fn mentions(&self, part: &str) -> &Self {
        let said = self.stderr.lines().any(|line| line.contains(part));
        assert!(said, "no line has {part:?}: {self:#?}");
        self
    }

    /// Asserts that standard output has this.
    #[track_caller]
    pub fn shows(&self, part: &str) -> &Self {
        assert!(self.stdout.contains(part), "no {part:?}: {self:#?}");
        self
    }

    /// Asserts a refusal as it should be: this status, nothing on stdout, one line of the
    /// program and hints at most. A program of another name is one that cudawrap starts, or
    /// starts one of the three.
    #[track_caller]
    pub fn refuses(&self, code: i32, line: &str) -> &Self {
        self.exits(code).prints("");
        let ours = ["getgpu", "cudawrap", "create-cudawrap"];
        let started = self.words.first().map(Path::new);
        let started = started.and_then(|path| path.file_name()?.to_str());
        let (said, _) = self.stderr.split_once(": ").unwrap_or_default();
        let program = started.filter(|name| ours.contains(name)).unwrap_or(said);
        assert!(ours.contains(&program), "none of ours: {self:#?}");
        let hint = format!("{program}: hint: ");
        let lines = self.stderr.lines();
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with(&hint)).collect();
        assert_eq!(lines.len(), 1, "one line: {self:#?}");
        let is_it = lines[0].starts_with(&format!("{program}: ")) && lines[0].contains(line);
        assert!(is_it, "not {line:?}: {self:#?}");
        self
    }

    /// The lines of standard output that no simulated program has printed.
    pub fn told(&self) -> Vec<&str> {
        let lines = self.stdout.lines();
        lines.filter(|line| !line.starts_with("RUN")).collect()
    }

    /// Asserts success, and gives standard output.
    #[track_caller]
    pub fn output(&self) -> String {
        self.exits(0).stdout.clone()
    }

    /// Asserts success with one line, and gives it.
    #[track_caller]
    pub fn line(&self) -> String {
        self.exits(0);
        let line = self.stdout.strip_suffix('\n').unwrap_or("");
        let is_one = !line.is_empty() && !line.contains('\n');
        assert!(is_one, "not one whole line: {self:#?}");
        line.to_owned()
    }
}
