//! A waiter's search among the devices of the node: what has room on the lock, and the
//! choice as one that does not wait would make it. NVML is opened for an attempt and
//! closed behind it, so that a waiter keeps no GPU open.

mod keepable;
mod trouble;

use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::causes::QueueCause;
use super::listed;
use super::outlook::Outlook;
use super::shared_turn::SharedTurn;
use super::soon;
use super::tolerance::Tolerance;
use super::{At, Availability, Name, Seeker, Served, Tried, availability};
use getgpu_ask::Node;
use getgpu_choose::{
    ChoiceOutcome, Chooser, Owned, Rejected, RejectionReport, Taken,
    choice::{cap, device_claim},
};
use getgpu_linux::BlockedSignals;
use getgpu_lock::OfdLock;
use getgpu_lock::kept::{Courtesy, Keeper};
use getgpu_model::{Device, Failure, Inventory, Uuid, quantity};
use getgpu_settings::{Loaded, allowed};

/// The node is listed again so often by the head of the queue, should it have been
/// re-partitioned.
const RELIST: Duration = Duration::from_secs(30);
/// After NVML did not tell about one of the devices.
const RELIST_AGAIN: Duration = Duration::from_secs(5);
/// The site's list of excluded devices is read again so often, and the name looked for.
const REREAD: Duration = Duration::from_secs(1);

/// What a waiter looks for, and what it knows of the node from its last look.
pub struct Search<'a, 'n, N> {
    at: At<'a>,
    /// What is asked for, inside of what this call owned at the last look.
    request: Owned,
    /// The node, as it was listed last.
    node: &'a mut Node<'n>,
    inventory: Rc<Inventory>,
    /// The last list that had as many devices as are wanted: what the node may have again.
    sufficient: Rc<Inventory>,
    /// When the node is listed anew, and when settings were read.
    relist_at: Instant,
    read: Instant,
    /// Under which what is found will be reserved, and when it was looked for.
    name: &'a mut N,
    found: Instant,
    tolerance: Tolerance,
    rejected: Vec<(Device, Rejected)>,
    /// Whether devices are kept for this waiter, and how it stands to others that keep some.
    is_keeper: bool,
    courtesy: Courtesy,
    /// Devices that what this call comes from holds, once they are looked for, and the turn at a
    /// shared device.
    around: Option<Vec<Uuid>>,
    shared: SharedTurn,
}

impl<'a, 'n, N: Name> Search<'a, 'n, N> {
    /// A search that begins with what is known of the node, after a look that found these devices not
    /// to be had.
    ///
    /// # Errors
    ///
    /// Nothing is known of it, and NVML does not list it.
    pub fn new(
        at: At<'a>,
        request: Owned,
        node: &'a mut Node<'n>,
        name: &'a mut N,
        rejected: Vec<(Device, Rejected)>,
    ) -> Result<Self, Failure> {
        let inventory = node.inventory(request.look())?;
        Ok(Self {
            at,
            request,
            node,
            sufficient: Rc::clone(&inventory),
            inventory,
            relist_at: Instant::now() + RELIST,
            read: Instant::now(),
            name,
            found: Instant::now(),
            tolerance: Tolerance::default(),
            rejected,
            is_keeper: false,
            courtesy: Courtesy::default(),
            around: None,
            shared: SharedTurn::default(),
        })
    }

    /// Reads the list of excluded devices again, since an administrator may drain a device while
    /// calls wait for it. If it cannot be read, the last one stays in force.
    ///
    /// # Errors
    ///
    /// Too few devices are left to wait for, though all that the node had were there again.
    fn reread(&mut self) -> Result<(), Failure> {
        if self.read.elapsed() < REREAD {
            return Ok(());
        }
        self.read = Instant::now();
        if let Ok(loaded) = Loaded::read(self.at.environment, None) {
            let excluded = allowed::excluded(&loaded.settings);
            self.request = self.request.without(excluded);
        }
        self.own_anew();
        self.around = None;
        self.suffices(&self.inventory)
            .or_else(|_| self.suffices(&self.sufficient))
    }

    /// A reservation of this user may have begun or ended since the last look.
    fn own_anew(&mut self) {
        self.request = self.request.renewed(self.at.lock_file, &self.inventory);
    }

    /// Whether what is kept may be taken from now on.
    fn may_take_kept(&mut self, takes_kept: bool) {
        self.request = self.request.taking_kept(takes_kept);
    }

    fn room(&self, probe: &OfdLock) -> Result<Availability, Failure> {
        let pool = self.request.filter.pool(&self.inventory);
        availability(probe, &self.request, pool)
    }

    /// One choice, with a session of its own that ends with the answer.
    fn choose(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<ChoiceOutcome, Failure> {
        let relist = self.stale();
        self.own_anew();
        let probe = self.at.lock_file.open()?;
        let skip = &|device: &Device| !may(&device.uuid);
        let (lock_file, side, request) = (self.at.lock_file, self.at.side, &self.request);
        let look = request.look();
        self.node.ask(|node| {
            let mut is_current = relist;
            loop {
                if is_current {
                    self.inventory = node.relist(look.clone())?;
                    self.relist_at = Instant::now() + RELIST;
                }
                let mut chooser = Chooser {
                    node: &mut *node,
                    lock_file,
                    side,
                    request,
                    skip,
                };
                let chosen = chooser.choose(&probe, &self.inventory)?;
                if let (ChoiceOutcome::Taken(taken), false) = (&chosen, is_current)
                    && !listed::is_current(node, taken.devices(), look.detail)?
                {
                    // Of what is there now, in this session.
                    is_current = true;
                    continue;
                }
                return Ok(chosen);
            }
        })
    }

    /// Of devices that were left alone this time, what was found before still holds.
    fn note_rejected(&mut self, rejected: Vec<(Device, Rejected)>, may: &dyn Fn(&Uuid) -> bool) {
        let before = std::mem::take(&mut self.rejected);
        let old = before.into_iter().filter(|(device, _)| !may(&device.uuid));
        let new = rejected.into_iter().filter(|(device, _)| may(&device.uuid));
        self.rejected = new.chain(old).collect();
    }

    /// Why a device cannot be had now; [`Rejected::Free`] if it could be.
    fn last_reason(&self, probe: &OfdLock, device: &Device) -> Rejected {
        match device_claim::units(probe, &self.request, device) {
            // What NVML said counts only of devices that no process holds on the lock.
            Ok(Ok(_)) => {
                let mut rejected = self.rejected.iter();
                let known =
                    rejected.find(|(known, why)| known.uuid == device.uuid && why.is_of_nvml());
                known.map_or(Rejected::Free, |(_, why)| why.clone())
            }
            Ok(Err(why)) => why,
            Err(_) => Rejected::Free,
        }
    }
}

impl<N: Name> Seeker for Search<'_, '_, N> {
    type Found = Served<N::Same>;

    fn settled(&mut self) -> Result<Option<Self::Found>, Failure> {
        if self.found.elapsed() < REREAD {
            return Ok(None);
        }
        self.found = Instant::now();
        Ok(self.name.find()?.map(Served::Same))
    }

    fn availability(&mut self, probe: &OfdLock) -> Result<Availability, Failure> {
        self.reread()?;
        self.may_take_kept(self.is_keeper);
        let found = self.room(probe)?;
        if found.kept == 0 {
            return Ok(found);
        }
        let keeper = Keeper::seen(self.at.lock_file, probe)?;
        if self.courtesy.gives_way(keeper, Instant::now()) {
            return Ok(found);
        }
        self.may_take_kept(true);
        self.room(probe)
    }

    fn keeps(&self) -> bool {
        self.request.count > 1 || self.request.filter.share.is_none()
    }

    fn keepable(&mut self, probe: &OfdLock) -> Result<Vec<Uuid>, Failure> {
        self.keepable_now(probe)
    }

    fn look_at_keeper(&mut self, probe: &OfdLock) -> Result<(), Failure> {
        self.may_take_kept(false);
        if self.room(probe)?.suffices_with_kept(self.request.count) {
            self.courtesy
                .gives_way_after_looking(self.at.lock_file, probe)?;
        }
        Ok(())
    }

    fn take_kept(&mut self, is_keeper: bool) {
        self.is_keeper = is_keeper;
    }

    fn wanted(&self) -> usize {
        self.request.count
    }

    fn total(&self) -> usize {
        self.request.filter.pool(&self.inventory).count()
    }

    fn attempt(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Self::Found>, Failure> {
        if self.tolerance.pauses(Instant::now()) {
            return Ok(Tried::NoneFree(self.all()));
        }
        // Before the locks of the choice: two calls that wait for each other's would wait for ever.
        if let Some(same) = self.name.enter()? {
            return Ok(Tried::Taken(Served::Same(same)));
        }
        // A process that stops now would keep a tentative claim: Ctrl-Z waits until that
        // is confirmed or given up.
        let stops = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];
        let blocked = BlockedSignals::of(&stops.into_iter().collect());
        let chosen = self.choose(may);
        if !matches!(chosen, Ok(ChoiceOutcome::Taken(_))) {
            self.name.leave();
        }
        if chosen.is_ok() {
            self.tolerance.recover();
            self.sufficient = Rc::clone(&self.inventory);
        }
        let in_use = match chosen {
            Ok(ChoiceOutcome::Taken(taken)) => {
                let stops = blocked.map(Box::new);
                return Ok(Tried::Taken(Served::Taken(Taken { stops, ..taken })));
            }
            Ok(ChoiceOutcome::OverCap(failure)) => return Ok(Tried::OverCap(failure)),
            Ok(ChoiceOutcome::NoneFree(rejected)) => {
                // The node may have been re-partitioned.
                let is_unknown = |(_, why): &_| matches!(why, Rejected::Unknown(_));
                if rejected.iter().any(is_unknown) {
                    self.relist_at = self.relist_at.min(Instant::now() + RELIST_AGAIN);
                }
                self.note_rejected(rejected, may);
                let in_use = self.rejected.iter().filter(|(_, why)| why.is_of_nvml());
                in_use.map(|(device, _)| device.uuid.clone()).collect()
            }
            Err(failure) => {
                self.bear(failure)?;
                self.all()
            }
        };
        Ok(Tried::NoneFree(in_use))
    }

    fn is_silent(&self, uuid: &Uuid) -> bool {
        let device = self.inventory.device(uuid);
        device.is_some_and(|device| self.node.is_silent(device.gpu))
    }

    fn stale(&self) -> bool {
        Instant::now() >= self.relist_at
    }

    fn trouble(&self) -> Option<String> {
        let failed = self.tolerance.failure();
        let failed = failed.map(|failure| failure.message.clone());
        failed.or_else(|| self.waits_for_itself())
    }

    fn extension(&mut self, probe: &OfdLock) -> Result<Option<Duration>, Failure> {
        let (lock_file, linger) = (self.at.lock_file, self.node.settings().linger);
        let time = soon::time(lock_file, probe, &self.request, &self.inventory, linger)?;
        Ok(time.filter(|time| *time > soon::NOTICE))
    }

    fn outlook(&self, probe: &OfdLock) -> Outlook {
        let pool = self.request.filter.pool(&self.inventory);
        Outlook::of(self.at.lock_file, probe, &self.request, pool)
    }

    fn over_limit(&mut self, probe: &OfdLock) -> Result<Option<Failure>, Failure> {
        cap::over(self.at.lock_file, probe, &self.inventory, &self.request)
    }

    fn in_vain(&mut self, probe: &OfdLock, waited: Duration) -> Failure {
        if let Some(failure) = self.tolerance.failure() {
            return failure.clone().waited(waited);
        }
        // All were drained meanwhile.
        if let Err(failure) = self.suffices(&self.inventory) {
            return failure;
        }
        let pool = self.request.filter.pool(&self.inventory);
        let rejected: Vec<_> = pool
            .map(|device| (device.clone(), self.last_reason(probe, device)))
            .collect();
        let around = self.request.way_around();
        let remedy = &format!("getgpu --list shows who holds what{around}");
        let failure = if rejected.iter().all(|(_, why)| *why == Rejected::Free) {
            let free = quantity::counted(rejected.len(), "free device");
            QueueCause::NotServed { free, remedy }.into()
        } else {
            RejectionReport::take(&rejected, probe).failure(remedy)
        };
        failure.waited(waited)
    }
}
