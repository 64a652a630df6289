//! What is liked best before what will do: as many devices as there are, and preferred models first. Each
//! wish is a choice of its own, which leaves nothing behind where it does not get its devices.

use crate::choice::chooser::Chooser;
use crate::choice::offer::{ChoiceOutcome, Rejected};
use getgpu_lock::{OfdLock, Side};
use getgpu_model::{Device, Failure, Inventory};

impl Chooser<'_, '_> {
    /// Chooses among the devices of the node: what is liked best, else what will do.
    ///
    /// # Errors
    ///
    /// The pool can never meet the request, the lock file cannot be locked, or NVML does not answer.
    pub fn choose(
        &mut self,
        probe: &OfdLock,
        inventory: &Inventory,
    ) -> Result<ChoiceOutcome, Failure> {
        for only_preferred in [true, false] {
            let least = self.request.count + usize::from(!only_preferred);
            let has_preferred = !self.request.filter.preferred.is_empty();
            if (only_preferred && !has_preferred) || self.request.most < least {
                continue;
            }
            let wish = |count| self.request.wish(count, only_preferred);
            let among = wish(least);
            let pool: Vec<&Device> = among.filter.pool(inventory).collect();
            let mut count = self.request.most.min(pool.len());
            while count >= least {
                let mut fewer = count - 1;
                // More than one program could use together are for several programs.
                let is_usable = self.side == Side::Reservation
                    || inventory
                        .check_together(count, pool.iter().copied())
                        .is_ok();
                if is_usable {
                    let mut chooser = Chooser {
                        node: &mut *self.node,
                        request: &wish(count),
                        ..*self
                    };
                    match chooser.choose_least(probe, inventory)? {
                        ChoiceOutcome::NoneFree(rejected) => {
                            let free = rejected.iter().filter(|(_, why)| *why == Rejected::Free);
                            fewer = fewer.min(free.count());
                        }
                        ChoiceOutcome::OverCap(_) => {}
                        taken @ ChoiceOutcome::Taken(_) => return Ok(taken),
                    }
                }
                count = fewer;
            }
        }
        // What will do, or why there is not even that.
        self.choose_least(probe, inventory)
    }
}
