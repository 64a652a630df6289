//! The first look of a call that waits, on a node whose driver does not answer yet: it is made
//! again, with growing pauses, until the driver answers or the wait reaches its limit.

use std::time::{Duration, Instant};

use nix::libc::RLIM_INFINITY;
use nix::sys::resource::{Resource, getrlimit};

use crate::Progress;
use crate::progress::Standing;
use crate::tolerance::Tolerance;
use getgpu_ask::{Node, gpu_bus};
use getgpu_linux::run_clock;
use getgpu_model::{Diag, Failure, Kind};
use getgpu_settings::{Settings, Wait};

/// The first look of a call, and how long it has been made again.
pub struct Outage<'a> {
    settings: &'a Settings,
    diag: &'a Diag,
    began: Instant,
    tolerance: Tolerance,
    progress: Option<Progress>,
}

impl<'a> Outage<'a> {
    /// A look that begins now.
    pub fn new(settings: &'a Settings, diag: &'a Diag) -> Self {
        Self {
            settings,
            diag,
            began: run_clock::now(),
            tolerance: Tolerance::default(),
            progress: None,
        }
    }

    /// Ends the session of a look and returns what it found. If NVML failed and the settings say to wait,
    /// pauses and returns `None`: look again. The node is then listed again, since no GPU may have
    /// answered when it was listed last.
    pub fn outlasted<T>(
        &mut self,
        node: &mut Node<'_>,
        looked: Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let looked = match node.settle(looked) {
            Err(failure) => {
                let Some(failure) = self.pause(failure) else {
                    node.forget();
                    return None;
                };
                Err(failure)
            }
            looked => looked,
        };
        if let Some(progress) = &mut self.progress {
            progress.end(looked.is_ok());
        }
        Some(looked)
    }

    /// Waits for the next look; the failure, if there is to be none.
    fn pause(&mut self, failure: Failure) -> Option<Failure> {
        let wait = self.settings.longest_wait();
        if wait == Wait::NO || !may_pass(&failure) {
            return Some(failure);
        }
        let waited = run_clock::since(self.began);
        if wait.0.is_some_and(|time| waited >= time) {
            return Some(failure.waited(waited));
        }
        let text = failure.message.clone();
        let now = run_clock::now();
        let again = match self.tolerance.bear(failure, wait, now) {
            Ok(again) => again,
            Err(failure) => return Some(failure),
        };
        let asked = || Progress::asked(self.settings, self.diag);
        let progress = self.progress.get_or_insert_with(asked);
        if progress.is_due() {
            progress.say(&Standing::Trouble(text));
        }
        let left = wait
            .0
            .map_or(Duration::MAX, |time| time.saturating_sub(waited));
        run_clock::sleep((again - now).min(left));
        None
    }
}

/// Whether the node may answer later. A limit on the memory of this process does not pass.
fn may_pass(failure: &Failure) -> bool {
    match failure.kind {
        Kind::Nvml => getrlimit(Resource::RLIMIT_AS).is_ok_and(|(soft, _)| soft == RLIM_INFINITY),
        Kind::NoDriver => gpu_bus::has_one_without_driver(),
        _ => false,
    }
}
