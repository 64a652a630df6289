//! What a sandbox's programs have left: processes, holders, locks, files beside the lock.
//! Looked up in /proc and asked of the kernel, without any code of the commands
//! themselves.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use crate::{Sandbox, wait};

/// A live process that is called as a reservation's holder and has this sandbox's lock
/// open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
    pub uid: u32,
    pub words: Vec<String>,
}

impl Sandbox {
    /// The holders that live now.
    pub fn holders(&self) -> Vec<Holder> {
        let mut found = pids();
        found.retain(|pid| read(*pid, "comm").trim_end() == "getgpu-hold" && alive(*pid));
        found.retain(|pid| self.has_lock_open(*pid));
        let holder = |pid| {
            let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
            let line = read(pid, "cmdline");
            let words = line.split_terminator('\0').map(str::to_owned).collect();
            Some(Holder { pid, uid, words })
        };
        found.into_iter().filter_map(holder).collect()
    }

    /// Whether anything at all is locked.
    pub fn locked(&self) -> bool {
        // Without waiting, should something else than the FIFO be there.
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let Ok(lock) = open(&self.lock(), flags, Mode::empty()) else {
            return false;
        };
        // The kernel reports any lock in the way of a write lock from the first byte to
        // the last.
        let mut whole = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: 0,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(&lock, FcntlArg::F_OFD_GETLK(&mut whole)).expect("ask for locks");
        whole.l_type != libc::F_UNLCK as i16
    }

    /// The names beside the lock, which should be none.
    pub fn beside_lock(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("run")).expect("the lock's directory");
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != "lock").collect()
    }

    /// Asserts that nothing stays: no holder, no lock, no file beside the lock.
    #[track_caller]
    pub fn assert_clean(&self) {
        let clean = wait::holds_within(wait::LONG, || self.holders().is_empty() && !self.locked());
        let (holders, locked) = (self.holders(), self.locked());
        let left = format!("left behind: locked: {locked}, holders: {holders:#?}");
        assert!(clean, "{left}");
        assert_eq!(self.beside_lock(), [""; 0], "files left beside the lock");
    }

    /// Live processes of this sandbox: by their environment, or because they have its
    /// lock open.
    pub fn processes(&self) -> Vec<i32> {
        let mut found = pids();
        found.retain(|pid| self.has(*pid));
        found
    }

    /// Those of them that are in this state (proc_pid_stat(5)): `T` stopped, `D` in the kernel.
    pub fn processes_in(&self, state: char) -> Vec<i32> {
        let mut found = self.processes();
        found.retain(|pid| read(*pid, "stat").contains(&format!(") {state} ")));
        found
    }

    /// Whether this is one. A fork of the tests is none: whatever they had open for an
    /// instant is open there too, until it becomes a program, perhaps another sandbox's.
    fn has(&self, pid: i32) -> bool {
        let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
        if !alive(pid) || program(&pid.to_string()) == program("self") {
            return false;
        }
        let mark = format!("SIM_NODE={}", self.folder().root().display());
        let by_environment = read(pid, "environ").split('\0').any(|entry| entry == mark);
        by_environment || self.has_lock_open(pid)
    }

    /// Kills them all, again until none is left; one in the middle of a fork has a child
    /// the next time.
    pub(crate) fn kill_all(&self) {
        wait::holds_within(wait::LONG, || {
            let left = self.processes();
            // Again: some descriptors close a moment after the program has changed.
            for pid in left.iter().filter(|pid| self.has(**pid)) {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
            left.is_empty()
        });
    }

    fn has_lock_open(&self, pid: i32) -> bool {
        // The lock itself and nothing it may point to: a test that plants a link to
        // /dev/null there must not end with every process of the machine that has that
        // open.
        let lock = fs::symlink_metadata(self.lock()).ok();
        let Some(lock) = lock.filter(|lock| lock.file_type().is_fifo()) else {
            return false;
        };
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        let open = open.into_iter().flatten().flatten();
        let mut files = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        files.any(|file| (file.dev(), file.ino()) == (lock.dev(), lock.ino()))
    }
}

/// Whether it runs: a zombie that its parent has not reaped does not.
pub(crate) fn alive(pid: i32) -> bool {
    let stat = read(pid, "stat");
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

fn read(pid: i32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
