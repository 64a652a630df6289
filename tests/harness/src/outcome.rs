//! What a program ended with, and assertions on it that show everything when they fail.
//! Lines are compared whole, so a word more on stderr is a failed test.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

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

    /// Asserts the lines of standard error, whole and all of them.
    #[track_caller]
    pub fn says(&self, lines: &[&str]) -> &Self {
        assert_eq!(
            self.stderr.lines().collect::<Vec<_>>(),
            lines,
            "standard error of {self:#?}"
        );
        self
    }

    /// Asserts that some line of standard error holds `part`.
    #[track_caller]
    pub fn mentions(&self, part: &str) -> &Self {
        assert!(
            self.stderr.lines().any(|line| line.contains(part)),
            "no line has {part:?}: {self:#?}"
        );
        self
    }

    /// Asserts a refusal as it should be: this status, nothing on stdout, one line of
    /// `program` and hints at most.
    #[track_caller]
    pub fn refuses(&self, program: &str, code: i32, line: &str) -> &Self {
        self.exits(code).prints("");
        let hint = format!("{program}: hint: ");
        let lines: Vec<&str> = self
            .stderr
            .lines()
            .filter(|line| !line.starts_with(&hint))
            .collect();
        assert_eq!(lines.len(), 1, "one line: {self:#?}");
        assert!(
            lines[0].starts_with(&format!("{program}: ")) && lines[0].contains(line),
            "not {line:?}: {self:#?}"
        );
        self
    }

    /// Asserts success with one line, and gives it.
    #[track_caller]
    pub fn line(&self) -> String {
        self.exits(0);
        let line = self
            .stdout
            .strip_suffix('\n')
            .unwrap_or_else(|| panic!("no whole line: {self:#?}"));
        assert!(
            !line.is_empty() && !line.contains('\n'),
            "not one line: {self:#?}"
        );
        line.to_owned()
    }
}
