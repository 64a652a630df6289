//! Reusing the reservation of the caller's last command, so that a loop of short programs
//! needs one device. The old holder decides whether nobody else can be using it; only
//! then is its lock joined, so the device is never free in between.

use std::time::{Duration, Instant};

use getgpu_common::choice::chooser::Guard;
use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Inventory};
use getgpu_common::lock::claim::{join, sign};
use getgpu_common::lock::holder_args::HolderArgs;
use getgpu_common::lock::ownership_proof::{self, HolderProcess, Shows};
use getgpu_common::lock::{Level, LockFile, Occupancy, OfdLock, Side, Span, UNITS, Units, layout};
use getgpu_common::ownership::{self, Basis, Candidate, Decision, OwnershipQuestion, Proven};
use getgpu_common::pool::Portion;
use getgpu_common::procfs::{Stat, namespaces};
use getgpu_common::request::Request;
use getgpu_common::{share, sys};
use nix::sys::signal::Signal;

use crate::answer::Answer;
use crate::holder::QUESTION;
use crate::invocation::{Asker, Invocation};
use getgpu_common::procfs::Process;

/// How long a holder may take to answer.
const ANSWER: Duration = Duration::from_millis(100);
/// How long one may take that is about to run, but has no processor yet, to answer, to
/// say that it lingers, or to end.
const NO_PROCESSOR: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(500);

impl Invocation<'_> {
    /// This caller's reservation whose programs have exited, if it fits the request and
    /// its holder agrees.
    pub fn reused(
        &self,
        client: &mut Asker,
        request: &Request,
        caller: &Process,
        known: Option<&Inventory>,
    ) -> Result<Option<Answer>, Failure> {
        let candidates = candidates(&self.lock_file, caller)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let told = |(uuid, _): &(Uuid, Units)| request.filter.is_told_by_uuid(uuid);
        let by_uuid = request.filter.share.is_none()
            && candidates.iter().all(|of| of.devices.iter().all(told));
        let scanned;
        let inventory = match known {
            Some(known) => Some(known),
            None if by_uuid => None,
            // Programs that run at a time need no look at the node.
            None if !candidates
                .iter()
                .any(|of| of_lingering(&self.lock_file, of)) =>
            {
                return Ok(None);
            }
            None => {
                scanned = client.scan(request.detail())?;
                Some(&scanned)
            }
        };
        let Some(line) = self.reusable(&candidates, request, inventory) else {
            return Ok(None);
        };
        if !self.is_idle(client, &line)? {
            return Ok(None);
        }
        let Some(lock) = take(&self.lock_file, &line)? else {
            return Ok(None);
        };
        let value = self.value(line.args.devices.iter(), inventory)?;
        self.diag.note(&format!(
            "{value}: reused from this caller's last reservation"
        ));
        Ok(Some(self.answer_of(line, value, lock)))
    }

    /// What is printed for a reservation that this call has joined by `lock`.
    fn answer_of(&self, line: HolderProcess, value: String, lock: OfdLock) -> Answer {
        let reserved = |uuid| ownership_proof::reserved_units(&self.lock_file, &line, uuid);
        let units: Vec<_> = line.args.devices.iter().map(reserved).collect();
        Answer {
            part: share::smallest(&units),
            uuids: line.args.devices,
            value,
            lock: Some(lock),
            guard: Guard::default(),
        }
    }

    /// The reservation among `candidates` that fits the request and lingers.
    fn reusable(
        &self,
        candidates: &[Candidate],
        request: &Request,
        inventory: Option<&Inventory>,
    ) -> Option<HolderProcess> {
        let reusable = |line: &HolderProcess, devices: &Proven| {
            fits(devices, request, inventory) && lingers(&self.lock_file, line)
        };
        let wish = OwnershipQuestion {
            grant: None,
            by_uuid: false,
            count: request.count,
            wants_all: &|_, _| true,
            reusable: &reusable,
        };
        match ownership::decide(&wish, candidates) {
            Decision::Reuse(line) => Some(*line),
            _ => None,
        }
    }

    /// Whether no program is on the reserved devices, apart from those that share them.
    fn is_idle(&self, client: &mut Asker, line: &HolderProcess) -> Result<bool, Failure> {
        for uuid in &line.args.devices {
            if self.shared(line, uuid)? {
                continue;
            }
            if client.usage_of(uuid)?.activity != Activity::Idle {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether others have shares of the device, so that its being busy says nothing.
    fn shared(&self, line: &HolderProcess, uuid: &Uuid) -> Result<bool, Failure> {
        let confirmed =
            Occupancy::look(&self.lock_file.open()?, Level::Outer, Span::of(uuid))?.confirmed;
        Ok(
            confirmed.count()
                > ownership_proof::reserved_units(&self.lock_file, line, uuid).count(),
        )
    }
}

/// The reservations of this caller that end by themselves.
fn candidates(lock_file: &LockFile, caller: &Process) -> Result<Vec<Candidate>, Failure> {
    // One question to the kernel spares most calls the walk through /proc: is anything
    // held at all?
    let probe = lock_file.open()?;
    if probe.conflict(layout::all_devices())?.is_none() {
        return Ok(Vec::new());
    }
    let uid = nix::unistd::geteuid().as_raw();
    let of_caller = |args: &HolderArgs| {
        let same = (args.caller.pid, args.caller.start) == (caller.pid, caller.start);
        args.is_plain() && args.tag.is_none() && same
    };
    let lines = ownership_proof::reservations(lock_file, Some(uid), &of_caller);
    let candidate = |line: HolderProcess| {
        let devices = ownership_proof::reserved(lock_file, &line);
        Candidate {
            basis: Basis::Reservation(Box::new(line)),
            devices,
            distance: 0,
            in_use: false,
        }
    };
    Ok(lines.into_iter().map(candidate).collect())
}

/// As many devices, as much of each, and each of them in the pool.
fn fits(devices: &Proven, request: &Request, inventory: Option<&Inventory>) -> bool {
    let each = |(uuid, units): &(Uuid, Units)| match inventory {
        None => request.filter.fits_uuid(uuid) && units.is_whole(),
        Some(inventory) => {
            let device = request
                .filter
                .pool(inventory)
                .find(|device| device.uuid == *uuid);
            device.is_some_and(|device| {
                match request.filter.portion(&Units::whole(), device.memory) {
                    Portion::All => units.count() == UNITS,
                    Portion::Units(wanted) => units.count() == wanted,
                    Portion::TooLarge => false,
                }
            })
        }
    };
    devices.len() == request.count && devices.iter().all(each)
}

/// Whether a process is about to run, and only waits for a processor.
fn about_to_run(pid: i32) -> bool {
    Stat::read(pid).is_some_and(|stat| matches!(stat.state, 'R' | 'D'))
}

/// Whether the holder lingers. One that was woken by its program's exit and has not run
/// yet gets the time to say so.
fn lingers(lock_file: &LockFile, line: &HolderProcess) -> bool {
    let began = Instant::now();
    loop {
        if ownership_proof::shows(lock_file, line, Shows::Lingering) {
            return true;
        }
        let state = Stat::read(line.pid).map_or('X', |stat| stat.state);
        if !matches!(state, 'R' | 'D') || began.elapsed() >= NO_PROCESSOR {
            return ownership_proof::shows(lock_file, line, Shows::Lingering);
        }
        std::thread::sleep(PAUSE);
    }
}

fn of_lingering(lock_file: &LockFile, candidate: &Candidate) -> bool {
    matches!(&candidate.basis, Basis::Reservation(line) if lingers(lock_file, line))
}

/// Asks a lingering holder for its reservation, joins its lock if it agrees, ends it and
/// waits for that end. `None` if somebody else is asking, the holder refuses or does not
/// answer: then a device is chosen as any other.
fn take(lock_file: &LockFile, line: &HolderProcess) -> Result<Option<OfdLock>, Failure> {
    let (handover, joined) = (lock_file.open()?, lock_file.open()?);
    for uuid in &line.args.devices {
        if !handover.try_write(Span::of(uuid).handover())? {
            return Ok(None);
        }
    }
    if !ownership_proof::shows(lock_file, line, Shows::Lingering) || !agrees(lock_file, line) {
        return Ok(None);
    }
    for uuid in &line.args.devices {
        if !join(
            &joined,
            Side::Reservation,
            Span::of(uuid),
            &ownership_proof::reserved_units(lock_file, line, uuid),
        )? {
            return Ok(None);
        }
    }
    // It agrees still, so it had the lock when we joined it.
    if !ownership_proof::proven(lock_file, line)
        || !ownership_proof::shows(lock_file, line, Shows::Consent)
    {
        return Ok(None);
    }
    // Never without a name, not even until the new holder writes it down.
    let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
    line.args
        .devices
        .iter()
        .for_each(|uuid| sign(&joined, Side::Reservation, Span::of(uuid), uid, None));
    let ended = end_holder(lock_file, line, NO_PROCESSOR);
    drop(handover);
    Ok(ended.then_some(joined))
}

/// Asks the holder, which alone may read the environments that tell.
fn agrees(lock_file: &LockFile, line: &HolderProcess) -> bool {
    if !signal(lock_file, line, QUESTION) {
        return false;
    }
    let began = Instant::now();
    loop {
        if ownership_proof::shows(lock_file, line, Shows::Consent) {
            return true;
        }
        let late = began.elapsed() >= ANSWER
            && (!about_to_run(line.pid) || began.elapsed() >= NO_PROCESSOR);
        if late || ownership_proof::shows(lock_file, line, Shows::Refusal) {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Sends a holder a signal; true if it went to this holder and to no other process that
/// has got its number.
fn signal(lock_file: &LockFile, line: &HolderProcess, signal: Signal) -> bool {
    let fd = sys::pidfd(line.pid);
    // Looked at again behind the pidfd.
    if over(line) || !ownership_proof::proven(lock_file, line) {
        return false;
    }
    match &fd {
        Ok(fd) => sys::pidfd_signal(fd, signal as i32).is_ok(),
        Err(_) => nix::sys::signal::kill(nix::unistd::Pid::from_raw(line.pid), signal).is_ok(),
    }
}

/// Asks a holder to end and waits for it; true when it has exited.
pub fn end_holder(lock_file: &LockFile, line: &HolderProcess, limit: Duration) -> bool {
    let asked = ask_to_end(lock_file, line);
    let began = Instant::now();
    while asked && began.elapsed() < limit {
        if over(line) {
            return true;
        }
        std::thread::sleep(PAUSE);
    }
    over(line)
}

/// Whether a holder has exited. One that nobody reaps has given everything up too.
pub fn over(line: &HolderProcess) -> bool {
    Stat::read(line.pid).is_none_or(|stat| !stat.alive() || stat.start != line.start)
}

/// Asks a holder to end; false if it could not be asked, or has changed into another
/// process.
pub fn ask_to_end(lock_file: &LockFile, line: &HolderProcess) -> bool {
    // A stopped process acts on a signal once it is continued.
    signal(lock_file, line, Signal::SIGTERM) && signal(lock_file, line, Signal::SIGCONT)
}
