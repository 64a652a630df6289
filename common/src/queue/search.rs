//! A waiter's search among the devices of the node: what has room on the lock, and the
//! choice as one that does not wait would make it. NVML is opened for an attempt and
//! closed behind it, so that nobody who only waits keeps a GPU open.

use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};

use super::lingering::{self, Prospect};
use super::{Availability, Seeker, Tried};
use crate::choice::chooser::{Chooser, Guard, Outcome, Picked};
use crate::choice::rejection_report::{self, Offer, Rejected, RejectionReport};
use crate::choice::{cap, device_claim};
use crate::error::{Failure, Kind};
use crate::ident::Uuid;
use crate::inventory::{Device, Inventory};
use crate::lock::{LockFile, OfdLock, Side};
use crate::nvml_client::{Ask, Client, Later, Worker};
use crate::quantity;
use crate::request::Request;
use crate::settings::{Environment, Loaded, allowed};

/// The node is listed again so often by the head of the queue, should it have been
/// re-partitioned.
const RELIST: Duration = Duration::from_secs(30);
/// After it could not be listed.
const RELIST_AGAIN: Duration = Duration::from_secs(5);
/// The site's list of excluded devices is read again so often.
const REREAD: Duration = Duration::from_secs(1);
/// So many attempts in a row may fail for NVML's sake.
const FAILURES: u32 = 3;

pub struct Search<'a, W: Worker> {
    pub lock_file: &'a LockFile,
    pub side: Side,
    /// What is asked for.
    pub request: Request,
    /// The node, as it was listed last.
    pub inventory: Inventory,
    /// Where the settings are read again from.
    pub environment: &'a Environment,
    /// Opens a session with NVML.
    pub open: &'a mut dyn FnMut() -> Result<Client<W>, Failure>,
    /// When the node was listed, and when settings were read.
    listed: Instant,
    read: Instant,
    failures: u32,
    rejected: Vec<(Device, Rejected)>,
}

impl<'a, W: Worker> Search<'a, W> {
    /// A search that begins with what is known of the node.
    pub fn new(
        lock_file: &'a LockFile,
        side: Side,
        request: Request,
        inventory: Inventory,
        environment: &'a Environment,
        open: &'a mut dyn FnMut() -> Result<Client<W>, Failure>,
    ) -> Self {
        let now = Instant::now();
        Self {
            lock_file,
            side,
            request,
            inventory,
            environment,
            open,
            listed: now,
            read: now,
            failures: 0,
            rejected: Vec::new(),
        }
    }

    /// An administrator may drain a device while others wait for it. What cannot be read
    /// leaves all as it was.
    fn reread(&mut self) {
        if self.read.elapsed() < REREAD {
            return;
        }
        self.read = Instant::now();
        if let Ok(loaded) = Loaded::read(self.environment, None) {
            self.request.filter.excluded = allowed::excluded(&loaded.settings);
        }
    }

    /// One choice, with a session of its own that ends with the answer.
    fn choose(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Outcome, Failure> {
        let relist = self.stale();
        // What was ours when the waiting began may have ended, or begun.
        self.request.cover = self
            .request
            .owned(self.lock_file, Some(&self.inventory))
            .cover();
        let mut client = Later {
            open: &mut *self.open,
            opened: None,
        };
        let probe = self.lock_file.open()?;
        let skip = |device: &Device| !may(&device.uuid);
        let (lock_file, side, request) = (self.lock_file, self.side, &self.request);
        let mut choose = || {
            if relist {
                self.inventory = client.client()?.scan(request.detail())?;
                self.listed = Instant::now();
            }
            Chooser {
                client: &mut client,
                lock_file,
                side,
                request,
                skip: &skip,
            }
            .choose(&probe, &self.inventory)
        };
        match (choose(), client.opened) {
            (Ok(outcome), Some(client)) => client.close().map(|()| outcome),
            (Err(failure), Some(client)) => {
                client.abandon();
                Err(failure)
            }
            (outcome, None) => outcome,
        }
    }
}

impl<W: Worker> Search<'_, W> {
    /// Goes on after a failure of NVML's, unless there were too many in a row. Listing
    /// anew is no hurry, and no reason to give up.
    fn bear(&mut self, failure: Failure, listing: bool) -> Result<(), Failure> {
        if failure.kind != Kind::Nvml || !(listing || self.failures + 1 < FAILURES) {
            return Err(failure);
        }
        if listing {
            self.listed = Instant::now()
                .checked_sub(RELIST - RELIST_AGAIN)
                .unwrap_or_else(Instant::now);
        } else {
            self.failures += 1;
        }
        Ok(())
    }

    /// Of devices that were left alone this time, what was found before still holds.
    fn note_rejected(&mut self, rejected: Vec<(Device, Rejected)>, may: &dyn Fn(&Uuid) -> bool) {
        let before = std::mem::take(&mut self.rejected);
        let kept = before.into_iter().filter(|(device, _)| !may(&device.uuid));
        let new = rejected.into_iter().filter(|(device, _)| may(&device.uuid));
        self.rejected = new.chain(kept).collect();
    }

    /// The devices that NVML shows in use, or does not tell about.
    fn in_use(&self) -> Vec<Uuid> {
        let in_use = |why: &Rejected| matches!(why, Rejected::Busy(_) | Rejected::Unknown(_));
        let busy = self.rejected.iter().filter(|(_, why)| in_use(why));
        busy.map(|(device, _)| device.uuid.clone()).collect()
    }
}

/// Keeps a terminal from stopping this process for some milliseconds.
struct Unstoppable(Option<SigSet>);

impl Unstoppable {
    fn new() -> Self {
        let stops = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU]
            .into_iter()
            .collect::<SigSet>();
        let mut before = SigSet::empty();
        let blocked = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&stops), Some(&mut before));
        Self(blocked.is_ok().then_some(before))
    }
}

impl Drop for Unstoppable {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(before), None);
        }
    }
}

impl<W: Worker> Seeker for Search<'_, W> {
    type Found = (Vec<Picked>, Guard, Request);

    fn availability(&mut self, probe: &OfdLock) -> Result<Availability, Failure> {
        self.reread();
        availability(probe, &self.request, &self.inventory)
    }

    fn wanted(&self) -> usize {
        self.request.count
    }

    fn total(&self) -> usize {
        self.request.filter.pool(&self.inventory).count()
    }

    fn attempt(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Self::Found>, Failure> {
        let stale = self.stale();
        // A device that is claimed tentatively is nobody's: Ctrl-Z waits until that is
        // decided.
        let stoppable = Unstoppable::new();
        let chosen = self.choose(may);
        drop(stoppable);
        match chosen {
            Ok(Outcome::Picked(picked, guard)) => {
                Ok(Tried::Found((picked, guard, self.request.clone())))
            }
            Ok(Outcome::OverCap(failure)) => Ok(Tried::OverCap(failure)),
            Ok(Outcome::NoneFree(rejected)) => {
                self.failures = 0;
                self.note_rejected(rejected, may);
                Ok(Tried::Busy(self.in_use()))
            }
            Err(failure) => {
                self.bear(failure, stale)?;
                let devices = self.inventory.devices.iter();
                Ok(Tried::Busy(devices.map(|d| d.uuid.clone()).collect()))
            }
        }
    }

    fn stale(&self) -> bool {
        self.listed.elapsed() >= RELIST
    }

    fn lingers(&mut self, probe: &OfdLock) -> Result<bool, Failure> {
        let prospect = if self.may_have_more(probe)? {
            lingering::prospect(self.lock_file, probe, &self.request, &self.inventory)?
        } else {
            lingering::prospect_within_limit(self.lock_file, probe, &self.inventory)?
        };
        Ok(prospect == Prospect::Lingering)
    }

    fn may_have_more(&mut self, probe: &OfdLock) -> Result<bool, Failure> {
        let Some(most) = self.request.cap() else {
            return Ok(true);
        };
        cap::allows(
            self.lock_file,
            probe,
            &self.inventory,
            most,
            self.request.most_units(&self.inventory),
        )
    }

    fn in_vain(&mut self, probe: &OfdLock, waited: Duration) -> Failure {
        // All were drained meanwhile.
        if let Err(failure) =
            rejection_report::pool(&self.request.filter, &self.inventory, self.request.count)
        {
            return failure;
        }
        let known = |uuid: &Uuid| {
            self.rejected
                .iter()
                .find(|(device, _)| device.uuid == *uuid)
                .map(|(_, why)| why.clone())
        };
        let why = |device: &Device| {
            let room = device_claim::units(probe, &self.request, device);
            // What NVML said counts only of devices that nobody holds on the lock.
            let why = match room {
                Ok(Offer::Available(_)) => known(&device.uuid)
                    .filter(|why| matches!(why, Rejected::Busy(_) | Rejected::Unknown(_))),
                Ok(Offer::Rejected(why)) => Some(why),
                Err(_) => None,
            };
            (device.clone(), why.unwrap_or(Rejected::TooFew))
        };
        let rejected: Vec<_> = self.request.filter.pool(&self.inventory).map(why).collect();
        let free = rejected
            .iter()
            .filter(|(_, why)| *why == Rejected::TooFew)
            .count();
        let mut failure = RejectionReport::take(&rejected, probe).failure();
        if free == rejected.len() {
            let free = quantity::counted(free, "free device");
            failure.message = format!("not served: the waiters before you have not taken {free}");
        }
        failure.message = format!("{}; waited {}", failure.message, quantity::waited(waited));
        failure.hint("getgpu --list shows who holds what")
    }
}

/// What of a request's pool has room on the lock now.
pub fn availability(
    probe: &OfdLock,
    request: &Request,
    inventory: &Inventory,
) -> Result<Availability, Failure> {
    let mut availability = Availability::default();
    for device in request.filter.pool(inventory) {
        match device_claim::units(probe, request, device)? {
            Offer::Available(_) => availability.free.push(device.uuid.clone()),
            Offer::Rejected(Rejected::Tentative) => {
                availability.tentative.push(device.uuid.clone());
            }
            Offer::Rejected(_) => {}
        }
    }
    Ok(availability)
}
