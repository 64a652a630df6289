//! The choice: free devices of the pool, claimed on the lock before NVML is asked about
//! them, so that nobody comes between. Draws first, as few calls and GPUs as possible; a
//! look at everything when that does not find one or the request needs it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

pub use crate::choice::attempt::Picked;
pub use crate::choice::cap::Guard;
use crate::choice::policy::{self, Candidate};
use crate::choice::rejection_report::{self, Rejected};
use crate::choice::sampling::SlotSampler;
use crate::choice::{cap, sampling};
use crate::error::Failure;
use crate::inventory::{Activity, Detail, Device, Gpu, Inventory};
use crate::lock::{Claim, LockFile, Occupancy, OfdLock, Side, Span, UNITS, layout, occupancy};
use crate::nvml_client::Ask;
use crate::request::Request;
use crate::settings::Policy;

/// How long devices that were only being tried by others are tried again when nothing
/// else is free.
const PATIENCE: Duration = Duration::from_millis(100);
/// The same for shares, where everybody begins with the same device and most looks end in
/// another one's try.
const SHARE_PATIENCE: Duration = Duration::from_secs(1);
/// How long a call that chooses several devices, or a part of one, waits for another such
/// call. One that is stopped holds the others up so long.
const GATE: Duration = Duration::from_secs(2);

/// What came of a choice.
#[derive(Debug)]
pub enum Outcome {
    /// Free devices, claimed, as many as asked for, in the order of the node.
    Picked(Vec<Picked>, Guard),
    /// The pool has devices and too few are free.
    NoneFree(Vec<(Device, Rejected)>),
    /// This user has as many as one may have.
    OverCap(Failure),
}

/// One call's choice.
pub struct Chooser<'a, A: Ask> {
    /// NVML.
    pub client: &'a mut A,
    /// The lock.
    pub lock_file: &'a LockFile,
    /// For whom.
    pub side: Side,
    /// What is asked for.
    pub request: &'a Request,
    /// Devices that are left alone this time, by a waiter that has just asked about them.
    pub skip: &'a dyn Fn(&Device) -> bool,
}

impl<A: Ask> Chooser<'_, A> {
    /// Chooses. `known` is an inventory that was needed already; then nothing is drawn.
    pub fn choose(&mut self, known: Option<&Inventory>) -> Result<Outcome, Failure> {
        let probe = self.lock_file.open()?;
        if let Some(inventory) = known {
            return self.among(&probe, inventory);
        }
        if self.request.may_draw()
            && let Some(picked) = self.draw(&probe)?
        {
            return Ok(Outcome::Picked(vec![picked], Guard::default()));
        }
        let inventory = self.client.client()?.scan(self.request.detail())?;
        self.among(&probe, &inventory)
    }

    fn draw(&mut self, probe: &OfdLock) -> Result<Option<Picked>, Failure> {
        let gpus = self.client.client()?.count()?;
        if gpus == 0 {
            return Ok(None);
        }
        let mut rng = sampling::generator();
        let mut draws = SlotSampler::new(gpus, self.request.filter.kind);
        let mut known: HashMap<u32, Option<Gpu>> = HashMap::new();
        while let Some(slot) = draws.draw(&mut rng) {
            if let std::collections::hash_map::Entry::Vacant(vacant) = known.entry(slot.gpu) {
                vacant.insert(self.client.client()?.gpu(slot.gpu)?.ok());
            }
            let Some(gpu) = known.get(&slot.gpu).and_then(Option::as_ref) else {
                continue;
            };
            let cell = match draws.on(slot, gpu) {
                Ok(Some(cell)) => cell,
                Ok(None) => continue,
                Err(crate::choice::sampling::Unfair) => return Ok(None),
            };
            let Ok(Some(device)) =
                self.client
                    .client()?
                    .device(cell.gpu, cell.slot, Detail::Uuid)?
            else {
                continue;
            };
            if !self.request.filter.takes(&device) {
                continue;
            }
            if let Ok(claim) = self.try_device(probe, &device)? {
                return Ok(Some(Picked { device, claim }));
            }
        }
        Ok(None)
    }

    fn among(&mut self, probe: &OfdLock, inventory: &Inventory) -> Result<Outcome, Failure> {
        let count = self.request.count;
        let pool = rejection_report::pool(&self.request.filter, inventory, count)?;
        let share = self.request.filter.share.is_some();
        let gate = if count > 1 || share {
            self.gate()?
        } else {
            None
        };
        let guard = match self.within_cap(probe, inventory)? {
            Ok(guard) => guard,
            Err(over) => return Ok(Outcome::OverCap(over)),
        };
        let mut gpu_loads = self.gpu_loads(probe, inventory)?;
        let apart = count > 1 && inventory.one_per_gpu_instance();
        let patience = if share { SHARE_PATIENCE } else { PATIENCE };
        let (mut rejected, mut picked) = (HashMap::new(), Vec::<(usize, Picked)>::new());
        let began = Instant::now();
        while picked.len() < count {
            let mut left: Vec<Candidate<'_>> = Vec::new();
            for (number, (position, device)) in pool.iter().enumerate() {
                let out = rejected.contains_key(position)
                    || picked.iter().any(|(known, _)| known == position);
                if !out && !(self.skip)(device) {
                    let load = if share { self.load(probe, device)? } else { 0 };
                    let gpu_load = gpu_loads.get(&device.gpu).copied().unwrap_or(0);
                    let nearest = self.request.nearest.as_ref();
                    let distance = nearest
                        .map(|nearest| nearest.distance(device, number))
                        .unwrap_or_default();
                    left.push(Candidate {
                        device,
                        position: *position,
                        load,
                        gpu_load,
                        distance,
                    });
                }
            }
            let enough = picked.len() + left.len() >= count;
            policy::order(
                &mut left,
                self.request.policy,
                share,
                self.request.filter.by_size(),
                &mut sampling::generator(),
            );
            if apart {
                let beside = |candidate: &Candidate<'_>| {
                    let instance = candidate.device.gpu_instance();
                    instance.is_some()
                        && picked
                            .iter()
                            .any(|(_, other)| other.device.gpu_instance() == instance)
                };
                // What getgpu prints may be for several programs; cudawrap starts one,
                // which could not use both.
                left.retain(|candidate| self.side == Side::Reservation || !beside(candidate));
                left.sort_by_key(beside);
            }
            let (mut found, mut tried) = (false, false);
            for candidate in left.into_iter().filter(|_| enough) {
                match self.try_device(probe, candidate.device)? {
                    Ok(claim) => {
                        *gpu_loads.entry(candidate.device.gpu).or_default() +=
                            claim.units().count();
                        picked.push((
                            candidate.position,
                            Picked {
                                device: candidate.device.clone(),
                                claim,
                            },
                        ));
                        found = true;
                        break;
                    }
                    Err(Rejected::Tried) => {
                        tried = true;
                        // Another one takes its part there: what is least loaded now has
                        // to be seen again.
                        if share {
                            break;
                        }
                    }
                    Err(why) => drop(rejected.insert(candidate.position, why)),
                }
            }
            if found {
                continue;
            }
            if !tried || began.elapsed() >= patience {
                // One that could be had, or was not even tried, is one of too few; alone
                // it would have been tried.
                let rest = if count > 1 {
                    Rejected::TooFew
                } else {
                    Rejected::Tried
                };
                let mut why = |(position, device): &(usize, &Device)| {
                    (
                        (*device).clone(),
                        rejected.remove(position).unwrap_or_else(|| rest.clone()),
                    )
                };
                return Ok(Outcome::NoneFree(pool.iter().map(&mut why).collect()));
            }
            // Others are deciding about these: whoever gives way leaves one of them free.
            std::thread::sleep(Duration::from_micros(if share { 100 } else { 2000 }));
        }
        drop(gate);
        picked.sort_by_key(|(position, _)| *position);
        let picked: Vec<Picked> = picked.into_iter().map(|(_, picked)| picked).collect();
        let guard = guard.sign(self.lock_file, self.side, &picked)?;
        Ok(Outcome::Picked(picked, guard))
    }

    /// Whether this user may have what is asked for; the guard keeps the user's other
    /// calls from counting meanwhile.
    pub fn within_cap(
        &self,
        probe: &OfdLock,
        inventory: &Inventory,
    ) -> Result<Result<Guard, Failure>, Failure> {
        let Some(most) = self.request.cap() else {
            return Ok(Ok(Guard::default()));
        };
        let more = self.request.most_units(inventory);
        cap::enter(self.lock_file, probe, inventory, most, more)
    }

    /// One call at a time chooses several devices, so that two do not each hold half of
    /// what the other wants; or a part of one, so that what was the least loaded device
    /// still is when its part is taken.
    fn gate(&self) -> Result<Option<OfdLock>, Failure> {
        let gate = self.lock_file.open()?;
        let began = Instant::now();
        while !gate.try_write(layout::several())? {
            if began.elapsed() >= GATE {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(gate))
    }

    fn load(&self, probe: &OfdLock, device: &Device) -> Result<i64, Failure> {
        Ok(
            Occupancy::look(probe, self.request.level(), Span::of(&device.uuid))?
                .all()
                .count(),
        )
    }

    /// What is in use on each GPU, for the policies that ask: on the lock, or by programs
    /// that never asked.
    fn gpu_loads(
        &mut self,
        probe: &OfdLock,
        inventory: &Inventory,
    ) -> Result<HashMap<u32, i64>, Failure> {
        let mut loads = HashMap::new();
        if !matches!(self.request.policy, Some(Policy::Spread | Policy::Pack)) {
            return Ok(loads);
        }
        for device in &inventory.devices {
            let mut load = self.load(probe, device)?;
            if load == 0 && self.request.cover.is_none() {
                let idle = |usage: crate::inventory::Usage| usage.activity == Activity::Idle;
                load = if self
                    .client
                    .client()?
                    .usage(device, Detail::Uuid)?
                    .is_ok_and(idle)
                {
                    0
                } else {
                    UNITS
                };
            }
            *loads.entry(device.gpu).or_default() += load;
        }
        Ok(loads)
    }

    /// Why a device is not free, without trying it: for people.
    pub fn look(&mut self, probe: &OfdLock, device: &Device) -> Result<Option<Rejected>, Failure> {
        if occupancy::seen(probe, Span::of(&device.uuid))?.is_some() {
            return Ok(Some(Rejected::Taken));
        }
        Ok(rejection_report::verdict(
            self.client.client()?.usage(device, Detail::Uuid)?,
        ))
    }

    /// Tries one device: a look that nobody sees, the claim, and NVML last, while the
    /// claim keeps others away.
    pub fn try_device(
        &mut self,
        probe: &OfdLock,
        device: &Device,
    ) -> Result<Result<Claim, Rejected>, Failure> {
        let claim = match crate::choice::attempt::claim(
            self.lock_file,
            probe,
            self.side,
            self.request,
            device,
        )? {
            Ok(claim) => claim,
            Err(why) => return Ok(Err(why)),
        };
        // What is ours already is not asked about, nor is a device on which others have
        // their shares: these make it busy.
        let part = !claim.units().is_whole();
        if self.request.cover.is_some() || (part && shared(probe, device)?) {
            return Ok(Ok(claim));
        }
        Ok(
            match rejection_report::verdict(self.client.client()?.usage(device, Detail::Uuid)?) {
                None => Ok(claim),
                // Another sharer may have begun while NVML was asked: then it is this one
                // that makes it busy.
                Some(Rejected::Busy(_)) if part && shared(probe, device)? => Ok(claim),
                Some(why) => Err(why),
            },
        )
    }
}

/// Whether a part of the device is settled.
fn shared(probe: &OfdLock, device: &Device) -> Result<bool, Failure> {
    Ok(
        !Occupancy::look(probe, crate::lock::Level::Outer, Span::of(&device.uuid))?
            .settled
            .is_empty(),
    )
}
