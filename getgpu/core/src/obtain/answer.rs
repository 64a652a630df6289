//! What a call prints, and the lock behind it: claims that are confirmed, which happens
//! only when NVML has let go, or what the caller owns already. The forms of `--format`.

use std::ops::ControlFlow;
use std::rc::Rc;

use getgpu_choose::{Asked, Basis, Cover, Decision, Granted, Guard, Owned, Taken, cuda_index};
use getgpu_lock::{
    HolderProcess, Level, LockFile, OfdLock, Side, Span, claim::join, ownership_proof,
};
use getgpu_model::{Detail, Failure, Inventory, Share, Units, Uuid, diag, frameworks, share};
use getgpu_queue::Selected;

use crate::call::{GetgpuCall, node};
use crate::options::{Action, Format, Keep};

/// Whether a choice has to be confirmed before it is printed.
pub enum Chosen<'a> {
    /// No: the caller owns it already, or it is not reserved.
    Ready(Answer),
    /// Yes, or there is nothing to have yet.
    Unconfirmed(Selected<'a>),
}

/// What is to be printed, and the lock behind it.
pub struct Answer {
    /// The devices.
    pub uuids: Vec<Uuid>,
    /// What is printed for them.
    pub value: String,
    /// The confirmed reservation, if there is to be one.
    pub lock: Option<OfdLock>,
    /// The caller owned the devices before this call.
    pub repeated: bool,
    /// The grant that the devices were chosen from, if it names more devices.
    pub larger_grant: Vec<Uuid>,
    /// The smallest part of a device that it is.
    pub part: f64,
    /// Kept until the holder can be counted.
    pub guard: Guard,
}

impl Answer {
    /// Devices of which the smallest part is `part`, and that the call did not have before.
    pub fn of(uuids: Vec<Uuid>, value: String, lock: Option<OfdLock>, part: f64) -> Self {
        Self {
            uuids,
            value,
            lock,
            repeated: false,
            larger_grant: Vec::new(),
            part,
            guard: None,
        }
    }
}

/// Confirms what was claimed.
///
/// # Errors
///
/// The form of the answer does not fit the devices, or what they were chosen from has
/// ended.
pub fn confirm(
    call: &GetgpuCall<'_>,
    taken: Taken,
    granted: &Granted,
    inventory: Option<&Inventory>,
) -> Result<Answer, Failure> {
    if let Some(known) = inventory
        && let Err(unusable) = known.check_together(taken.parts.len(), taken.devices())
    {
        // It may be for several programs.
        call.diag.warn(&unusable.message);
    }
    let uuids: Vec<Uuid> = taken.devices().map(|device| device.uuid.clone()).collect();
    let value = value(call, uuids.iter(), inventory)?;
    let part = taken.smallest_part();
    let (lock, guard) = taken.reserve(&call.lock_file, granted.user)?;
    Ok(Answer {
        larger_grant: granted.larger_grant(uuids.len()),
        guard,
        ..Answer::of(uuids, value, Some(lock), part)
    })
}

/// A grant, given by full UUIDs, that this call owns already and all of which is wanted:
/// nothing is chosen and NVML is not asked. Not in a batch job, which may name to each task
/// a device that only the first one may open.
pub fn granted_again(call: &GetgpuCall<'_>, asked: &Asked) -> Result<Option<Answer>, Failure> {
    let plain = call.options.action == Action::Print(None) && call.options.format != Format::Index;
    let plain = plain && !asked.filter().share.is_some_and(Share::needs_memory);
    let plain = plain && !asked.grant().is_in_batch_job();
    let Some(uuids) = asked.grant().visible.full_uuids().filter(|_| plain) else {
        return Ok(None);
    };
    let Decision::All(cover) = asked.owned_of(&call.lock_file, &uuids, &[]) else {
        return Ok(None);
    };
    again(call, &cover, Uuid::join(&uuids))
}

/// What the caller owns of its grant, if it wants all of it; else the request inside of that.
///
/// # Errors
///
/// The lock file cannot be locked, or the form of the answer does not fit the devices.
pub fn again_or_inside(
    call: &GetgpuCall<'_>,
    granted: &Rc<Granted>,
    known: Option<&Inventory>,
) -> Result<ControlFlow<Answer, Owned>, Failure> {
    loop {
        let owned = granted.owned(&call.lock_file, known);
        let Decision::All(cover) = &owned else {
            return Ok(ControlFlow::Continue(Owned::inside(granted, owned.cover())));
        };
        let value = value(call, cover.devices.iter().map(|(uuid, _)| uuid), known)?;
        if let Some(answer) = again(call, cover, value)? {
            return Ok(ControlFlow::Break(answer));
        }
    }
}

/// Prints devices that this call owns once more. Their reservation goes on, and a second
/// holder joins it, since the program may outlive what the first one waits for. None: it has ended
/// before this call had a lock beside it, and what the call owns is to be looked at once more.
fn again(call: &GetgpuCall<'_>, cover: &Cover, value: String) -> Result<Option<Answer>, Failure> {
    let lock = match call.options.keep {
        Keep::No => None,
        _ => {
            let joined = joined(&call.lock_file, cover)?;
            // Another call may have taken the device before this one's lock was there.
            if !cover.stands(&call.lock_file) {
                return Ok(None);
            }
            joined
        }
    };
    call.diag.note(&format!("{value}: yours already"));
    let uuids = cover.devices.iter().map(|(uuid, _)| uuid.clone()).collect();
    let part = share::smallest(cover.devices.iter().map(|(_, units)| units));
    Ok(Some(Answer {
        repeated: true,
        ..Answer::of(uuids, value, lock, part)
    }))
}

/// A lock beside the one by which the caller owns devices, if they can be locked.
fn joined(lock_file: &LockFile, cover: &Cover) -> Result<Option<OfdLock>, Failure> {
    let joined = lock_file.open()?;
    let shown = match &cover.basis {
        Basis::Reservation(holder) => ownership_proof::locks_of(holder.pid),
        Basis::InheritedLease | Basis::AncestorLease => Vec::new(),
    };
    let mut is_joined = true;
    for (uuid, units) in &cover.devices {
        let span = Span::of(uuid);
        let inner = ownership_proof::shown_in(&shown, lock_file, span.inner_reservation());
        // What divides another reservation is looked for in the inner range, also when the holder
        // that is joined has ended.
        let inner = units.difference(&units.difference(&inner));
        let parts = [
            (Level::Outer, units),
            (Level::Inner { reserved: true }, &inner),
        ];
        for (level, units) in parts {
            is_joined = is_joined && join(&joined, (Side::Reservation, level), span, units)?;
        }
    }
    Ok(is_joined.then_some(joined))
}

/// Prints the devices of reservations that there are.
pub fn print_again(call: &GetgpuCall<'_>, holders: &[HolderProcess]) -> Result<(), Failure> {
    let mut node = node(call.settings);
    if call.options.format == Format::Index {
        node.ask(|node| node.inventory(Detail::Place))?;
    }
    let reserved = holders.iter();
    let reserved = reserved.flat_map(|holder| ownership_proof::reserved(&call.lock_file, holder));
    let (uuids, units): (Vec<Uuid>, Vec<Units>) = reserved.unzip();
    let value = value(call, uuids.iter(), node.known().as_deref())?;
    diag::print(text(call, &value, share::smallest(&units)))
}

/// What is printed for devices: their UUIDs, or with `--format index` CUDA indices among
/// the GPUs that this process can open. A reservation or a lease of this caller may be of
/// MIG devices, which have none: a UUID in the place of an index would be taken for one.
pub fn value<'u>(
    call: &GetgpuCall<'_>,
    uuids: impl Iterator<Item = &'u Uuid>,
    inventory: Option<&Inventory>,
) -> Result<String, Failure> {
    let each = uuids.map(|uuid| match (call.options.format, inventory) {
        (Format::Index, Some(inventory)) => {
            cuda_index(uuid, inventory, "--format index").map(|index| index.to_string())
        }
        _ => Ok(uuid.to_string()),
    });
    each.collect::<Result<Vec<_>, _>>().map(|all| all.join(","))
}

/// What is printed for devices of which the smallest part is `part`.
pub fn text(call: &GetgpuCall<'_>, value: &str, part: f64) -> String {
    match call.options.format {
        Format::Env => format!("export CUDA_VISIBLE_DEVICES={value}\n"),
        Format::Task => {
            let told = call.settings.framework_memory && part < 1.0;
            let more = frameworks::variables(part)
                .into_iter()
                .filter(|(name, _)| told && std::env::var_os(name).is_none());
            let more = more.map(|(name, value)| format!("export {name}={value}\n"));
            format!(
                "export CUDA_VISIBLE_DEVICES={value}\n{}",
                more.collect::<String>()
            )
        }
        Format::Nothing => String::new(),
        _ => format!("{value}\n"),
    }
}
