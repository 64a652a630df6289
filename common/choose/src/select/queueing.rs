//! A call that found nothing free and joins the queue: how long it waits there, and what
//! it says meanwhile.

use crate::choice::offer::Rejected;
use crate::queue::prospect::Prospect;
use crate::queue::{Name, Patience, Progress, Search, Served, Waiter};
use crate::request::Request;
use getgpu_ask::Node;
use getgpu_lock::{LockFile, Side};
use getgpu_model::{Device, Diag, Failure};
use getgpu_settings::{Environment, Settings};

/// A request that joins the queue.
pub struct Queueing {
    /// Whether the caller asked for a wait.
    pub(super) asked: bool,
    pub(super) prospect: Prospect,
    /// Why there is nothing to have now.
    pub(super) failure: Failure,
    /// The same of each device that was looked at.
    pub(super) rejected: Vec<(Device, Rejected)>,
}

impl Queueing {
    /// Waits in the queue: as long as the caller asked for, and long enough for
    /// reservations that linger to end; what is found will be reserved under `name`.
    ///
    /// # Errors
    ///
    /// The wait was in vain.
    pub fn wait<N: Name>(
        self,
        lock_file: &LockFile,
        side: Side,
        request: &mut Request,
        node: &mut Node<'_>,
        environment: &Environment,
        diag: &Diag,
        name: &mut N,
    ) -> Result<Served<N::Same>, Failure> {
        let settings = node.settings();
        let progress = if self.asked {
            Progress::asked(settings, diag)
        } else {
            Progress::silent(diag)
        };
        let patience = self.patience(settings);
        let queue = request.queue();
        let search = Search::new(lock_file, side, request, node, environment, name)?;
        let search = search.after(self.rejected);
        Waiter::new(lock_file, queue, search, progress, patience)?.wait()
    }

    fn patience(&self, settings: &Settings) -> Patience {
        let least = self.prospect.time(settings.linger);
        let asked = Patience::from(settings.longest_wait());
        Patience {
            limit: asked.limit.map(|limit| limit.max(least)),
            // On a busy machine those ahead take their time.
            extensions: self.prospect.extensions(),
            failure: (!self.asked).then(|| self.failure.clone()),
        }
    }
}
