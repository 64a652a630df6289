//! A call that found nothing free and joins the queue: how long it waits there, and what
//! it says meanwhile.

use crate::{Name, Patience, Progress, Search, Served, Waiter};
use getgpu_ask::Node;
use getgpu_choose::{Owned, Rejected};
use getgpu_lock::{LockFile, Side};
use getgpu_model::{Device, Diag, Failure};
use getgpu_settings::Environment;

/// Where a call waits, and where it says so.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The lock.
    pub lock_file: &'a LockFile,
    /// For a lease or for a reservation.
    pub side: Side,
    /// Where the settings are read again from.
    pub environment: &'a Environment,
    /// Where it says that it waits.
    pub diag: &'a Diag,
}

/// A request that joins the queue.
pub struct Queueing<'a> {
    pub(super) at: At<'a>,
    pub(super) request: Owned,
    pub(super) patience: Patience,
    /// Why each device that was looked at is not to be had now.
    pub(super) rejected: Vec<(Device, Rejected)>,
}

impl Queueing<'_> {
    /// Waits in the queue: as long as the caller asked for, and long enough for
    /// reservations that linger to end; what is found will be reserved under `name`.
    ///
    /// # Errors
    ///
    /// The wait was in vain.
    pub fn wait<N: Name>(
        self,
        node: &mut Node<'_>,
        name: &mut N,
    ) -> Result<Served<N::Same>, Failure> {
        let at = self.at;
        let progress = if self.patience.failure.is_none() {
            Progress::asked(node.settings(), at.diag)
        } else {
            Progress::silent(at.diag)
        };
        let queue = self.request.queue();
        let search = Search::new(at, self.request, node, name, self.rejected)?;
        Waiter::new(at.lock_file, queue, search, progress, self.patience)?.wait()
    }
}
