//! What is held on the node, from one look at the lock to the next: which leases and
//! reservations began, and which have ended. What is held for less than the
//! time between two looks is never seen.

use getgpu_linux::CommandLines;
use getgpu_model::lease_tag;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use getgpu_choose::{Record, syslog};
use getgpu_linux::{Stat, sys};
use getgpu_lock::{Holder, HolderProcess, LockFile, OfdLock, Side, Span, holders, layout};
use getgpu_model::{Failure, Job, Uuid};

use super::spell::Spell;

/// A lease, or a reservation, by the process that its byte names.
type HeldKey = (bool, i32);

/// One lease or reservation, on all its devices.
pub struct HeldDevice {
    /// Else it is a reservation.
    pub leased: bool,
    /// The process that the lock names: the program, or getgpu-hold.
    pub pid: i32,
    pub devices: Vec<Uuid>,
    /// What a listing says of it.
    pub holder: Holder,
    /// What getgpu-hold was started with.
    pub reservation: Option<HolderProcess>,
    /// Since boot.
    began: Duration,
    /// When it was seen last, since boot.
    seen: Duration,
    /// `max_idle` as it is for its user; none: it is not watched.
    pub max_idle: Option<Duration>,
    /// The time that it is in without a program on its devices.
    pub empty: Option<Spell>,
    /// The time that it is in with programs that compute nothing.
    pub idle: Option<Spell>,
    /// How long it has been so before.
    was_idle: Duration,
}

/// Everything that is held.
#[derive(Default)]
pub struct HeldDevices {
    all: BTreeMap<HeldKey, HeldDevice>,
    /// Whether there was a look before: what the first one finds is as old as its process.
    has_looked: bool,
}

impl HeldDevices {
    /// Looks at the lock; gives what has ended. What is held is looked at also where NVML no
    /// longer lists it: a MIG device may not answer, or be gone before its program.
    pub fn update(
        &mut self,
        lock_file: &LockFile,
        listed: &[Uuid],
    ) -> Result<Vec<HeldDevice>, Failure> {
        let probe = lock_file.open()?;
        let held = self.all.values().flat_map(|held| &held.devices);
        let devices: BTreeSet<Uuid> = listed.iter().chain(held).cloned().collect();
        let mut found: BTreeMap<HeldKey, Vec<Uuid>> = BTreeMap::new();
        let is_any_held = probe.conflict(layout::all_devices())?.is_some();
        for device in devices.iter().filter(|_| is_any_held) {
            for side in [Side::Lease, Side::Reservation] {
                let span = Span::of(device);
                for pid in holders::process_ids(&probe, span, side)? {
                    // Any user can sign with the number of any process.
                    if holders::is_innocent(lock_file, pid, side, span) {
                        continue;
                    }
                    let key = (side == Side::Lease, pid);
                    found.entry(key).or_default().push(device.clone());
                }
            }
        }
        let all = std::mem::take(&mut self.all).into_iter();
        let (lasting, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(key, _)| found.contains_key(key));
        self.all = lasting;
        for (key, devices) in found {
            match self.all.get_mut(&key) {
                Some(known) => {
                    known.devices = devices;
                    known.seen = sys::boot_time();
                }
                None => {
                    if let Some(held) = self.begun(lock_file, &probe, key, devices)? {
                        self.all.insert(key, held);
                    }
                }
            }
        }
        self.has_looked = true;
        Ok(ended.into_values().collect())
    }

    /// What has begun since the last look; none if it has ended meanwhile, or if any user
    /// has locked a byte that is not theirs.
    fn begun(
        &self,
        lock_file: &LockFile,
        probe: &OfdLock,
        (leased, pid): HeldKey,
        devices: Vec<Uuid>,
    ) -> Result<Option<HeldDevice>, Failure> {
        let Some(first) = devices.first() else {
            return Ok(None);
        };
        let reservation = (!leased).then(|| HolderProcess::of(pid)).flatten();
        let shown = reservation
            .as_ref()
            .map_or(pid, |holder| holders::stands_for(holder).0);
        let kind = if leased { "lease" } else { "reservation" };
        let all = holders::holdings(lock_file, probe, Span::of(first))?.holders;
        let own = all
            .into_iter()
            .find(|holder| holder.kind == kind && holder.pid == Some(shown));
        let Some(mut holder) = own else {
            return Ok(None);
        };
        if let Some(uid) = holder.uid.filter(|_| leased) {
            holder.tag = lease_tag::of(&CommandLines::start(), pid, uid);
        }
        let now = sys::boot_time();
        let started = Stat::read(pid).map(|stat| sys::after_boot(stat.start));
        let began = started.filter(|_| !self.has_looked).unwrap_or(now);
        Ok(Some(HeldDevice {
            leased,
            pid,
            devices,
            holder,
            reservation,
            began,
            seen: now,
            max_idle: None,
            empty: None,
            idle: None,
            was_idle: Duration::ZERO,
        }))
    }

    /// Everything that is held.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut HeldDevice> {
        self.all.values_mut()
    }

    /// The devices under a lease that has lasted for so long.
    pub fn leased_for(&self, least: Duration) -> Vec<Uuid> {
        let leases = self.all.values();
        let leases = leases.filter(|held| held.leased && held.seen_for() >= least);
        leases.flat_map(|held| held.devices.clone()).collect()
    }

    /// The devices that are in a spell of a kind, and since when, in Unix seconds.
    pub fn since(&self, spell: fn(&HeldDevice) -> Option<Spell>) -> BTreeMap<Uuid, u64> {
        let mut found = BTreeMap::new();
        for held in self.all.values() {
            let Some(spell) = spell(held) else {
                continue;
            };
            for device in &held.devices {
                let latest = found.entry(device.clone()).or_default();
                *latest = spell.since_unix.max(*latest);
            }
        }
        found
    }
}

impl HeldDevice {
    /// For how long it was seen: between two looks it may have been held for longer.
    pub fn seen_for(&self) -> Duration {
        self.seen.saturating_sub(self.began)
    }

    /// Puts it into the spells that it is in after a look.
    pub fn enter(&mut self, empty: Option<Spell>, idle: Option<Spell>) {
        if let Some(ended) = self.idle.filter(|_| idle.is_none()) {
            self.was_idle += ended.age();
        }
        (self.empty, self.idle) = (empty, idle);
    }

    /// How long ago it began, as far as was seen.
    fn age(&self) -> Duration {
        sys::boot_time().saturating_sub(self.began)
    }

    /// Writes the end of a lease into the system's log. That of a reservation is written
    /// by getgpu-hold itself, or by the call that ends it.
    pub fn log_end(&self) {
        if !self.leased {
            return;
        }
        let job = self.holder.job.clone().map(|id| Job {
            id,
            task: self.holder.task,
        });
        let record = Record {
            by: "cudawrap",
            pid: self.pid,
            what: "released",
            devices: &self.devices,
            uid: self.holder.uid.unwrap_or_default(),
            program: ("program", self.holder.program.as_deref().unwrap_or("?")),
            share: self.holder.share.unwrap_or(1.0),
            tag: self.holder.tag.as_deref(),
            job: job.as_ref(),
            waited: Duration::ZERO,
        };
        let idle = self.was_idle + self.idle.map_or(Duration::ZERO, |spell| spell.age());
        let idle = (!idle.is_zero()).then(|| format!(" idle={:.1}s", idle.as_secs_f64()));
        let text = record.text() + &idle.unwrap_or_default();
        syslog::released(record.by, self.pid, &text, self.age());
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
