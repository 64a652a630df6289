//! The life of a reservation: it waits for its program, is used, lingers after the last
//! program has exited, and ends. The lock on descriptor 3 is the reservation; when this
//! process ends, however it ends, the kernel gives the lock up.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use getgpu_choose::syslog;
use getgpu_linux::{Stat, detached, procfs::file, run_clock, sys};
use getgpu_lock::{HolderArgs, OfdLock, Role, Until, ownership_proof};

use super::backoff;
use super::exit_watch::ExitWatch;
use super::held_lock::HeldLock;
use super::own_process::OwnProcess;
use super::proc_scanner::ProcScanner;
use super::process_match::{MatchedProcess, key};
use super::start;

/// Pause between two looks while the reservation lingers, or while a process keeps it that is
/// no program on the device.
const LOOK: Duration = Duration::from_millis(200);

/// Between two looks at the descendants of a program, at first and at most.
const FIRST_NOTE: Duration = Duration::from_millis(20);
const LAST_NOTE: Duration = Duration::from_secs(1);

/// Looks that go on while something runs take one part in so many of a processor.
const PART_OF_PROCESSOR: u32 = 100;

/// For so long after printing only the caller's programs are looked at.
const CLOSELY: Duration = Duration::from_millis(20);

/// Holds the reservation as the command line says.
pub fn run(args: &HolderArgs) -> i32 {
    let _ = nix::sys::prctl::set_name(c"getgpu-hold");
    // Declared before the lock, so that it is dropped after it: a starter that could not print
    // waits until this end is closed, and then the device is free.
    let mut starter = File::from(sys::own_fd(detached::STARTER_FD));
    let lock = HeldLock::new(args, OfdLock::new(sys::own_fd(detached::LOCK_FD)));
    lock.sign_in();
    let began = sys::boot_time();
    // Without memory or descriptors /proc shows nothing: a reservation in doubt stays.
    file::persist();
    let reservation = Reservation {
        lock: &lock,
        scanner: ProcScanner::new(args, &lock),
        linger: args.linger,
        deadline: None,
        process: OwnProcess::new(&lock),
    };
    if !was_printed(&mut starter) {
        return 0;
    }
    drop(starter);
    match &args.until {
        Until::Programs { wait } => reservation.serve(*wait),
        Until::Over(process, longest) => {
            let mut process = ExitWatch::new(std::iter::once((process.pid, process.start)));
            // What is left of a task of Slurm ends with its step.
            if process.have_exited(*longest) && args.role != Role::Task {
                reservation.outlive(longest.map(|longest| began + longest));
            }
        }
        Until::Released => loop {
            nix::unistd::pause();
        },
    }
    if let Some(text) = &args.record {
        let held = sys::boot_time().saturating_sub(began);
        syslog::released("getgpu", std::process::id() as i32, text, held);
    }
    0
}

/// Reports to the starter, by a byte, that the reservation is held, and waits
/// for the word that the device was printed. A starter that ends without that word has
/// printed nothing. The answer to the word lets the starter exit, and so the program
/// begin, when this process has a processor to look for it.
fn was_printed(starter: &mut File) -> bool {
    let mut word = [0u8; 1];
    let printed = start::tell(starter, start::READY_WORD)
        && starter.read_exact(&mut word).is_ok()
        && word[0] == start::PRINTED;
    if printed {
        start::tell(starter, start::PRINTED);
    }
    printed
}

struct Reservation<'a> {
    lock: &'a HeldLock<'a>,
    scanner: ProcScanner<'a>,
    /// How long it outlasts its last program.
    linger: Duration,
    /// When it ends whatever runs, since boot.
    deadline: Option<Duration>,
    process: OwnProcess<'a>,
}

impl Reservation<'_> {
    /// Holds the device until its programs have exited. `wait`: how long it waits for the first one.
    fn serve(mut self, wait: Duration) {
        let users = self.wait_for_program(wait);
        if !users.is_empty() {
            self.serve_until_unused(users);
        }
    }

    /// The process has exited that the device was held for. What it leaves behind has the device as
    /// by an ordinary reservation, until `deadline`.
    fn outlive(mut self, deadline: Option<Duration>) {
        self.deadline = deadline;
        let found = self.scanner.left_behind();
        if found != MatchedProcess::default() {
            self.process.show(found.oldest());
            self.serve_until_unused(found.users);
        }
    }

    fn serve_until_unused(&mut self, mut users: Vec<Stat>) {
        loop {
            self.await_exit(&users);
            users = self.linger();
            if users.is_empty() {
                return;
            }
        }
    }

    /// Whether it ends now, whatever runs.
    fn is_overdue(&self) -> bool {
        let now = sys::boot_time();
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Waits until these have exited. Meanwhile their descendants are noted, which a
    /// program that becomes a daemon leaves behind without a parent that names the device.
    fn await_exit(&mut self, users: &[Stat]) {
        let mut running = ExitWatch::new(users.iter().map(key));
        let mut pause = FIRST_NOTE;
        while !self.is_overdue() && !running.have_exited(Some(pause)) {
            let before = sys::processor_time();
            self.scanner.note_descendants();
            let spent = sys::processor_time().saturating_sub(before);
            pause = (pause * 2).min(LAST_NOTE.max(spent * PART_OF_PROCESSOR));
            self.process.renew();
        }
    }

    /// Waits until these, which keep the reservation and are no programs on the device, have
    /// exited, or until it is time to look for others.
    fn await_keepers(&mut self, keepers: &[Stat], spent: Duration) {
        let pause = LOOK.max(spent * PART_OF_PROCESSOR);
        ExitWatch::new(keepers.iter().map(key)).have_exited(Some(pause));
        self.process.renew();
    }

    /// Waits for the first program; none if the time has run out. A process that has the
    /// UUID in an argument keeps the reservation past that time, and `linger` longer.
    fn wait_for_program(&mut self, wait: Duration) -> Vec<Stat> {
        let (printed, spent) = (run_clock::now(), sys::processor_time());
        let mut deadline = printed + wait;
        loop {
            let since = run_clock::since(printed);
            let pause = backoff::pause(since, sys::processor_time().saturating_sub(spent));
            let left = deadline.saturating_duration_since(run_clock::now());
            run_clock::sleep(pause.min(left));
            let last = run_clock::now() >= deadline;
            let found = if last {
                self.scanner.full()
            } else if since < CLOSELY {
                self.scanner.quick()
            } else {
                self.scanner.scan()
            };
            let is_kept = !found.keepers.is_empty();
            if is_kept {
                deadline = deadline.max(run_clock::now() + self.linger);
            }
            self.process.show(found.oldest());
            if !found.users.is_empty() || (last && !is_kept) {
                return found.users;
            }
            self.process.renew();
        }
    }

    /// All programs have exited. The reservation is marked as lingering at once, so that
    /// others know that it is about to end, and looks on: at everything first and last, at
    /// the caller's processes in between. Returns programs that use it again; none when
    /// it ends.
    fn linger(&mut self) -> Vec<Stat> {
        let (mut began, mut mark) = (run_clock::now(), self.lock.mark_lingering());
        let mut spent = Duration::ZERO;
        let mut found = self.scanner.full();
        loop {
            if self.is_overdue() {
                return Vec::new();
            }
            self.process.show(found.oldest());
            if !found.users.is_empty() {
                return found.users;
            }
            if !found.keepers.is_empty() {
                mark = None;
                self.await_keepers(&found.keepers, spent);
                let before = sys::processor_time();
                found = self.scanner.full();
                spent = sys::processor_time().saturating_sub(before);
                continue;
            }
            if mark.is_none() {
                began = run_clock::now();
            }
            // What was around it may have ended meanwhile.
            mark = self.lock.mark_lingering();
            let left = self.linger.saturating_sub(run_clock::since(began));
            run_clock::sleep(LOOK.min(left));
            let last = run_clock::since(began) >= self.linger;
            found = if last {
                self.scanner.full()
            } else {
                self.scanner.scan()
            };
            if last && found == MatchedProcess::default() {
                return Vec::new();
            }
        }
    }
}

/// The name that `run` gives this process is the one that others look for.
const _: () = assert!(ownership_proof::HOLDER_NAME.len() == c"getgpu-hold".count_bytes());

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
