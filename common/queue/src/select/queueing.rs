//! A call that found nothing free and joins the queue: how long it waits there, and what
//! it says meanwhile.

use std::rc::Rc;
use std::time::Duration;

use crate::soon::NOTICE;
use crate::{Name, Patience, Progress, Search, Served, Waiter};
use getgpu_ask::Node;
use getgpu_choose::{Granted, Rejected};
use getgpu_lock::{LockFile, Side};
use getgpu_model::{Device, Diag, Failure};
use getgpu_settings::{Environment, Settings, Wait};

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
    /// Whether the caller asked for a wait.
    pub(super) asked: bool,
    /// How long what is about to become free is waited for.
    pub(super) soon: Option<Duration>,
    /// Why there is nothing to have now.
    pub(super) failure: Failure,
    /// The same of each device that was looked at.
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
        granted: &Rc<Granted>,
        node: &mut Node<'_>,
        name: &mut N,
    ) -> Result<Served<N::Same>, Failure> {
        let (at, settings) = (self.at, node.settings());
        let progress = if self.asked {
            Progress::asked(settings, at.diag)
        } else {
            Progress::silent(at.diag)
        };
        let patience = self.patience(settings);
        let queue = granted.queue();
        let search = Search::new(at, Rc::clone(granted), node, name, self.rejected)?;
        Waiter::new(at.lock_file, queue, search, progress, patience)?.wait()
    }

    fn patience(&self, settings: &Settings) -> Patience {
        let (Wait(limit), least) = (settings.longest_wait(), self.soon.unwrap_or_default());
        Patience {
            limit: limit.map(|limit| limit.max(least)),
            // On a busy machine those ahead take their time, and a holder notices late.
            extensions: self.soon.map_or(0, |soon| 1 + u32::from(soon == NOTICE)),
            failure: (!self.asked).then(|| self.failure.clone()),
        }
    }
}
