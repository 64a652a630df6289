//! Which devices are kept for a waiter: of those who want several all that they could use, of those who
//! want all of one a device that others share. Nothing is kept for a wait that only its own user can end.

use super::Search;
use crate::Name;
use getgpu_choose::{Rejected, ownership::held_around};
use getgpu_lock::{Level, Occupancy, OfdLock, Span, occupancy};
use getgpu_model::{Failure, Uuid};

impl<N: Name> Search<'_, '_, N> {
    pub(super) fn pool_uuids(&self) -> Vec<Uuid> {
        let pool = self.request.filter.pool(&self.inventory);
        pool.map(|device| device.uuid.clone()).collect()
    }

    pub(super) fn keepable_now(&mut self, probe: &OfdLock) -> Result<Vec<Uuid>, Failure> {
        if self.request.level() != Level::Outer {
            return Ok(Vec::new());
        }
        let mut uuids = self.pool_uuids();
        if self.request.count == 1 {
            let mut shared = Vec::new();
            for uuid in uuids {
                if self.shared.is_at(&uuid) || occupancy::is_shared(probe, Span::of(&uuid))? {
                    shared.push(uuid);
                }
            }
            uuids = shared;
        }
        if uuids.len() < self.request.count {
            return Ok(Vec::new());
        }
        let lock_file = self.at.lock_file;
        let around = self
            .around
            .get_or_insert_with(|| held_around(lock_file, &uuids));
        let out_of_order = |uuid: &Uuid| {
            let mut rejected = self.rejected.iter();
            rejected.any(|(device, why)| {
                matches!(why, Rejected::Unknown(_) | Rejected::Unhealthy(_)) && device.uuid == *uuid
            })
        };
        // A device that stays out of order is not worth keeping others from the rest.
        let never = |uuid: &&Uuid| out_of_order(uuid) || around.contains(uuid);
        let may_come = uuids.len() - uuids.iter().filter(never).count();
        if may_come < self.request.count {
            return Ok(Vec::new());
        }
        if self.request.count > 1 {
            return Ok(uuids);
        }
        let mut used = Vec::new();
        for uuid in uuids.into_iter().filter(|uuid| !never(&uuid)) {
            let taken = Occupancy::read(probe, Level::Outer, Span::of(&uuid))?.confirmed;
            used.push((uuid, taken.count()));
        }
        Ok(self.shared.device(&used).into_iter().collect())
    }

    /// What a line says if too few devices are left without those that this call's ancestors hold.
    /// [`Self::keepable_now`] finds these; `None` before it has.
    pub(super) fn waits_for_itself(&self) -> Option<String> {
        let around = self.around.as_ref()?;
        let uuids = self.pool_uuids();
        let own = uuids.iter().filter(|uuid| around.contains(uuid)).count();
        let is_short = own > 0 && uuids.len() - own < self.request.count;
        is_short.then(|| {
            let total = uuids.len();
            format!("{own} of {total} are held by what this call comes from, such as its shell")
        })
    }
}
