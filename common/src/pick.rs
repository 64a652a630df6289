//! The choice: a random free device of the pool, claimed on the lock before NVML is asked about it, so that nobody comes between.
//! Draws first, as few calls and GPUs as possible; a look at everything when that does not find one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;

use crate::ask::{Client, Worker};
use crate::census::Rejected;
use crate::draw::Draws;
use crate::error::{Failure, Kind};
use crate::inventory::{Activity, Detail, Device, Gpu, Inventory, Usage};
use crate::lock::claim::{self, Attempt, Claim};
use crate::lock::{Description, Held, Place, Side, Span};
use crate::pool::Filter;

/// How long a device that was only being tried by others is tried again when nothing else is free.
const PATIENCE: Duration = Duration::from_millis(100);

/// A device that is ours to settle.
#[derive(Debug)]
pub struct Picked {
    /// The device.
    pub device: Device,
    /// The claim on it; dropping it gives the device up.
    pub claim: Claim,
}

/// What came of a choice.
#[derive(Debug)]
pub enum Outcome {
    /// A free device, claimed.
    Picked(Picked),
    /// The pool has devices and none is free.
    NoneFree(Vec<(Device, Rejected)>),
}

/// One call's choice.
pub struct Chooser<'a, W: Worker> {
    /// NVML.
    pub client: &'a mut Client<W>,
    /// The lock.
    pub place: &'a Place,
    /// For whom.
    pub side: Side,
    /// The pool.
    pub filter: &'a Filter,
}

impl<W: Worker> Chooser<'_, W> {
    /// Chooses. `known` is an inventory that was needed already; then nothing is drawn.
    pub fn choose(&mut self, known: Option<Inventory>) -> Result<Outcome, Failure> {
        let probe = self.place.open()?;
        let inventory = match known {
            Some(inventory) => inventory,
            None => {
                if self.filter.is_open() {
                    if let Some(picked) = self.draw(&probe)? {
                        return Ok(Outcome::Picked(picked));
                    }
                }
                self.client.scan(Detail::Place)?
            }
        };
        self.among(&probe, &inventory)
    }

    fn draw(&mut self, probe: &Description) -> Result<Option<Picked>, Failure> {
        let gpus = self.client.count()?;
        if gpus == 0 {
            return Ok(None);
        }
        let mut rng = rand::rng();
        let mut draws = Draws::new(gpus, self.filter.kind);
        let mut known: HashMap<u32, Option<Gpu>> = HashMap::new();
        while let Some(slot) = draws.draw(&mut rng) {
            if let std::collections::hash_map::Entry::Vacant(vacant) = known.entry(slot.gpu) {
                vacant.insert(self.client.gpu(slot.gpu)?.ok());
            }
            let Some(gpu) = known.get(&slot.gpu).and_then(Option::as_ref) else { continue };
            let place = match draws.on(slot, gpu) {
                Ok(Some(place)) => place,
                Ok(None) => continue,
                Err(crate::draw::Unfair) => return Ok(None),
            };
            let Ok(Some(device)) = self.client.device(place.gpu, place.slot, Detail::Uuid)? else { continue };
            if !self.filter.takes(&device) {
                continue;
            }
            if let Ok(claim) = self.try_device(probe, &device)? {
                return Ok(Some(Picked { device, claim }));
            }
        }
        Ok(None)
    }

    fn among(&mut self, probe: &Description, inventory: &Inventory) -> Result<Outcome, Failure> {
        let outside = self.filter.sort(inventory);
        let pool = inventory.devices.iter().zip(&outside).filter(|(_, out)| out.is_none());
        let mut left: Vec<Device> = pool.map(|(device, _)| device.clone()).collect();
        if left.is_empty() {
            return Err(crate::census::empty_pool(inventory, &outside));
        }
        left.shuffle(&mut rand::rng());
        let began = Instant::now();
        let mut rejected = Vec::new();
        loop {
            let mut again = Vec::new();
            for device in left {
                match self.try_device(probe, &device)? {
                    Ok(claim) => return Ok(Outcome::Picked(Picked { device, claim })),
                    Err(Rejected::Tried) => again.push(device),
                    Err(why) => rejected.push((device, why)),
                }
            }
            if again.is_empty() || began.elapsed() >= PATIENCE {
                rejected.extend(again.into_iter().map(|device| (device, Rejected::Tried)));
                rejected.sort_by_key(|(device, _)| (device.gpu, device.slot));
                return Ok(Outcome::NoneFree(rejected));
            }
            // Others are deciding about these: whoever gives way leaves one of them free.
            std::thread::sleep(Duration::from_millis(2));
            left = again;
        }
    }

    /// Why a device is not free, without trying it: for people.
    pub fn look(&mut self, probe: &Description, device: &Device) -> Result<Option<Rejected>, Failure> {
        if claim::seen_taken(probe, Span::of(&device.uuid))?.is_some() {
            return Ok(Some(Rejected::Taken));
        }
        Ok(verdict(self.client.usage(device, Detail::Uuid)?))
    }

    /// Tries one device: a look that nobody sees, the claim, and NVML last, while the claim keeps others away.
    pub fn try_device(&mut self, probe: &Description, device: &Device) -> Result<Result<Claim, Rejected>, Failure> {
        let span = Span::of(&device.uuid);
        match claim::seen_taken(probe, span)? {
            None => {}
            Some(Held::Settled) => return Ok(Err(Rejected::Taken)),
            Some(Held::Try) => return Ok(Err(Rejected::Tried)),
        }
        let claim = match claim::attempt(self.place, self.side, span)? {
            Attempt::Got(claim) => claim,
            Attempt::Taken => return Ok(Err(Rejected::Taken)),
            Attempt::Tried => return Ok(Err(Rejected::Tried)),
        };
        Ok(verdict(self.client.usage(device, Detail::Uuid)?).map_or(Ok(claim), Err))
    }
}

/// What NVML's answer makes of a device: none if it is idle.
fn verdict(usage: Result<Usage, Failure>) -> Option<Rejected> {
    match usage {
        Ok(usage) => match usage.activity {
            Activity::Idle => None,
            Activity::Busy => Some(Rejected::Busy(usage.reason.unwrap_or_default())),
            Activity::Unknown => Some(Rejected::Unknown(usage.reason.unwrap_or_default())),
        },
        Err(failure) => Some(Rejected::Unknown(failure.message)),
    }
}

/// A grant that no longer names anything here.
pub fn vanished(value: &str) -> Failure {
    let shown: String = value.chars().take(60).collect();
    let dots = if shown.len() < value.len() { ".." } else { "" };
    Failure::new(Kind::NoDevice, format!("CUDA_VISIBLE_DEVICES={shown}{dots}: no such device on this node"))
        .hint("re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again")
}
