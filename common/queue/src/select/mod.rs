//! One look at the node: free devices are claimed, or the failure says why there are
//! none, or the caller is to wait in the queue. The same for getgpu and cudawrap; what
//! each adds to it, such as `--explain`, it adds as an `Observer`.

mod observer;
mod queueing;

use std::io::IsTerminal;
use std::rc::Rc;
use std::time::Duration;

use crate as queue;
use crate::causes::QueueCause;
use crate::{Patience, soon};
use getgpu_ask::Node;
use getgpu_choose::{
    ChoiceOutcome, Chooser, Owned, Portion, Rejected, RejectionReport, Taken, choice::cap,
    choice::device_claim, pool,
};
use getgpu_lock::{OfdLock, kept};
use getgpu_model::{Device, Failure, Inventory, Uuid};
use getgpu_settings::Wait;

pub use observer::{Observer, Obstacle};
pub use queueing::{At, Queueing};

/// What came of one look.
pub enum Selected<'a> {
    /// Free devices.
    Taken(Taken),
    /// There is nothing to have now, and the caller joins the queue.
    Queue(Queueing<'a>),
}

/// What a selection is made with.
pub struct Selection<'a, 'n, 'at> {
    /// The node that is asked.
    pub node: &'a mut Node<'n>,
    /// Where, and for what.
    pub at: At<'at>,
    /// What is asked for.
    pub request: &'a Owned,
}

impl<'at> Selection<'_, '_, 'at> {
    /// Looks once.
    ///
    /// # Errors
    ///
    /// Nothing is free and the caller does not wait; or what waiting cannot cure: NVML,
    /// the lock, a pool that could never meet the request.
    pub fn run(mut self, observer: &mut dyn Observer) -> Result<Selected<'at>, Failure> {
        let probe = self.at.lock_file.open()?;
        let ahead = queue::waiting(&probe, self.request.queue())?;
        // A random pick needs no list of the node: it is tried before the node is listed.
        let is_unlisted = ahead == 0 && self.node.known().is_none();
        let is_random = is_unlisted && self.request.can_pick_randomly();
        if !is_random {
            let inventory = self.inventory()?;
            self.check_satisfiable(&inventory, observer)?;
        }
        let (request, only) = if ahead > 0 {
            let (request, alone) = self.left_alone(&probe)?;
            if alone.is_empty() {
                let failure = queue::taken_by(ahead, &observer.hint(Obstacle::Queue));
                return self.join_queue(failure, Some(Vec::new()), &probe);
            }
            (request, Some(alone))
        } else {
            (self.request.clone(), None)
        };
        let past;
        let mut chooser = Chooser {
            node: &mut *self.node,
            lock_file: self.at.lock_file,
            side: self.at.side,
            request: &request,
            skip: &|device| {
                only.as_ref()
                    .is_some_and(|only| !only.contains(&device.uuid))
            },
        };
        if is_random && let Some(part) = chooser.pick_randomly(&probe)? {
            return Ok(Selected::Taken(Taken::new(vec![part], None, None)));
        }
        let inventory = chooser.node.inventory(request.look())?;
        let mut chosen = chooser.choose(&probe, &inventory)?;
        if let ChoiceOutcome::NoneFree(rejected) = &chosen
            && chooser.node.settings().longest_wait() == Wait::NO
            && rejected.iter().any(|(_, why)| *why == Rejected::Kept)
            && kept::has_stopped(self.at.lock_file, &probe)?
        {
            // The devices are kept for a waiter that has been stopped, so they may be taken.
            past = request.taking_kept(true);
            chooser.request = &past;
            chosen = chooser.choose(&probe, &inventory)?;
        }
        match chosen {
            ChoiceOutcome::Taken(taken) => {
                observer.picked(&mut chooser, &taken.parts, &inventory)?;
                Ok(Selected::Taken(taken))
            }
            ChoiceOutcome::OverCap(failure) => self.join_queue(failure, None, &probe),
            ChoiceOutcome::NoneFree(rejected) => {
                observer.rejected(&rejected, &probe);
                let failure = self.none_free(&rejected, &inventory, &probe, observer);
                self.join_queue(failure, Some(rejected), &probe)
            }
        }
    }

    /// Whether the node can ever serve the request.
    fn check_satisfiable(
        &self,
        inventory: &Inventory,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        cap::check_satisfiable(self.request, inventory)?;
        let pool: Vec<&Device> = self.request.filter.pool(inventory).collect();
        observer.known(inventory, &pool)?;
        fits_inside(self.request, inventory)
    }

    /// What a call may take that finds others waiting: if it does not wait itself, the devices that
    /// a stopped head leaves alone, also those that are kept for a stopped waiter.
    fn left_alone(&mut self, probe: &OfdLock) -> Result<(Owned, Vec<Uuid>), Failure> {
        if self.waits() {
            return Ok((self.request.clone(), Vec::new()));
        }
        let inventory = self.inventory()?;
        let pool = self.request.filter.pool(&inventory);
        let found = queue::availability(probe, self.request, pool.clone())?;
        let is_past_keeper = found.suffices_with_kept(self.request.count)
            && kept::has_stopped(self.at.lock_file, probe)?;
        let request = self.request.taking_kept(is_past_keeper);
        let left_alone = queue::stalled_head::left_alone(probe, &request, pool, request.count)?;
        Ok((request, left_alone))
    }

    /// The failure of a call that finds nothing free.
    fn none_free(
        &self,
        rejected: &[(Device, Rejected)],
        inventory: &Inventory,
        probe: &OfdLock,
        observer: &dyn Observer,
    ) -> Failure {
        if let Some(silent) = all_silent(rejected, self.node) {
            return silent;
        }
        let report = RejectionReport::take(rejected, probe);
        // The remedy is for a person at a terminal; the observer's hint also says what happens to a
        // script that gets no device.
        let is_person = std::io::stderr().is_terminal();
        let remedy = is_person.then(|| report.remedy()).flatten();
        let hint = remedy.unwrap_or_else(|| observer.hint(Obstacle::NoneFree));
        let hint = match self.request.filter.whole_gpus_beside(inventory) {
            0 => hint,
            whole => {
                format!("--type any also takes the {whole} that are not in MIG mode; {hint}")
            }
        };
        report.failure(&hint)
    }

    /// Joins the queue, if the caller waits or what was in the way is about to end. `rejected`: the
    /// devices that were looked at; none: the limit of this user was in the way.
    fn join_queue(
        mut self,
        failure: Failure,
        rejected: Option<Vec<(Device, Rejected)>>,
        probe: &OfdLock,
    ) -> Result<Selected<'at>, Failure> {
        let inventory = self.inventory()?;
        let soon = self.soon(rejected.as_deref(), &inventory, probe)?;
        if !self.waits() && soon.is_none() {
            return Err(failure);
        }
        pool::candidates(&self.request.filter, &inventory, self.request.count)?;
        let Wait(limit) = self.node.settings().longest_wait();
        let patience = Patience {
            limit: limit.map(|limit| limit.max(soon.unwrap_or_default())),
            // On a busy machine those ahead take their time, and a holder notices late.
            extensions: soon.map_or(0, |soon| 1 + u32::from(soon == soon::NOTICE)),
            failure: (!self.waits()).then_some(failure),
        };
        Ok(Selected::Queue(Queueing {
            at: self.at,
            request: self.request.clone(),
            patience,
            rejected: rejected.unwrap_or_default(),
        }))
    }

    /// How long to wait for what was in the way, if that is about to end, or has ended since it was
    /// looked at: then it no longer shows that.
    fn soon(
        &self,
        rejected: Option<&[(Device, Rejected)]>,
        inventory: &Inventory,
        probe: &OfdLock,
    ) -> Result<Option<Duration>, Failure> {
        let (lock_file, request) = (self.at.lock_file, self.request);
        let linger = self.node.settings().linger;
        let time = soon::time(lock_file, probe, request, inventory, linger)?;
        let is_free = match rejected {
            Some(rejected) => self.has_come_free(rejected, probe)?,
            None => cap::over(lock_file, probe, inventory, request)?.is_none(),
        };
        Ok(time.or(is_free.then_some(soon::NOTICE)))
    }

    /// Whether one of the devices that the lock kept from this call is free by now.
    fn has_come_free(
        &self,
        rejected: &[(Device, Rejected)],
        probe: &OfdLock,
    ) -> Result<bool, Failure> {
        for (device, _) in rejected.iter().filter(|(_, why)| why.is_of_lock()) {
            if device_claim::units(probe, self.request, device)?.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the caller waits when nothing is free.
    fn waits(&self) -> bool {
        self.node.settings().longest_wait() != Wait::NO
    }

    fn inventory(&mut self) -> Result<Rc<Inventory>, Failure> {
        self.node.inventory(self.request.look())
    }
}

/// The failure where no GPU of the pool answers.
fn all_silent(rejected: &[(Device, Rejected)], node: &Node<'_>) -> Option<Failure> {
    let Some((first, Rejected::Unknown(why))) = rejected.first() else {
        return None;
    };
    if rejected
        .iter()
        .any(|(device, _)| !node.is_silent(device.gpu))
    {
        return None;
    }
    let known = node.known();
    let others_answer = known.is_some_and(|inventory| {
        let mut gpus = inventory.gpus.iter();
        gpus.any(|gpu| !node.is_silent(gpu.index) && inventory.silent_gpu(gpu.index).is_none())
    });
    let gpu = first.gpu;
    Some(match others_answer {
        true => QueueCause::NoGpuOfRequestAnswers { gpu, why }.into(),
        false => QueueCause::NoGpuAnswers { gpu, why }.into(),
    })
}

/// Fails if this call owns a part of every device of the grant and the share is larger than each of
/// them: no wait could find room for it.
fn fits_inside(request: &Owned, inventory: &Inventory) -> Result<(), Failure> {
    let mut pool = request.filter.pool(inventory);
    let is_too_large = |device: &Device| request.portion(device).1 == Portion::TooLarge;
    match pool.clone().next() {
        Some(first) if request.cover.is_some() && pool.all(is_too_large) => {
            Err(request.too_large(first))
        }
        _ => Ok(()),
    }
}
