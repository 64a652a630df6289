//! A named device that another program has: the failure says who that is.

use crate::causes::ChooseCause;
use crate::request::grant::Grant;
use getgpu_lock::{LockFile, OfdLock, Span, holders};
use getgpu_model::{Device, Failure};

/// The failure of a call for which the grant names the device: `MIG-12..: in use by ben (pid 4711, python3)`.
/// `kind` is `lease` or `reservation`. If several programs hold the device, one that is no ancestor of
/// this call is named.
pub fn in_use(
    lock_file: &LockFile,
    probe: &OfdLock,
    device: &Device,
    kind: &str,
    grant: &Grant,
) -> Failure {
    let uuid = &device.uuid;
    let held = holders::holdings(lock_file, probe, Span::of(uuid)).ok();
    let holder = held.and_then(|held| held.foremost(Some(kind)));
    let who = holder.map_or_else(|| "another program".to_owned(), |holder| holder.who());
    let remedy = grant.without();
    ChooseCause::InUseBy { uuid, who, remedy }.into()
}
