//! Choosing and leasing, for both stories: a random free device of the pool, or the one that CUDA_VISIBLE_DEVICES names.
//! NVML is asked by the helper, which is over before anything is settled.

use getgpu_common::ask::Client;
use getgpu_common::census::Census;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::lock::holders::Holder;
use getgpu_common::lock::{Claim, Held, Place, Side, Span, claim, holders, own};
use getgpu_common::pick::{Chooser, Outcome};
use getgpu_common::request::Request;
use getgpu_common::settings::Settings;

use crate::helper::Helper;
use crate::lease::Lease;

/// A session with the helper, ended whatever comes of it.
fn with_helper<T>(
    settings: &Settings,
    ask: impl FnOnce(&mut Client<Helper>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut client = Client::open(Helper::start(settings)?, settings)?;
    match ask(&mut client) {
        Ok(answer) => client.close().map(|()| answer),
        Err(failure) => {
            client.abandon();
            Err(failure)
        }
    }
}

/// What a choice inside a grant turned out to be.
pub enum Choice {
    /// A free device, claimed.
    Free(Device, Claim),
    /// The grant names just this device: there is nothing to choose.
    Only(Device),
}

/// A random free device of the request's pool.
pub fn free(settings: &Settings, place: &Place, mut request: Request) -> Result<Choice, Failure> {
    with_helper(settings, |client| {
        let known = request.resolve_grant(client)?;
        if let (Some([only]), Some(inventory)) = (request.filter.grant.as_deref(), &known) {
            if let Some(device) = inventory.devices.iter().find(|device| device.uuid == *only) {
                return Ok(Choice::Only(device.clone()));
            }
        }
        let mut chooser = Chooser { client, place, side: Side::Lease, filter: &request.filter };
        match chooser.choose(known)? {
            Outcome::Picked(picked) => Ok(Choice::Free(picked.device, picked.claim)),
            Outcome::NoneFree(rejected) => {
                Err(Census::take(&rejected, &place.open()?).failure().hint("getgpu --list shows who holds what"))
            }
        }
    })
}

/// The one device that an index, a short or an old form names; none if it fails or two fit.
pub fn resolve(settings: &Settings, mut request: Request) -> Option<Uuid> {
    let named = with_helper(settings, |client| {
        request.resolve_grant(client)?;
        Ok(request.filter.grant.unwrap_or_default())
    });
    match named.ok()?.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// What became of a named device.
pub enum Named {
    /// Leased.
    Leased(Lease),
    /// An ancestor of ours leases it: it is ours already.
    Ours,
    /// Somebody else has it: who, if that can be told.
    Taken(Option<Holder>),
}

/// Leases a named device. A reservation on it is asked about only with `mind_reservation`, and an own one is no hindrance.
pub fn named(place: &Place, uuid: &Uuid, mind_reservation: bool) -> Result<Named, Failure> {
    let span = Span::of(uuid);
    let Some(claim) = claim::named_lease(place, span)? else {
        if own::ancestor_leases(place, span) {
            return Ok(Named::Ours);
        }
        return Ok(Named::Taken(first_holder(place, span, "lease")));
    };
    if mind_reservation && claim.other_side()? == Some(Held::Settled) {
        let uid = nix::unistd::geteuid().as_raw();
        let mine = own::reservations(place, Some(uid)).iter().any(|line| line.devices.contains(uuid));
        if !mine {
            return Ok(Named::Taken(first_holder(place, span, "reservation")));
        }
    }
    Lease::settle(claim, place).map(Named::Leased)
}

fn first_holder(place: &Place, span: Span, kind: &str) -> Option<Holder> {
    let probe = place.open().ok()?;
    let held = holders::of(place, &probe, span).ok()?;
    held.holders.into_iter().find(|holder| holder.kind == kind)
}

/// `MIG-12..: in use by ben (pid 4711, python3)`
pub fn in_use(uuid: &Uuid, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else { return format!("{uuid}: in use by another program") };
    let user = holder.user.as_deref().unwrap_or("another user");
    match (holder.pid, &holder.program) {
        (Some(pid), Some(program)) => format!("{uuid}: in use by {user} (pid {pid}, {program})"),
        _ => format!("{uuid}: in use by {user}"),
    }
}

/// The failure of a named device that somebody else has.
pub fn taken(uuid: &Uuid, holder: Option<&Holder>) -> Failure {
    Failure::new(Kind::NoneFree, in_use(uuid, holder)).hint("unset CUDA_VISIBLE_DEVICES to get a free device")
}
