//! From a lease to what the program is started with: the variables that name its device,
//! the lease, MPS and CPUs. The same steps, whichever way led to the lease; the lease is
//! written to the site's log on the way.

use std::time::Instant;

use getgpu_common::diag::Diag;
use getgpu_common::error::Failure;
use getgpu_common::exit;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::job::Job;
use getgpu_common::lease_log;
use getgpu_common::lock::{LockFile, Side};
use getgpu_common::request::Request;
use getgpu_common::resolve_program::PREFIX;
use getgpu_common::settings::{Log, Settings};
use getgpu_common::syslog::Record;

use crate::bind::{self, Around};
use crate::choose::ChoiceContext;
use crate::launch_spec::LaunchSpec;
use crate::lease::{Lease, Lessee};
use crate::mps;

/// A program that is to be started, and since when.
pub struct Launch<'a> {
    pub lessee: Lessee<'a>,
    /// What is in force for it.
    pub settings: &'a Settings,
    /// Whether `--mps` was typed, rather than set by the site.
    pub mps: bool,
    /// When we began to look for a device.
    pub began: Instant,
    pub lock_file: &'a LockFile,
    /// Among whom CPUs are divided.
    pub around: Around,
    pub diag: &'a Diag,
}

impl<'a> Launch<'a> {
    /// Behind a choice.
    pub fn behind(call: &ChoiceContext<'a>, began: Instant, request: &Request) -> Self {
        Self {
            lessee: call.lessee,
            settings: call.settings,
            mps: false,
            began,
            lock_file: call.lock_file,
            around: Around::of(request, call.rank, call.environment.batch_job),
            diag: call.diag,
        }
    }

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
    ) -> Result<LaunchSpec, Failure> {
        self.log(devices, lease.part);
        let mut ready = LaunchSpec::leased(shown, lease, self.settings);
        mps::join(&mut ready, devices, self.settings, self.mps, self.diag)?;
        bind::join(&mut ready, devices, &self.around, self.settings, self.diag);
        Ok(ready)
    }

    /// Writes a lease down, and later its end, where the site wants that.
    fn log(&self, devices: &[Device], part: f64) {
        if self.settings.log == Log::None {
            return;
        }
        let Lessee { program, pid } = self.lessee;
        let devices: Vec<Uuid> = devices.iter().map(|device| device.uuid.clone()).collect();
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let job = Job::own();
        let record = Record {
            by: "cudawrap",
            pid,
            what: "leased",
            devices: &devices,
            uid: nix::unistd::geteuid().as_raw(),
            program: ("program", name.strip_prefix(PREFIX).unwrap_or(&name)),
            share: part,
            job: job.as_ref(),
            waited: self.began.elapsed(),
        };
        record.send(self.settings);
        if let Some(first) = devices.first() {
            let (lock_file, text) = (self.lock_file, record.text());
            lease_log::start(self.settings, lock_file, Side::Lease, pid, first, &text);
        }
    }
}

/// Says what went wrong and gives the exit status.
pub fn fail(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::cudawrap(failure.kind)
}
