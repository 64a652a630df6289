//! Waiting for the devices that CUDA_VISIBLE_DEVICES names until nobody else has them: a
//! waiter in the queue that has nothing to choose.

use std::time::{Duration, Instant};

use getgpu_common::choice::attempt;
use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::lock::{
    Level, LockFile, Occupancy, OfdLock, Span, UNITS, Units, holders, occupancy,
};
use getgpu_common::pool::Portion;
use getgpu_common::quantity;
use getgpu_common::queue::{Availability, Seeker, Tried};
use getgpu_common::request::Request;

use crate::choose::ChoiceContext;
use crate::granted::{Named, first_holder, lease, taken};

/// How often a waiter looks whether the devices have become its own.
const RELOOK: Duration = Duration::from_secs(1);

/// A waiter for the devices that the grant names.
pub struct WantedDevices<'a> {
    pub lock_file: &'a LockFile,
    pub diag: &'a Diag,
    pub request: Request,
    pub devices: Vec<Device>,
    /// The process that they are for.
    pid: i32,
    /// When it was last looked which of them are ours.
    looked: Instant,
}

impl<'a> WantedDevices<'a> {
    /// A waiter for these devices.
    pub fn new(call: &ChoiceContext<'a>, devices: Vec<Device>, request: Request) -> Self {
        Self {
            lock_file: call.lock_file,
            diag: call.diag,
            request,
            devices,
            pid: call.lessee.pid,
            looked: Instant::now(),
        }
    }

    /// A reservation of ours may have begun or ended since the last attempt.
    fn look_again(&mut self) {
        if self.looked.elapsed() >= RELOOK {
            self.looked = Instant::now();
            self.request.cover = self.request.owned(self.lock_file, None).cover();
        }
    }

    /// Whether a device cannot be had now, as far as the lock tells; of what was ours at
    /// the last attempt only that counts.
    fn taken(&self, probe: &OfdLock, device: &Device) -> Result<bool, Failure> {
        let ours = self
            .request
            .cover
            .as_ref()
            .and_then(|cover| cover.units(&device.uuid));
        let span = Span::of(&device.uuid);
        Ok(
            match (
                ours,
                self.request
                    .filter
                    .portion(ours.unwrap_or(&Units::whole()), device.memory),
            ) {
                (_, Portion::TooLarge) => true,
                (Some(_), Portion::Units(_)) => {
                    !attempt::units(probe, &self.request, device)?.is_available()
                }
                (Some(ours), Portion::All) => {
                    ours.difference(&occupancy::in_region(probe, span.lease())?) != *ours
                }
                (None, portion) => {
                    let wanted = if let Portion::Units(wanted) = portion {
                        wanted
                    } else {
                        UNITS
                    };
                    Units::whole()
                        .difference(&Occupancy::look(probe, Level::Outer, span)?.confirmed)
                        .count()
                        < wanted
                }
            },
        )
    }
}

impl Seeker for WantedDevices<'_> {
    type Found = Named;

    fn availability(&mut self, probe: &OfdLock) -> Result<Availability, Failure> {
        self.look_again();
        let mut availability = Availability::default();
        for device in &self.devices {
            if !self.taken(probe, device)? {
                availability.free.push(device.uuid.clone());
            }
        }
        Ok(availability)
    }

    fn holders(&mut self, probe: &OfdLock) -> Result<(Vec<i32>, bool), Failure> {
        let (mut pids, mut all) = (Vec::new(), true);
        for device in &self.devices {
            all &= holders::watchable(probe, Span::of(&device.uuid), &mut pids)?;
        }
        Ok((pids, all))
    }

    fn wanted(&self) -> usize {
        self.devices.len()
    }

    fn total(&self) -> usize {
        self.devices.len()
    }

    fn attempt(&mut self, _may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Named>, Failure> {
        Ok(
            match lease(
                self.lock_file,
                &mut self.request,
                &self.devices,
                self.pid,
                self.diag,
            )? {
                // Not asked about again at once: whose it is can change only when
                // somebody ends.
                Named::Taken(..) => Tried::Busy(
                    self.devices
                        .iter()
                        .map(|device| device.uuid.clone())
                        .collect(),
                ),
                Named::TooLarge(failure) => return Err(failure),
                found @ Named::Leased(_) => Tried::Found(found),
            },
        )
    }

    fn may_have_more(&mut self, _probe: &OfdLock) -> Result<bool, Failure> {
        Ok(true)
    }

    fn in_vain(&mut self, probe: &OfdLock, waited: Duration) -> Failure {
        let device = self
            .devices
            .iter()
            .find(|device| self.taken(probe, device).unwrap_or(true))
            .or(self.devices.first());
        let Some(device) = device else {
            return Failure::new(Kind::NoneFree, "no free device");
        };
        let mut failure = taken(
            &device.uuid,
            first_holder(self.lock_file, probe, device, "lease").as_ref(),
            &self.request,
        );
        failure.message = format!("{}; waited {}", failure.message, quantity::waited(waited));
        failure
    }
}
