//! Giving up reservations: finds the holders by name and proof, ends them through a
//! pidfd, waits until the devices are free. A user gives up their own, root any user's.

use std::time::Duration;

use getgpu_linux::{Stat, pidfd, run_clock};
use getgpu_lock::{HolderProcess, LockFile, Role, holder_args::parse_devices, ownership_proof};
use getgpu_model::{Diag, Failure, Job, Kind, Uuid, quantity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::causes::{ReleaseRemedy, ReserveCause};
use crate::ended_reservation;

/// How long the holders may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// The reservations that this user may give up, for root all; and the parts that root's prolog has
/// reserved for this user's jobs, which the user may not.
fn mine(lock_file: &LockFile) -> (Vec<HolderProcess>, Vec<HolderProcess>) {
    let uid = nix::unistd::geteuid();
    let of_user = (!uid.is_root()).then_some(uid.as_raw());
    let all = ownership_proof::reservations(lock_file, of_user, &|_| true);
    let is_mine = |holder: &HolderProcess| uid.is_root() || holder.args.role != Role::JobPart;
    all.into_iter().partition(is_mine)
}

/// Says that the parts of a user's jobs stay.
fn tell_of(parts: &[HolderProcess], diag: &Diag) {
    if let Some(job) = parts.first().and_then(|part| part.args.job_of_part()) {
        diag.warn(&format!(
            "the part of job {job} left alone: it is the job's until it ends"
        ));
    }
}

/// Gives up the reservation under the tag `name`, or of the device with this UUID or, if no
/// tag is called so, with this index, which `device_at` knows; or those of several UUIDs, of
/// which each has to be reserved.
pub fn one(
    lock_file: &LockFile,
    name: &str,
    device_at: impl Fn(usize) -> Result<Uuid, Failure>,
    diag: &Diag,
) -> Result<(), Failure> {
    let (mine, parts) = mine(lock_file);
    let (mut found, others): (Vec<_>, Vec<_>) = mine.into_iter().partition(|holder| {
        let tag = holder.args.tag.as_ref();
        tag.is_some_and(|tag| tag.name == name)
    });
    let (mut is_label, mut unknown) = (false, name.to_owned());
    // The driver is asked for an index only.
    if found.is_empty() {
        let uuids = match (parse_devices(name), name.parse()) {
            (None, Ok(index)) => match device_at(index) {
                // Without a driver nothing is known of an index, and nothing is reserved.
                Err(failure) if others.is_empty() && failure.kind != Kind::NoneFree => Vec::new(),
                device => vec![device?],
            },
            (uuids, _) => uuids.unwrap_or_default(),
        };
        found = others;
        let mut labels = found.iter().map(|holder| holder.args.label.as_deref());
        is_label = labels.any(|label| label == Some(name));
        let has = |holder: &HolderProcess, uuid: &Uuid| holder.args.devices.contains(uuid);
        let is_unknown = |uuid: &&Uuid| !found.iter().any(|holder| has(holder, uuid));
        match uuids.iter().find(is_unknown) {
            // Of several, all or none are given up.
            Some(uuid) => {
                if uuids.len() > 1 {
                    unknown = uuid.to_string();
                }
                found.clear();
            }
            None => found.retain(|holder| uuids.iter().any(|uuid| has(holder, uuid))),
        }
    }
    if found.is_empty() {
        tell_of(&parts, diag);
        let remedy = match is_label {
            true => ReleaseRemedy::ByUuid,
            false => ReleaseRemedy::List,
        };
        return Err(ReserveCause::NotYours { unknown, remedy }.into());
    }
    end(lock_file, &found, PATIENCE, diag)
}

/// Gives up all but what other batch jobs keep, of whose tasks this call knows nothing;
/// root gives up all users'.
pub fn all(lock_file: &LockFile, diag: &Diag) -> Result<(), Failure> {
    let (root, job) = (nix::unistd::geteuid().is_root(), Job::own());
    let own = job.as_ref().map(Job::number);
    let (mine, parts) = mine(lock_file);
    let (left, given_up): (Vec<_>, Vec<_>) = mine
        .into_iter()
        .partition(|holder| !root && kept_by_job(holder).is_some_and(|job| Some(job) != own));
    if let [first, ..] = left.as_slice() {
        let (many, job) = (left.len(), kept_by_job(first).unwrap_or_default());
        let one = quantity::counted(many, "reservation");
        diag.warn(&format!(
            "{one} of other batch jobs left alone, such as job {job}'s"
        ));
    }
    tell_of(&parts, diag);
    end(lock_file, &given_up, PATIENCE, diag)
}

/// The batch job that keeps a reservation.
fn kept_by_job(holder: &HolderProcess) -> Option<&str> {
    holder.args.job.as_ref().map(Job::number)
}

/// All are asked before any is waited for, so that one that does not end delays no other,
/// and the time is the same however many they are.
///
/// # Errors
///
/// A holder does not end within `patience`.
pub fn end(
    lock_file: &LockFile,
    holders: &[HolderProcess],
    patience: Duration,
    diag: &Diag,
) -> Result<(), Failure> {
    let began = run_clock::now();
    let of_holder = |holder| ended_reservation::line(lock_file, holder);
    let lines: Vec<Option<String>> = holders.iter().map(of_holder).collect();
    for holder in holders {
        ask_to_end(holder);
    }
    let left = || holders.iter().filter(|holder| runs(holder));
    while left().next().is_some() && run_clock::since(began) < patience {
        run_clock::sleep(PAUSE);
    }
    for (holder, line) in holders.iter().zip(&lines) {
        if runs(holder) {
            continue;
        }
        if let Some(line) = line {
            ended_reservation::log(holder, line);
        }
        let devices = Uuid::join(&holder.args.devices);
        diag.note(&format!("{devices}: released (pid {})", holder.pid));
    }
    match left().next() {
        None => Ok(()),
        Some(holder) => {
            let (devices, pid) = (Uuid::join(&holder.args.devices), holder.pid);
            Err(ReserveCause::HolderStays { devices, pid }.into())
        }
    }
}

/// Whether a holder still runs. A zombie has given everything up.
fn runs(holder: &HolderProcess) -> bool {
    Stat::runs(holder.pid, holder.start)
}

/// Asks a holder to end; false if it has ended, or could not be asked.
pub fn ask_to_end(holder: &HolderProcess) -> bool {
    let fd = pidfd::open(holder.pid);
    // Looked at after the pidfd was opened: the number is still the holder's.
    if !runs(holder) {
        return false;
    }
    // A stopped process acts on a signal once it is continued.
    let mut signals = [Signal::SIGTERM, Signal::SIGCONT].into_iter();
    signals.all(|signal| match &fd {
        Some(fd) => pidfd::send(fd, signal),
        None => kill(Pid::from_raw(holder.pid), signal).is_ok(),
    })
}

#[cfg(test)]
#[path = "release_tests.rs"]
mod tests;
