//! The choice: free devices of the pool, claimed on the lock before NVML is asked about
//! them, so that no other call takes one in between. A random pick comes first, which asks as
//! few questions about as few GPUs as possible; the whole node is listed where that finds none
//! or the request needs it.

use std::collections::HashMap;
use std::time::Duration;

use crate::choice::cap::Admission;
use crate::choice::device_claim::{self, Retry};
use crate::choice::offer::{self, ChoiceOutcome, Offer, Rejected};
use crate::choice::policy::{Candidate, Preference};
use crate::choice::round::Round;
use crate::choice::sharers::{has_other_users, shared};
use crate::choice::{cap, connected, sampling};
use crate::pool;
use crate::request::Owned;
use crate::take::{Part, Taken, gate};
use getgpu_ask::{Node, mig_tree};
use getgpu_lock::{Claim, LockFile, Occupancy, OfdLock, Side, Span};
use getgpu_model::{Ailment, Detail, Device, Failure, Health, Inventory, Units, Uuid};
use getgpu_settings::Type;

/// How long devices that others claimed only tentatively are tried again when nothing
/// else is free.
const PATIENCE: Duration = Duration::from_millis(100);
/// The same for shares, where all calls begin with the same device and most looks end in
/// another one's tentative claim.
const SHARE_PATIENCE: Duration = Duration::from_secs(1);

/// One choice of devices: it asks NVML about each device that it has claimed, and keeps those that
/// are idle.
pub struct Chooser<'a, 'n> {
    /// The node that is asked.
    pub node: &'a mut Node<'n>,
    /// The lock.
    pub lock_file: &'a LockFile,
    /// For a lease or for a reservation.
    pub side: Side,
    /// What is asked for.
    pub request: &'a Owned,
    /// Devices that are left alone this time, by a waiter that has just asked about them.
    pub skip: &'a dyn Fn(&Device) -> bool,
}

impl Chooser<'_, '_> {
    /// Picks a random free device without a scan of the node, for a request that allows it
    /// (`Owned::can_pick_randomly`). `None`: only a scan can answer.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or NVML does not answer.
    pub fn pick_randomly(&mut self, probe: &OfdLock) -> Result<Option<Part>, Failure> {
        let gpus = self.node.nvml()?.count()?;
        let kind = match self.request.filter.kind {
            Type::Auto if mig_tree::shows_none() => Type::Gpu,
            kind => kind,
        };
        for slot in sampling::draws(gpus, kind, &mut sampling::generator()) {
            let Some(gpu) = self.node.nvml()?.gpu(slot.gpu)? else {
                continue;
            };
            let needs_scan = if gpu.mig {
                // The slots beyond those that are drawn from would never be chosen.
                gpu.slots > sampling::USUAL_SLOTS
            } else {
                // With type auto a whole GPU is chosen only if no MIG device exists, which a scan of
                // the whole node tells; more draws may touch GPUs in vain, seconds each.
                kind == Type::Auto
            };
            if needs_scan {
                return Ok(None);
            }
            if !slot.is_on(&gpu) {
                continue;
            }
            let (nvml, index) = (self.node.nvml()?, gpu.mig.then_some(slot.index));
            let Some(device) = nvml.device(slot.gpu, index, Detail::Uuid)? else {
                continue;
            };
            if !self.request.filter.takes(kind, &device) {
                continue;
            }
            if let Ok(claim) = self.try_device(probe, &device)? {
                return Ok(Some(Part::claimed(device, claim)));
            }
        }
        Ok(None)
    }

    /// Chooses the least that is asked for, the best first.
    pub(super) fn choose_least(
        &mut self,
        probe: &OfdLock,
        inventory: &Inventory,
    ) -> Result<ChoiceOutcome, Failure> {
        let count = self.request.count;
        let pool = pool::candidates(&self.request.filter, inventory, count)?;
        let share = self.request.filter.share.is_some();
        // Of shares also, so that what was the least loaded device still is when its part is taken.
        let gate = (count > 1 || share).then(|| gate::enter(self.lock_file));
        let gate = gate.transpose()?;
        let guard = match cap::enter(self.lock_file, probe, inventory, self.request)? {
            Admission::Within(guard) => guard,
            Admission::Over(over) => return Ok(ChoiceOutcome::OverCap(over)),
        };
        let mut round = Round {
            pool: &pool,
            apart: count > 1 && inventory.one_per_gpu_instance(),
            gpu_loads: self.gpu_loads(probe, &pool, inventory)?,
            rejected: HashMap::new(),
            picked: Vec::new(),
            links: connected::links(self.node, self.request, &pool)?,
            refused_before: 0,
        };
        let retry = if share {
            Retry::new(SHARE_PATIENCE, Duration::from_micros(100))
        } else {
            Retry::new(PATIENCE, Duration::from_millis(2))
        };
        while round.picked.len() < count {
            let (mut is_picked, mut is_contended) = (false, false);
            for candidate in self.candidates(probe, &round)? {
                match self.try_device(probe, candidate.device)? {
                    Ok(claim) => {
                        round.pick(&candidate, claim);
                        is_picked = true;
                        break;
                    }
                    Err(Rejected::Tentative) => is_contended = true,
                    Err(why) => {
                        round.rejected.insert(candidate.position, why);
                    }
                }
            }
            // Others are deciding about some: a call that gives way leaves one of them free.
            if !is_picked && is_contended && retry.pause() {
                continue;
            }
            if !round.goes_on(is_picked) {
                self.look_at_rest(probe, &mut round)?;
                return Ok(ChoiceOutcome::NoneFree(round.reasons(count)));
            }
        }
        drop(gate);
        let (parts, cover) = (self.in_order(round.picked), self.request.cover.clone());
        Ok(ChoiceOutcome::Taken(Taken::new(parts, cover, guard)))
    }

    /// In the order of the node, or of a grant of which all are taken: a program numbers its
    /// devices by it, and who named them in another order wants that one.
    fn in_order(&self, mut picked: Vec<(usize, Part)>) -> Vec<Part> {
        let filter = &self.request.filter;
        let takes = |uuid: &Uuid| picked.iter().any(|(_, one)| one.device.uuid == *uuid);
        let is_all = filter.grant.iter().flatten().all(takes);
        picked.sort_by_key(|(position, one)| {
            let place = filter.place_in_grant(&one.device.uuid);
            (place.filter(|_| is_all), *position)
        });
        picked.into_iter().map(|(_, one)| one).collect()
    }

    /// Finds out why each device that was not tried cannot be had, since the choice ends as
    /// soon as too few are left: the figures of the failure must not depend on the order.
    fn look_at_rest(&mut self, probe: &OfdLock, round: &mut Round<'_>) -> Result<(), Failure> {
        for (position, device) in round.pool.iter().enumerate() {
            if round.has_seen(position) || (self.skip)(device) {
                continue;
            }
            if let Err(why) = self.try_device(probe, device)? {
                round.rejected.insert(position, why);
            }
        }
        Ok(())
    }

    /// What is left of the pool, in the order of the policy; nothing if that is too
    /// little.
    fn candidates<'d>(
        &self,
        probe: &OfdLock,
        round: &Round<'d>,
    ) -> Result<Vec<Candidate<'d>>, Failure> {
        let (request, mut left) = (self.request, Vec::new());
        let preference = self.preference();
        for (position, device) in round.pool.iter().enumerate() {
            if round.has_seen(position) || (self.skip)(device) {
                continue;
            }
            let nearest = request.nearest.as_ref();
            let distance = nearest.map(|nearest| nearest.distance(device, position));
            let load = preference
                .share
                .then(|| self.load(probe, device))
                .transpose()?;
            left.push(Candidate {
                device,
                position,
                load: load.unwrap_or(0),
                gpu_load: round.gpu_loads.get(&device.gpu).copied().unwrap_or(0),
                distance: distance.unwrap_or_default(),
            });
        }
        if round.picked.len() + left.len() < request.count {
            return Ok(Vec::new());
        }
        preference.order(&mut left, &mut sampling::generator());
        if let Some(links) = &round.links {
            connected::retain_best(request, probe, links, &round.picked, &mut left)?;
        }
        if round.apart {
            let beside = |candidate: &Candidate<'_>| round.is_beside_picked(candidate.device);
            // What getgpu prints may be for several programs; cudawrap starts one, which
            // could not use both.
            left.retain(|candidate| self.side == Side::Reservation || !beside(candidate));
            left.sort_by_key(beside);
        }
        Ok(left)
    }

    pub(super) fn preference(&self) -> Preference {
        Preference {
            policy: self.request.policy,
            share: self.request.filter.share.is_some(),
            by_size: self.request.filter.by_size(),
        }
    }

    /// Why the request does not get a device, without trying it: for people.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read, or NVML does not answer.
    pub fn check_unclaimed(
        &mut self,
        probe: &OfdLock,
        device: &Device,
    ) -> Result<Option<Rejected>, Failure> {
        match device_claim::units(probe, self.request, device)? {
            Ok(units) => self.objection(probe, device, &units),
            Err(why) => Ok(Some(why)),
        }
    }

    /// Why these units of a device, which no other call has, are not handed out.
    fn objection(
        &mut self,
        probe: &OfdLock,
        device: &Device,
        units: &Units,
    ) -> Result<Option<Rejected>, Failure> {
        // A device that this call owns already is not asked about, nor who uses a device on
        // which others have their shares: these make it busy.
        let part = !units.is_whole();
        if part && let Some(why) = self.objection_to_part(probe, device)? {
            return Ok(Some(why));
        }
        if self.request.cover.is_some() || (part && shared(probe, device)?) {
            return Ok(None);
        }
        let usage = self.node.nvml()?.usage(device, Detail::Uuid)?;
        Ok(match offer::objection(usage) {
            // Another sharer may have begun while NVML was asked: then it is this one that
            // makes it busy.
            Some(Rejected::Busy(_)) if part && shared(probe, device)? => None,
            why => why,
        })
    }

    /// Why no further part of a device on which another program has one is handed out. Who uses
    /// the device is not asked, since that program does; whether CUDA can start there is.
    fn objection_to_part(
        &mut self,
        probe: &OfdLock,
        device: &Device,
    ) -> Result<Option<Rejected>, Failure> {
        let span = Span::of(&device.uuid);
        let is_owned = self.request.cover.is_some();
        let used = Occupancy::read(probe, self.request.level(), span)?;
        if used.confirmed.is_empty() {
            return Ok(None);
        }
        let health = match self.node.nvml()?.health(device)? {
            Ok(health) => health,
            Err(_) if is_owned => Health::default(),
            Err(silent) => return Ok(Some(Rejected::Unknown(silent.message))),
        };
        let sick = health.objection().filter(|_| !is_owned);
        let is_full = !self.request.can_start_beside(&health)
            || health.is_exclusive() && has_other_users(probe, span, self.request.user)?;
        let why = sick.map(Ailment::text).or(is_full.then_some(ONE_PROGRAM));
        Ok(why.map(|why| Rejected::Unhealthy(why.into())))
    }

    /// Tries one device: a look that other calls do not see, the claim, and NVML last,
    /// while the claim keeps others away.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or NVML does not answer.
    pub fn try_device(
        &mut self,
        probe: &OfdLock,
        device: &Device,
    ) -> Result<Offer<Claim>, Failure> {
        let claim =
            match device_claim::claim(self.lock_file, probe, self.side, self.request, device)? {
                Ok(claim) => claim,
                Err(why) => return Ok(Err(why)),
            };
        let objection = self.objection(probe, device, claim.units())?;
        Ok(objection.map_or(Ok(claim), Err))
    }
}

/// Why a second share of a device is not handed out.
const ONE_PROGRAM: &str = "compute mode Exclusive_Process: one program at a time, and another one has its share; --mps shares it";
