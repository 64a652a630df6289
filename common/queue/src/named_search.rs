//! Devices that a grant names, in turn with the calls that wait for the same ones: at once where
//! none waits, else behind them in the queue.

use std::time::{Duration, Instant};

use super::causes::QueueCause;
use super::outlook::Outlook;
use super::{Availability, Progress, Seeker, Tried, Waiter};
use super::{availability, stalled_head, taken_by, waiting};
use getgpu_choose::{Decision, NamedOutcome, NamedTake, Owned, choice::device_claim, in_use};
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure, Uuid};
use getgpu_settings::{Settings, Wait};

/// How often a waiter looks whether it owns the devices by now.
const RELOOK: Duration = Duration::from_secs(1);

/// Takes the devices, and waits if another program has them and the settings say so. What the call
/// owns already is taken at once; for anything else the queue comes first. `how_to_wait`: the hint
/// for a call that finds others waiting and does not wait itself.
///
/// # Errors
///
/// Others wait for the devices, or the wait was in vain; the lock file cannot be read or locked.
pub fn take_in_turn(
    named: &NamedTake<'_>,
    settings: &Settings,
    how_to_wait: &str,
) -> Result<NamedOutcome, Failure> {
    let wait = settings.longest_wait();
    let waits = wait != Wait::NO;
    let probe = named.lock_file.open()?;
    let queue = named.request.queue();
    let mut ahead = waiting(&probe, queue)?;
    if ahead > 0 {
        // Whether the call owns it is a walk through /proc: done only where others wait.
        match named.owned() {
            Decision::All(_) => ahead = 0,
            owned if !waits => {
                let request = Owned::inside(&named.request, owned.cover());
                let wanted = named.devices.len();
                let devices = named.devices.iter();
                if stalled_head::left_alone(&probe, &request, devices, wanted)?.is_empty() {
                    return Err(taken_by(ahead, how_to_wait));
                }
            }
            _ => {}
        }
    }
    drop(probe);
    if ahead == 0 || !waits {
        let outcome = named.take()?;
        if !(waits && matches!(outcome, NamedOutcome::InUse(_))) {
            return Ok(outcome);
        }
    }
    let search = NamedSearch {
        named,
        request: Owned::inside(&named.request, named.owned().cover()),
        looked: Instant::now(),
    };
    let progress = Progress::asked(settings, named.diag);
    Waiter::new(named.lock_file, queue, search, progress, wait.into())?.wait()
}

/// A waiter for devices that a grant names.
struct NamedSearch<'a> {
    named: &'a NamedTake<'a>,
    /// What is asked for, inside of what the call owned at the last look.
    request: Owned,
    /// When that was.
    looked: Instant,
}

impl NamedSearch<'_> {
    /// A reservation of this user may have begun or ended since the last attempt.
    fn look_again(&mut self) {
        if self.looked.elapsed() >= RELOOK {
            self.looked = Instant::now();
            self.request = Owned::inside(&self.named.request, self.named.owned().cover());
        }
    }
}

impl Seeker for NamedSearch<'_> {
    type Found = NamedOutcome;

    fn availability(&mut self, probe: &OfdLock) -> Result<Availability, Failure> {
        self.look_again();
        availability(probe, &self.request, self.named.devices.iter())
    }

    fn wanted(&self) -> usize {
        self.named.devices.len()
    }

    fn total(&self) -> usize {
        self.named.devices.len()
    }

    fn attempt(&mut self, _may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<NamedOutcome>, Failure> {
        match self.named.take()? {
            // Not asked about again at once: its owner changes only when a process exits.
            NamedOutcome::InUse(_) => Ok(Tried::NoneFree(self.named.uuids())),
            found => Ok(Tried::Taken(found)),
        }
    }

    fn outlook(&self, probe: &OfdLock) -> Outlook {
        let devices = self.named.devices.iter();
        Outlook::of(self.named.lock_file, probe, &self.request, devices)
    }

    fn over_limit(&mut self, _probe: &OfdLock) -> Result<Option<Failure>, Failure> {
        Ok(None)
    }

    fn in_vain(&mut self, probe: &OfdLock, waited: Duration) -> Failure {
        let is_free = |device: &Device| {
            let offered = device_claim::units(probe, &self.request, device);
            offered.is_ok_and(|offered| offered.is_ok())
        };
        let devices = self.named.devices;
        let taken = devices.iter().find(|device| !is_free(device));
        let Some(device) = taken.or(devices.first()) else {
            return QueueCause::NoneNamed.into();
        };
        let (lock_file, grant) = (self.named.lock_file, &self.request.grant);
        in_use(lock_file, probe, device, "lease", grant).waited(waited)
    }
}
