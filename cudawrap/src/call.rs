//! One call of cudawrap: the program that is to get a device, and what is in force for it.
//! Every step of the story takes it: a device is chosen, leased, and the program is
//! launched with it.

use std::time::Instant;

use getgpu_common::diag::Diag;
use getgpu_common::error::Failure;
use getgpu_common::lock::LockFile;
use getgpu_common::queue::Progress;
use getgpu_common::settings::{Environment, Settings, Wait};

use crate::choose::Choice;
use crate::launch::launch;
use crate::launch_spec::LaunchSpec;
use crate::lease::Lessee;
use crate::lease_choice::lease;
use crate::ranks::Rank;

/// How cudawrap was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a link to it, whose user may not know of cudawrap: where a device is named, the
    /// program runs with or without a lease.
    Link,
    /// By its own name. `mps`: `--mps` was typed, rather than set by the site.
    OwnName { mps: bool },
}

/// What a program is given a device with.
pub struct Call<'a> {
    pub settings: &'a Settings,
    pub environment: &'a Environment,
    pub lock_file: &'a LockFile,
    /// The program that a device is for.
    pub lessee: Lessee<'a>,
    /// Which rank this is, under a launcher.
    pub rank: Option<&'a Rank>,
    pub diag: &'a Diag,
    pub origin: Origin,
    /// When we began to look for a device.
    pub began: Instant,
}

impl Call<'_> {
    /// How long this call waits.
    pub fn wait(&self) -> Wait {
        self.settings.longest_wait()
    }

    /// What is shown while this call waits in the queue; a wait that the site cuts short
    /// is said first.
    pub fn progress(&self) -> Progress {
        if let Some(line) = self.settings.wait_is_cut() {
            self.diag.warn(&line);
        }
        Progress::new(self.diag)
    }

    /// What the program is started with, once its devices are chosen.
    pub fn lease_and_launch(&self, choice: Choice) -> Result<LaunchSpec, Failure> {
        launch(self, lease(self, choice)?)
    }
}
