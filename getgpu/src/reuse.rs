//! What is this caller's already: its reservation whose programs are over is taken over, so that a loop needs one device.
//! The holder's end is waited for, so that the new one stands alone.

use std::time::{Duration, Instant};

use getgpu_common::error::Failure;
use getgpu_common::lock::claim::{join, lock_error, sign};
use getgpu_common::lock::own::{self, HolderLine};
use getgpu_common::lock::{Description, Place, Side, Span, layout};
use getgpu_common::procfs::{Stat, namespaces};
use getgpu_common::sys;

use crate::caller::Process;

/// How long the old holder may take to end, and to say that it lingers. Both take it a millisecond; the rest is for a node on which
/// more wants to run than there are processors.
const HANDOVER: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(500);

/// The reservations of this caller that end by themselves.
pub fn of_caller(place: &Place, caller: &Process) -> Result<Vec<HolderLine>, Failure> {
    // One question to the kernel spares most calls the walk through /proc: is anything held at all?
    let probe = place.open()?;
    if probe.conflict(layout::all_devices()).map_err(|e| lock_error(&e))?.is_none() {
        return Ok(Vec::new());
    }
    let uid = nix::unistd::geteuid().as_raw();
    let mut lines = own::reservations(place, Some(uid));
    lines.retain(|line| {
        line.hold.is_none() && line.tag.is_none() && line.caller.0 == caller.pid && line.caller_start == caller.start
    });
    Ok(lines)
}

/// Whether the holder lingers. One that was woken by its program's end and has not run yet gets the time to say so.
pub fn lingers(place: &Place, line: &HolderLine) -> bool {
    let began = Instant::now();
    loop {
        if own::lingering(place, line) {
            return true;
        }
        let about_to = Stat::read(line.pid).is_some_and(|stat| matches!(stat.state, 'R' | 'D'));
        if !about_to || began.elapsed() >= HANDOVER {
            return own::lingering(place, line);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes a lingering reservation over: joins its lock, ends its holder, waits for that end.
/// None if somebody else is faster or the old holder does not end in time; then a device is chosen as any other.
pub fn take_over(place: &Place, line: &HolderLine) -> Result<Option<Description>, Failure> {
    let (handover, joined) = (place.open()?, place.open()?);
    for uuid in &line.devices {
        if !handover.try_write(Span::of(uuid).handover()).map_err(|e| lock_error(&e))? {
            return Ok(None);
        }
    }
    if !own::lingering(place, line) {
        return Ok(None);
    }
    for uuid in &line.devices {
        if !join(&joined, Side::Reservation, Span::of(uuid), &own::reserved_units(place, line, uuid))? {
            return Ok(None);
        }
    }
    // Never without a name, not even until the new holder writes it down.
    let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
    line.devices.iter().for_each(|uuid| sign(&joined, Side::Reservation, Span::of(uuid), uid, None));
    let ended = end_holder(place, line, HANDOVER);
    drop(handover);
    Ok(ended.then_some(joined))
}

/// Asks a holder to end and waits for it; true when it is over.
pub fn end_holder(place: &Place, line: &HolderLine, limit: Duration) -> bool {
    let fd = sys::pidfd(line.pid);
    // Looked at again behind the pidfd: the signal goes to this process or to nobody.
    if HolderLine::of(line.pid).as_ref() != Some(line) || !own::proven(place, line) {
        return Stat::read(line.pid).is_none();
    }
    let asked = match &fd {
        Ok(fd) => sys::pidfd_signal(fd, libc::SIGTERM).is_ok(),
        Err(_) => {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(line.pid), nix::sys::signal::Signal::SIGTERM).is_ok()
        }
    };
    let began = Instant::now();
    while asked && began.elapsed() < limit {
        if Stat::read(line.pid).is_none_or(|stat| !stat.alive()) {
            return true;
        }
        std::thread::sleep(PAUSE);
    }
    false
}
