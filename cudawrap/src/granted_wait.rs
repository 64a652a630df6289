//! Waiting for the devices that CUDA_VISIBLE_DEVICES names until no other process has
//! them: a waiter in the queue that has nothing to choose.

use std::time::{Duration, Instant};

use getgpu_choose::{
    Availability, NotServed, Outlook, Request, Seeker, Tried, choice::device_claim, queue,
};
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure, Kind, Uuid, quantity};

use crate::call::CudawrapCall;
use crate::choose::uuids;
use crate::granted::{Named, first_holder, lease, taken};

/// How often a waiter looks whether it owns the devices by now.
const RELOOK: Duration = Duration::from_secs(1);

/// A waiter for the devices that the grant names.
pub struct WantedDevices<'a> {
    pub call: &'a CudawrapCall<'a>,
    pub request: Request,
    pub devices: Vec<Device>,
    /// When this call last read which of the devices it owns.
    looked: Instant,
}

impl<'a> WantedDevices<'a> {
    /// A waiter for these devices.
    pub fn new(call: &'a CudawrapCall<'a>, devices: Vec<Device>, request: Request) -> Self {
        Self {
            call,
            request,
            devices,
            looked: Instant::now(),
        }
    }

    /// A reservation of this user may have begun or ended since the last attempt.
    fn look_again(&mut self) {
        if self.looked.elapsed() >= RELOOK {
            self.looked = Instant::now();
            self.request.cover = self.request.owned(self.call.lock_file, None).cover();
        }
    }
}

impl Seeker for WantedDevices<'_> {
    type Found = Named;

    fn availability(&mut self, probe: &OfdLock) -> Result<Availability, Failure> {
        self.look_again();
        queue::availability(probe, &self.request, self.devices.iter())
    }

    fn wanted(&self) -> usize {
        self.devices.len()
    }

    fn total(&self) -> usize {
        self.devices.len()
    }

    fn attempt(&mut self, _may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Named>, Failure> {
        match lease(self.call, &mut self.request, &self.devices)? {
            // Not asked about again at once: its owner changes only when a process exits.
            Named::Taken(..) => Ok(Tried::NoneFree(NotServed {
                in_use: uuids(&self.devices),
                silent: Vec::new(),
            })),
            found => Ok(Tried::Claimed(found)),
        }
    }

    fn outlook(&self, probe: &OfdLock) -> Outlook {
        Outlook::of(self.call.lock_file, probe, self.devices.iter())
    }

    fn may_have_more(&mut self, _probe: &OfdLock) -> Result<bool, Failure> {
        Ok(true)
    }

    fn in_vain(&mut self, probe: &OfdLock, waited: Duration) -> Failure {
        let is_free = |device: &Device| {
            let offered = device_claim::units(probe, &self.request, device);
            offered.is_ok_and(|offered| offered.is_available())
        };
        let mut devices = self.devices.iter();
        let device = devices
            .find(|device| !is_free(device))
            .or(self.devices.first());
        let Some(device) = device else {
            return Failure::new(Kind::NoneFree, "no free device");
        };
        let mut failure = taken(
            &device.uuid,
            first_holder(self.call.lock_file, probe, device, "lease").as_ref(),
            &self.request,
        );
        failure.message = format!("{}; waited {}", failure.message, quantity::waited(waited));
        failure
    }
}
