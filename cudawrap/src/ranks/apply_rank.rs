//! What it changes of a request that this process is a rank, and that a program is to see
//! more than its own device, once the devices that it may choose from are known.

use getgpu_choose::Request;
use getgpu_model::{
    Device, Diag, Failure, Inventory, Kind, Nearest, Share, Uuid, Visible, cpus::mask,
};
use getgpu_settings::{Settings, Shown};

use super::waiting::{self, Granted};
use super::{LAUNCHERS, Rank, distribution, launchers};
use crate::call::CudawrapCall;

/// This process's rank, from its environment.
///
/// # Errors
///
/// A variable of a launcher has a value that is no rank.
pub fn of_process() -> Result<Option<Rank>, Failure> {
    // Only where several launchers have set theirs is there something to find out.
    let set = LAUNCHERS
        .iter()
        .filter(|launcher| variable(launcher.local).is_some());
    let nearest = if set.count() > 1 {
        launchers::nearest()
    } else {
        None
    };
    super::find_rank(&variable, nearest.as_deref())
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The same for a linked program, whose user may not know of any of this: invalid values
/// warn and are ignored.
pub fn of_linked(diag: &Diag) -> Option<Rank> {
    of_process().unwrap_or_else(|failure| {
        diag.warn(&format!("{}: ignored", failure.message));
        None
    })
}

/// Whether the devices have to be known before one is chosen.
pub fn needs_inventory(call: &CudawrapCall<'_>) -> bool {
    call.rank.is_some() || call.settings.visible != Shown::One
}

/// The share of a rank in a grant of one device, of which nothing has to be asked.
pub fn share_single_device(
    call: &CudawrapCall<'_>,
    request: &mut Request,
    device: &Device,
) -> Result<(), Failure> {
    let Some(rank) = call.rank else {
        return Ok(());
    };
    if is_ours_alone(call, request, std::slice::from_ref(&device.uuid)) {
        return Ok(());
    }
    if call.settings.share.is_none() {
        divide(request, distribution::share(rank, 1));
    }
    waiting::check(call, rank, request, &[device], Granted::Devices)
}

/// Whether the devices were reserved for, or leased by, this rank alone.
fn is_ours_alone(call: &CudawrapCall<'_>, request: &Request, grant: &[Uuid]) -> bool {
    let owned = request.owned_of(call.lock_file, grant, None).cover();
    owned.is_some_and(|cover| launchers::is_ours_alone(call.lock_file, &cover))
}

/// Ranks divide what they are given, also where that is a part of a device.
fn divide(request: &mut Request, share: Option<Share>) {
    request.filter.share = share;
    request.filter.share_by_default = false;
}

/// Puts a rank into its place.
pub fn place(
    call: &CudawrapCall<'_>,
    request: &mut Request,
    inventory: &Inventory,
) -> Result<(), Failure> {
    let shown = call.settings.visible;
    if shown != Shown::One && request.count > 1 {
        let text = format!(
            "--count {}: --visible first and all are for programs with one device",
            request.count
        );
        return Err(Failure::new(Kind::Usage, text));
    }
    let listed = listed(request, inventory);
    if let Some(rank) = call.rank {
        place_rank(call, rank, request, &listed);
        let is_granted = Granted::of(request);
        if is_granted == Granted::Nothing || !is_ours_alone(call, request, &listed) {
            let devices = inventory.devices.iter();
            let devices: Vec<&Device> = devices.filter(|d| listed.contains(&d.uuid)).collect();
            waiting::check(call, rank, request, &devices, is_granted)?;
        }
    }
    match shown {
        Shown::One => {}
        Shown::First => request.placement.others = listed,
        Shown::All => {
            let local = call.rank.map_or(0, |rank| rank.local);
            if let Some(own) = listed.get(local % listed.len().max(1)) {
                request.filter.grant = Some(vec![own.clone()]);
            }
            request.placement.others = listed;
        }
    }
    Ok(())
}

/// Gives a rank its part of the devices that ranks divide, and says which is nearest.
fn place_rank(call: &CudawrapCall<'_>, rank: &Rank, request: &mut Request, listed: &[Uuid]) {
    let settings = call.settings;
    // Whose devices are divided: those of a grant, and all of the node only if the user
    // asks for that.
    let divided = (request.grant.visible != Visible::Unset || settings.share_auto)
        && !is_ours_alone(call, request, listed);
    if divided && settings.share.is_none() {
        divide(request, distribution::share(rank, listed.len()));
        request.memory |= settings.mps;
        if let Some(line) = distribution::uneven(rank, listed.len()) {
            call.diag.remark(&line);
        }
    }
    let block = distribution::block(rank, listed.len()).filter(|_| divided);
    // Ranks that are fewer than the devices use the first ones.
    if let (Some(_), Some(size)) = (block, rank.size.filter(|size| *size < listed.len())) {
        request
            .placement
            .neighbours
            .retain(|(uuid, _)| listed[..size].contains(uuid));
    }
    request.placement.nearest = Some(Nearest {
        cpus: mask::of_process(0).unwrap_or_default(),
        block,
    });
}

/// The devices of the pool, in the order of the grant where there is one.
fn listed(request: &Request, inventory: &Inventory) -> Vec<Uuid> {
    let mut pool: Vec<Uuid> = request
        .filter
        .pool(inventory)
        .map(|device| device.uuid.clone())
        .collect();
    if let Some(grant) = &request.filter.grant {
        pool.sort_by_key(|uuid| grant.iter().position(|granted| granted == uuid));
    }
    pool
}

/// What CUDA_VISIBLE_DEVICES is to name for a program that has `own`; none: it stays as
/// it is.
pub fn shown(own: Vec<Uuid>, request: &Request, settings: &Settings) -> Option<Vec<Uuid>> {
    match settings.visible {
        Shown::One => Some(own),
        Shown::First => {
            let others: Vec<Uuid> = request
                .placement
                .others
                .iter()
                .filter(|other| !own.contains(other))
                .cloned()
                .collect();
            Some(own.into_iter().chain(others).collect())
        }
        Shown::All if request.grant.is_named_by_variable() => None,
        Shown::All => Some(request.placement.others.clone()),
    }
}
