//! What a holder does about its own process: it shows in a word of its command line who keeps the
//! reservation, and outlives a limit of processor time (ulimit -t), which it has inherited from
//! its caller, by going on in a fork.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use getgpu_linux::{Process, Stat, go_on_in_fork, procfs::process_memory, sys};
use getgpu_lock::{KEEPER, keeper_text};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use super::held_lock::HeldLock;

pub struct OwnProcess<'a> {
    lock: &'a HeldLock<'a>,
    /// Where the value of the word is in this process's memory.
    keeper_at: Option<u64>,
    /// The kernel kills this process when it has used so much of a processor.
    limit: Option<Duration>,
}

impl<'a> OwnProcess<'a> {
    pub fn new(lock: &'a HeldLock<'a>) -> Self {
        Self {
            lock,
            keeper_at: find_keeper_word(),
            limit: raise_limit(),
        }
    }

    /// Shows the process that keeps the reservation now. Where the kernel does not let a process
    /// write to its memory like this, the list goes on showing the caller.
    pub fn show(&self, keeper: Option<&Stat>) {
        let (Some(keeper), Some(at)) = (keeper, self.keeper_at) else {
            return;
        };
        let text = keeper_text(Some(&Process::from(keeper)));
        let memory = OpenOptions::new().write(true).open("/proc/self/mem");
        let _ = memory.and_then(|memory| memory.write_all_at(text.as_bytes(), at));
    }

    /// Goes on in a fork, which begins without any use of a processor, if half of the limit is used
    /// up. The fork has the same locks, and so the device is reserved all the time.
    pub fn renew(&self) {
        let is_near = |limit| sys::processor_time() > limit / 2;
        if self.limit.is_some_and(is_near) && go_on_in_fork() {
            self.lock.sign_in();
        }
    }
}

/// Raises the limit as far as this process may; gives what is left of it.
fn raise_limit() -> Option<Duration> {
    let processor = Resource::RLIMIT_CPU;
    if setrlimit(processor, RLIM_INFINITY, RLIM_INFINITY).is_ok() {
        return None;
    }
    let (_, most) = getrlimit(processor).ok()?;
    let _ = setrlimit(processor, most, most);
    (most != RLIM_INFINITY).then(|| Duration::from_secs(most.max(1)))
}

/// The address of the word's value (proc(5): the arguments begin at field 48 of stat).
fn find_keeper_word() -> Option<u64> {
    let own = std::process::id() as i32;
    let words = process_memory::cmdline(own);
    let key = format!("\0{KEEPER}=");
    let at = words
        .windows(key.len())
        .rposition(|part| part == key.as_bytes())?;
    let begins = Stat::read(own)?.arg_start;
    (begins != 0).then_some(begins + (at + key.len()) as u64)
}
