//! The life of a reservation: waiting for its program, used by it, lingering behind it,
//! over. The lock on descriptor 3 is the reservation; when this process ends, however it
//! ends, the kernel gives it up.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use getgpu_common::lock::claim::sign;
use getgpu_common::lock::holder_args::{HolderArgs, Until};
use getgpu_common::lock::{OfdLock, Side, Span, ownership_proof};
use getgpu_common::procfs::{Stat, file, namespaces};
use getgpu_common::{lease_log, sys};

use super::backoff::Backoff;
use super::consent::{self, Evidence, Questions};
use super::exit_watch::{Watch, runs};
use super::held_lock::HeldLock;
use super::proc_scanner::ProcScanner;
use super::snapshot::{self, Snapshot};

/// Looks before a reservation is given up, and the time between them: a program that
/// hands itself on is found by one of them.
const LAST_LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Between looks while lingering.
const LINGER_LOOK: Duration = Duration::from_millis(200);
/// How often getgpu-hold checks whether the caller has exited.
const CALLER_LOOK: Duration = Duration::from_millis(50);
/// Between two looks whether the one that asked is still there.
const BETWEEN_ANSWERS: Duration = Duration::from_millis(1);
/// How long after the end of its last program this process may come to know of it.
const NOTICE: Duration = Duration::from_millis(100);

/// Lives as the command line says.
pub fn live(line: &HolderArgs) -> i32 {
    sys::set_name(c"getgpu-hold");
    let lock = HeldLock::new(line, OfdLock::new(sys::own_fd(super::start::LOCK_FD)));
    let starter = File::from(sys::own_fd(super::start::STARTER_FD));
    sign_in(line, &lock);
    let questions = Questions::receive();
    // Without memory or descriptors /proc tells nothing: a reservation in doubt stays.
    file::persist();
    // Who is there already, which only the search for a program asks for: with a thousand
    // processes that takes its time.
    let before = line
        .is_plain()
        .then(|| (ProcScanner::new(line), Snapshot::of(line.caller.pid)));
    if !printed(starter) {
        return 0;
    }
    match &line.until {
        Until::Released => loop {
            nix::unistd::pause();
        },
        Until::Over(process, longest) => {
            Watch::new(std::iter::once((process.pid, process.start))).all_over(*longest);
        }
        Until::Programs { wait, linger } => {
            let (looker, before) = before.unwrap_or_else(|| (ProcScanner::new(line), None));
            Reservation {
                line,
                lock,
                looker,
                questions,
                before,
                guests: HashMap::new(),
            }
            .serve(*wait, *linger);
        }
    }
    0
}

/// Says who holds the devices, where others look for that.
fn sign_in(line: &HolderArgs, lock: &HeldLock<'_>) {
    let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
    let pid = namespaces::host_pids().then(|| std::process::id() as i32);
    for device in &line.devices {
        sign(&lock.lock, Side::Reservation, Span::of(device), uid, pid);
    }
    if let (Some(text), Some(first), Some(pid)) = (&line.record, line.devices.first(), pid) {
        lock.reopen()
            .iter()
            .for_each(|lock| lease_log::launch(lock, Side::Reservation, pid, first, text));
    }
}

/// Tells the starter that this process is ready, by its number, and waits for its word
/// whether printing went well. No word at all means that getgpu was killed: in doubt
/// reserved.
fn printed(mut starter: File) -> bool {
    let mut word = [0u8; 1];
    let ready = std::process::id().to_ne_bytes();
    starter.write_all(&ready).is_ok()
        && !matches!(starter.read(&mut word), Ok(1) if word[0] == super::start::CANCEL)
}

struct Reservation<'a> {
    line: &'a HolderArgs,
    lock: HeldLock<'a>,
    looker: ProcScanner,
    questions: Option<Questions>,
    /// The caller and its children before anything was printed.
    before: Option<Snapshot>,
    /// Processes that began while it lingered and may not be read, and until when (since
    /// boot) they keep it.
    guests: HashMap<(i32, u64), Duration>,
}

impl Reservation<'_> {
    fn serve(mut self, wait: Duration, linger: Duration) {
        let Some(mut programs) = self.wait(wait) else {
            return;
        };
        loop {
            let keys = || programs.iter().map(|stat| (stat.pid, stat.start));
            let programs_alone: Vec<(i32, u64)> = keys()
                .filter(|key| !self.guests.contains_key(key))
                .collect();
            if programs_alone.is_empty() {
                let until = keys()
                    .filter_map(|key| self.guests.get(&key))
                    .max()
                    .copied()
                    .unwrap_or_default();
                Watch::new(keys()).all_over(Some(until.saturating_sub(sys::boot_time())));
            } else {
                Watch::new(programs_alone.into_iter()).all_over(None);
            }
            match self.linger(linger, wait) {
                Some(next) => programs = next,
                None => return,
            }
        }
    }

    /// Waits for the first program; none when the time has run out.
    fn wait(&mut self, limit: Duration) -> Option<Vec<Stat>> {
        let deadline = sys::boot_time() + limit;
        if let Some(found) = self.watch_closely(limit.min(snapshot::CLOSELY)) {
            return Some(found);
        }
        let (mut pauses, mut took) = (Backoff::new(), Duration::ZERO);
        loop {
            let left = deadline.saturating_sub(sys::boot_time());
            std::thread::sleep(pauses.next(took).min(left));
            let last = sys::boot_time() >= deadline;
            let found;
            (found, took) = if last {
                (self.last_look(), took)
            } else {
                self.looker.look()
            };
            if !found.is_empty() {
                return Some(found);
            }
            if last {
                return None;
            }
        }
    }

    /// For the first moments: looks as soon as the caller, or a child of it, is another
    /// program than before.
    fn watch_closely(&self, limit: Duration) -> Option<Vec<Stat>> {
        let (began, before) = (Instant::now(), self.before.as_ref()?);
        while began.elapsed() < limit {
            let found = if Snapshot::of(self.line.caller.pid)?.shows_more_than(before) {
                self.looker.quick()
            } else {
                Vec::new()
            };
            if !found.is_empty() {
                return Some(found);
            }
            std::thread::sleep(snapshot::BETWEEN);
        }
        None
    }

    fn last_look(&mut self) -> Vec<Stat> {
        for look in 0..LAST_LOOKS {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let found = self.looker.full();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// All programs have exited. Marked as lingering at once, so that the caller's next
    /// getgpu can ask for the device, it goes on looking: some more looks for programs
    /// that handed themselves on, then for `limit` while the caller lives. A process that
    /// may not be read and begins now, such as an `ssh` typed behind the program, keeps
    /// it for `guest` at most.
    fn linger(&mut self, limit: Duration, guest: Duration) -> Option<Vec<Stat>> {
        let (began, since) = (Instant::now(), sys::boot_time());
        let found = self.looker.full();
        let found = self.timely(found, since, guest);
        if !found.is_empty() {
            return Some(found);
        }
        let mark = self.lock.mark();
        let mut caller = Watch::new(std::iter::once((
            self.line.caller.pid,
            self.line.caller.start,
        )));
        let mut looks = 1;
        loop {
            let early = looks < LAST_LOOKS;
            let pause = if early {
                BETWEEN_LOOKS
            } else {
                LINGER_LOOK.min(limit.saturating_sub(began.elapsed()))
            };
            // The early looks are made whether the caller lives or not.
            let caller_over = self.pause(pause, if early { None } else { Some(&mut caller) });
            looks += 1;
            let last = looks >= LAST_LOOKS && (caller_over || began.elapsed() >= limit);
            let found = if last || looks <= LAST_LOOKS {
                self.looker.full()
            } else {
                self.looker.look().0
            };
            let found = self.timely(found, since, guest);
            if !found.is_empty() {
                self.lock.unmark(mark);
                return Some(found);
            }
            if last {
                return None;
            }
        }
    }

    /// Waits for `pause`, or until the caller exits, and answers every getgpu that asks
    /// in the meantime. Returns whether the caller has exited.
    fn pause(&mut self, pause: Duration, mut caller: Option<&mut Watch>) -> bool {
        let until = Instant::now() + pause;
        loop {
            if caller.as_mut().is_some_and(|caller| caller.are_over()) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return !runs(self.line.caller.pid, self.line.caller.start);
            }
            match &self.questions {
                Some(questions) => {
                    let asker = questions.next(left.min(CALLER_LOOK));
                    asker.into_iter().for_each(|asker| self.answer(asker));
                }
                None => std::thread::sleep(left.min(CALLER_LOOK)),
            }
        }
    }

    /// Answers a getgpu that asks for the device, for as long as it keeps the handover
    /// bytes. If it is given the device, it joins our locks and then ends this process;
    /// if it exits without doing so, all is as before.
    fn answer(&mut self, asker: i32) {
        let (Some(answer), Some(probe)) = (self.lock.reopen(), self.lock.reopen()) else {
            return;
        };
        let agreed = consent::agrees(&self.evidence(asker, &probe));
        self.lock.answer(&answer, agreed);
        while self.lock.is_asked_for(&probe) {
            std::thread::sleep(BETWEEN_ANSWERS);
        }
    }

    fn evidence(&self, asker: i32, probe: &OfdLock) -> Evidence {
        let everything = self.looker.everything();
        let mut evidence = consent::read(self.line, asker, &everything);
        evidence.held = self.lock.is_held_by_others(probe);
        evidence.named = !self.looker.naming(&everything).is_empty();
        evidence
    }

    /// The processes found, without the guests whose time has run out.
    fn timely(&mut self, mut found: Vec<Stat>, since: Duration, guest: Duration) -> Vec<Stat> {
        let (now, ticks) = (sys::boot_time(), sys::ticks_per_second());
        // The program ended some moments before this process knew.
        let since = (since.saturating_sub(NOTICE).as_secs_f64() * ticks as f64) as u64;
        found.retain(|stat| {
            let key = (stat.pid, stat.start);
            if stat.start >= since
                && !self.guests.contains_key(&key)
                && super::proc_scanner::unreadable(stat.pid)
            {
                self.guests.insert(key, now + guest);
            }
            self.guests.get(&key).is_none_or(|until| now < *until)
        });
        found
    }
}

/// The name that `live` gives this process is the one that others look for.
const _: () = assert!(ownership_proof::HOLDER_NAME.len() == c"getgpu-hold".count_bytes());
