//! From a lease to what the program is started with: the same steps, whichever way led to
//! the lease. It is written down for the site, then the program is made a client of MPS
//! and bound to CPUs, where that is set.

use std::path::Path;
use std::time::Instant;

use getgpu_common::diag::Diag;
use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::lock::Place;
use getgpu_common::settings::Settings;

use crate::bind::{self, Around};
use crate::lease::Lease;
use crate::mps;
use crate::ready::Ready;
use crate::report::leased;

/// A program that is to be started, and since when it has been so.
pub struct Start<'a> {
    /// Its file.
    pub program: &'a Path,
    /// What is in force for it.
    pub settings: &'a Settings,
    /// Whether `--mps` was typed, rather than set by the site.
    pub mps: bool,
    /// When we began to look for a device.
    pub began: Instant,
    /// The lock.
    pub place: &'a Place,
    /// Among whom CPUs are divided.
    pub around: Around,
    /// Where notes go.
    pub diag: &'a Diag,
}

impl Start<'_> {
    /// With a lease on these devices. `shown`: those to be named in CUDA_VISIBLE_DEVICES;
    /// none: that stays as it is.
    ///
    /// # Errors
    ///
    /// MPS was asked for and cannot be had: the program is not to be run then.
    pub fn with(
        &self,
        devices: &[Device],
        shown: Option<&[Uuid]>,
        lease: Lease,
    ) -> Result<Ready, Failure> {
        leased(
            self.settings,
            self.place,
            devices,
            lease.part,
            self.program,
            self.began,
        );
        let mut ready = Ready::leased(shown, lease, self.settings);
        mps::join(&mut ready, devices, self.settings, self.mps, self.diag)?;
        bind::join(&mut ready, devices, &self.around, self.settings, self.diag);
        Ok(ready)
    }
}
