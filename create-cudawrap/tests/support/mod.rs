//! A directory with cudawrap, programs to wrap and the command, owned by an ordinary user
//! also when the tests run as root. It is the real cudawrap, which CUDAWRAP_DISABLE makes
//! run the program without a device.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod grounds;
pub(crate) mod inject;

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::Outcome;

/// nobody, when the tests run as root: what root wraps is noted in the host's own file.
pub(crate) const USER: u32 = 65534;
pub(crate) struct Sandbox {
    root: PathBuf,
    /// Removes it in the end; none where the caller does.
    _temporary: Option<tempfile::TempDir>,
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let temporary = harness::temporary();
        Self::furnished(temporary.path().canonicalize().unwrap(), Some(temporary))
    }

    /// In a directory that is there and empty.
    pub(crate) fn at(root: &Path) -> Self {
        Self::furnished(root.canonicalize().unwrap(), None)
    }

    fn furnished(root: PathBuf, temporary: Option<tempfile::TempDir>) -> Self {
        harness::as_from_a_terminal();
        let sandbox = Self {
            root,
            _temporary: temporary,
        };
        sandbox.run_sh("mkdir bin app links state && chmod 755 . bin app links state");
        // Instead of the machine's settings.
        sandbox.run_sh(": >config.toml");
        let exe = env!("CARGO_BIN_EXE_create-cudawrap");
        sandbox.run_sh(&format!(
            "ln '{exe}' bin/create-cudawrap 2>/dev/null || cp '{exe}' bin/create-cudawrap"
        ));
        sandbox.run_sh(&format!("cp '{}' bin/cudawrap", cudawrap().display()));
        if is_root() {
            sandbox.run_sh(&format!("chown {USER}:{USER} . * bin/cudawrap"));
        }
        sandbox
    }

    /// The sandbox with a program `app/x`.
    pub(crate) fn with_program() -> Self {
        let sandbox = Self::new();
        sandbox.script("app/x", "one");
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Device, inode and size: which file it is.
    pub(crate) fn identity(&self, name: &str) -> (u64, u64, u64) {
        let meta = self.path(name).symlink_metadata().unwrap();
        (meta.dev(), meta.ino(), meta.size())
    }

    /// All names below `dir`, with what they are.
    pub(crate) fn listing(&self, dir: &str) -> Vec<String> {
        let show = |entry: std::fs::DirEntry| {
            let meta = entry.path().symlink_metadata().unwrap();
            let link = std::fs::read_link(entry.path()).unwrap_or_default();
            format!(
                "{:?} {} {} {:o} {link:?} {:?}",
                entry.file_name(),
                meta.ino(),
                meta.size(),
                meta.mode(),
                meta.ctime_nsec()
            )
        };
        let entries = self.path(dir).read_dir().unwrap();
        let mut all: Vec<String> = entries.map(|entry| show(entry.unwrap())).collect();
        all.sort();
        all
    }

    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().into_owned()
        };
        let mut all: Vec<String> = self.path(dir).read_dir().unwrap().map(name).collect();
        all.sort();
        all
    }

    /// Where a link leads.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        std::fs::read_link(self.path(name)).unwrap()
    }

    /// A script that prints its version and arguments.
    pub(crate) fn script(&self, name: &str, version: &str) {
        self.program(name, &format!("#!/bin/sh\necho {version} \"$@\"\n"));
    }

    /// Written by a child, so that no other thread's fork holds the file open for writing
    /// when it is executed.
    pub(crate) fn program(&self, name: &str, text: &str) {
        let path = self.path(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]);
        said(as_user(&mut shell).args([path.as_os_str(), OsStr::new(text)])).exits(0);
    }

    pub(crate) fn link(&self, text: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(text, self.path(name)).unwrap();
        if is_root() {
            std::os::unix::fs::lchown(self.path(name), Some(USER), Some(USER)).unwrap();
        }
    }

    pub(crate) fn run_sh(&self, line: &str) {
        let mut shell = Command::new("sh");
        said(shell.args(["-c", line]).current_dir(&self.root)).exits(0);
    }

    /// The command, ready for arguments.
    pub(crate) fn command(&self) -> Command {
        self.prepared(Command::new(self.path("bin/create-cudawrap")))
    }

    pub(crate) fn prepared(&self, mut command: Command) -> Command {
        command
            .current_dir(self.path("app"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("XDG_STATE_HOME", self.path("state"))
            .env("GETGPU_CONFIG", self.path("config.toml"))
            .stdin(Stdio::null());
        as_user(&mut command);
        command
    }

    pub(crate) fn create(&self, args: &[&str]) -> Outcome {
        said(self.command().args(args))
    }

    /// With one variable of its environment set.
    pub(crate) fn with(&self, name: &str, value: impl AsRef<OsStr>, args: &[&str]) -> Outcome {
        said(self.command().env(name, value).args(args))
    }

    /// Succeeds, or the test fails with what was said.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> Outcome {
        self.create(args).exits(0).clone()
    }

    /// Is refused with status 1 and these words, and changes nothing below `app`.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str], words: &str) {
        let before = self.listing("app");
        let said = self.create(args);
        said.exits(1).mentions(words);
        let mut lines = said.stderr.lines();
        assert!(
            lines.all(|line| line.starts_with("create-cudawrap: ")),
            "{said:#?}"
        );
        assert_eq!(self.listing("app"), before, "{args:?}");
    }

    /// What the program at `name` prints.
    pub(crate) fn output_of(&self, name: &str) -> String {
        let mut command = Command::new(self.path(name));
        command
            .env("PATH", "/usr/bin:/bin")
            .env("CUDAWRAP_DISABLE", "1");
        said(command.arg("a b")).stdout.trim_end().to_owned()
    }

    pub(crate) fn status_of(&self, name: &str) -> (String, i32) {
        let said = self.create(&["--status", &self.path(name).to_string_lossy()]);
        let (_, line) = said.stdout.split_once(": ").unwrap_or_default();
        (line.trim_end().to_owned(), said.code().unwrap_or(-1))
    }
}

/// The real one, built beside create-cudawrap.
pub(crate) fn cudawrap() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_create-cudawrap")).with_file_name("cudawrap");
    assert!(
        built.is_file(),
        "{} is missing: run cargo build --workspace first",
        built.display()
    );
    built
}

/// What a command ended with and said.
pub(crate) fn said(command: &mut Command) -> Outcome {
    Outcome::of(command)
}

/// As the user of the tests.
fn as_user(command: &mut Command) -> &mut Command {
    if is_root() {
        command.uid(USER).gid(USER);
    }
    command
}
