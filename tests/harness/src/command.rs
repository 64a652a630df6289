//! A program to be run in a sandbox: nothing of the test's own environment, output into
//! files, a time limit. Output goes to files and not to pipes, so a process left behind
//! by a program cannot keep the test waiting.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{Outcome, Running, Sandbox, wait};

/// A program to be run.
#[derive(Debug)]
pub struct Command {
    inner: std::process::Command,
    limit: Duration,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    work: PathBuf,
}

impl Command {
    pub(crate) fn new(sandbox: &Sandbox, program: &OsStr) -> Self {
        let bin = sandbox.path("bin");
        let own = bin.join(program);
        // Resolved here: the search would otherwise go by the test's own PATH.
        let program = if own.is_file() {
            own.into_os_string()
        } else {
            program.to_owned()
        };
        let mut inner = std::process::Command::new(program);
        inner.env_clear().stdin(Stdio::null()).process_group(0);
        inner.current_dir(sandbox.path("work"));
        let machine = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        inner.env("PATH", format!("{}:{machine}", bin.display()));
        inner.env("LC_ALL", "C").env("HOME", sandbox.path("home"));
        inner.env("SIM_NODE", sandbox.folder().root());
        inner.env("LD_LIBRARY_PATH", sandbox.path("lib"));
        inner.env("GETGPU_LOCK", sandbox.lock());
        inner.env("GETGPU_CONFIG", sandbox.settings_file());
        Self {
            inner,
            limit: wait::LONG,
            stdout: None,
            stderr: None,
            work: sandbox.path("work"),
        }
    }

    /// More arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, arguments: I) -> Self {
        self.inner.args(arguments);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    #[must_use]
    pub fn env_remove(mut self, name: &str) -> Self {
        self.inner.env_remove(name);
        self
    }

    /// CUDA_VISIBLE_DEVICES.
    #[must_use]
    pub fn visible(self, value: impl AsRef<OsStr>) -> Self {
        self.env("CUDA_VISIBLE_DEVICES", value)
    }

    /// As another user, with the group of the same number and no others (the test must be
    /// root).
    #[must_use]
    pub fn uid(mut self, uid: u32) -> Self {
        self.inner.uid(uid).gid(uid);
        self
    }

    /// Another working directory than the sandbox's `work`.
    #[must_use]
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.inner.current_dir(path);
        self
    }

    /// Another name in argv\[0\].
    #[must_use]
    pub fn arg0(mut self, name: &str) -> Self {
        self.inner.arg0(name);
        self
    }

    /// Standard input.
    #[must_use]
    pub fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.inner.stdin(from);
        self
    }

    /// Standard output to somewhere else; [`Outcome::stdout`] is then empty.
    #[must_use]
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.stdout = Some(to.into());
        self
    }

    /// Standard error to somewhere else; [`Outcome::stderr`] is then empty.
    #[must_use]
    pub fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.stderr = Some(to.into());
        self
    }

    /// The longest that it may take; beyond, it is killed and the test fails.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its output goes to these, unless it goes elsewhere.
    fn files(&mut self) -> (File, File) {
        let file = || tempfile::tempfile_in(&self.work).expect("a file for output");
        let (out, err) = (file(), file());
        let copy = |file: &File| file.try_clone().expect("a second descriptor for output");
        let stdout = self.stdout.take().unwrap_or_else(|| copy(&out).into());
        let stderr = self.stderr.take().unwrap_or_else(|| copy(&err).into());
        self.inner.stdout(stdout).stderr(stderr);
        (out, err)
    }

    /// Starts it.
    #[track_caller]
    pub fn spawn(mut self) -> Running {
        let (out, err) = self.files();
        let words: Vec<OsString> = std::iter::once(self.inner.get_program())
            .chain(self.inner.get_args())
            .map(OsStr::to_owned)
            .collect();
        let started = Instant::now();
        let mut child = self.inner.spawn();
        // A script that was just written is open for writing in the child of a test
        // beside this one, until that has executed its program.
        wait::holds_within(wait::LONG, || {
            let is_busy = |error: &Error| error.kind() == ErrorKind::ExecutableFileBusy;
            let busy = child.as_ref().is_err_and(is_busy);
            if busy {
                child = self.inner.spawn();
            }
            !busy
        });
        let child = child.unwrap_or_else(|error| panic!("{words:?} cannot be started: {error}"));
        Running::new(child, out, err, started, self.limit, words)
    }

    /// The program as it would be started, and the files that its output goes to, for who
    /// starts it in a way of his own.
    #[track_caller]
    pub fn parts(mut self) -> (std::process::Command, File, File) {
        let (out, err) = self.files();
        (self.inner, out, err)
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> Outcome {
        self.spawn().wait()
    }
}
