//! A named device that another program has: who that is, for the failure and for a warning.

use crate::causes::ChooseCause;
use crate::request::grant::Grant;
use getgpu_lock::{Holder, LockFile, OfdLock, Span, holders};
use getgpu_model::{Device, Failure, Uuid};

/// A device that is in use.
#[derive(Debug)]
pub struct InUse {
    /// The device.
    pub uuid: Uuid,
    /// Who has it, if that is known.
    pub holder: Option<Holder>,
}

impl InUse {
    /// Looks who holds a device in this way: another program than those that this call comes from,
    /// if there is one. `kind`: `lease` or `reservation`.
    pub fn of(lock_file: &LockFile, probe: &OfdLock, device: &Device, kind: &str) -> Self {
        let held = holders::holdings(lock_file, probe, Span::of(&device.uuid)).ok();
        Self {
            uuid: device.uuid.clone(),
            holder: held.and_then(|held| held.foremost(Some(kind))),
        }
    }

    /// The failure of a call for which the grant names the device: `MIG-12..: in use by ben (pid 4711, python3)`
    pub fn failure(&self, grant: &Grant) -> Failure {
        let holder = self.holder.as_ref();
        let who = holder.map_or_else(|| "another program".to_owned(), Holder::who);
        let (uuid, remedy) = (&self.uuid, grant.without());
        ChooseCause::InUseBy { uuid, who, remedy }.into()
    }
}
