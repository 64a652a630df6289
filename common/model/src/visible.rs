//! CUDA_VISIBLE_DEVICES as a grant: what a batch system, a user or one of our own tools
//! gave already. Read as CUDA reads it: cut at the first invalid entry; empty, `-1` and
//! `NoDevFiles` are no devices.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::ident::{Selector, Uuid};
use crate::inventory::{Device, Gpu, Inventory};

/// What the variable says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// It is not set: no grant.
    Unset,
    /// It names no device.
    Nothing,
    /// It names these, in this order.
    Entries(Vec<Selector>),
}

impl Visible {
    /// What the value of CUDA_VISIBLE_DEVICES means; none: it is not set.
    pub fn parse(value: Option<&OsStr>) -> Self {
        let Some(value) = value else {
            return Self::Unset;
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let entries: Vec<Selector> = text.split(',').map_while(Selector::of_variable).collect();
        if entries.is_empty() {
            Self::Nothing
        } else {
            Self::Entries(entries)
        }
    }

    /// Whether it may name a GPU: an entry that is the name of no MIG device.
    pub fn may_name_gpu(&self) -> bool {
        match self {
            Self::Unset | Self::Nothing => false,
            Self::Entries(entries) => entries.iter().any(may_be_gpu),
        }
    }

    /// The one device that it names by a full UUID of the present form; for that NVML
    /// need not be asked.
    pub fn single_uuid(&self) -> Option<&Uuid> {
        let Self::Entries(entries) = self else {
            return None;
        };
        match entries.as_slice() {
            [Selector::Full(uuid)] => Some(uuid),
            _ => None,
        }
    }

    /// The devices it names if all of them are full UUIDs of the present form.
    pub fn full_uuids(&self) -> Option<Vec<Uuid>> {
        let Self::Entries(entries) = self else {
            return None;
        };
        entries
            .iter()
            .map(|entry| match entry {
                Selector::Full(uuid) => Some(uuid.clone()),
                _ => None,
            })
            .collect()
    }
}

/// Whether one of these entries is an index that CUDA may count in another order than NVML:
/// CUDA's is FASTEST_FIRST unless CUDA_DEVICE_ORDER says otherwise (CUDA C++ Programming Guide).
pub fn counts_in_another_order(entries: &[Selector], gpus: &[Gpu]) -> bool {
    let has_index = entries
        .iter()
        .any(|entry| matches!(entry, Selector::Index(_)));
    has_index && has_several_models(gpus)
}

/// Whether a node has GPUs of different models, as far as their names are known.
pub fn has_several_models(gpus: &[Gpu]) -> bool {
    let mut names = gpus.iter().filter(|gpu| gpu.usable).map(|gpu| &gpu.name);
    let first = names.next();
    names.any(|name| Some(name) != first)
}

fn may_be_gpu(entry: &Selector) -> bool {
    match entry {
        Selector::Index(_) => true,
        Selector::Full(uuid) => !uuid.is_mig(),
        Selector::Prefix(text) => !text.starts_with("MIG-"),
        Selector::OldMig { .. } => false,
    }
}

/// Whether a value hides all devices on purpose: an empty one, `-1` and `NoDevFiles` do.
pub fn hides_all(value: &str) -> bool {
    let first = value.split(',').next().unwrap_or_default().trim();
    first.is_empty() || first.starts_with('-') || first.eq_ignore_ascii_case("NoDevFiles")
}

/// Whether a GPU in MIG mode is named: the name stands for its MIG devices, and no program
/// can use more than the first of them by it.
pub fn names_gpu_in_mig_mode(entries: &[Selector], inventory: &Inventory) -> bool {
    let mut gpus = entries.iter().filter(|entry| may_be_gpu(entry));
    gpus.any(|entry| {
        let devices = matching(entry, inventory, &|| true).unwrap_or_default();
        devices.iter().any(|device| device.slot.is_some())
    })
}

/// What CUDA_VISIBLE_DEVICES names on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedDevices {
    /// In the order of the entries.
    pub devices: Vec<Device>,
    /// Why it is not certain which GPU the entry behind these means; none: it is certain.
    pub unclear: Option<String>,
    /// An entry names nothing that this process can open, or can see.
    pub is_closed: bool,
}

/// The devices of `inventory` that `entries` name, in the order of the entries, cut at
/// the first that names nothing, as CUDA does. A GPU in MIG mode, by index or UUID, stands for its MIG
/// devices. An index at a GPU that does not answer, or behind one, names nothing for certain,
/// unless `is_counted` says that CUDA counts those GPUs in this order, too.
pub fn resolve(
    entries: &[Selector],
    inventory: &Inventory,
    is_counted: &dyn Fn() -> bool,
) -> NamedDevices {
    let mut named = NamedDevices::default();
    for entry in entries {
        let found = match matching(entry, inventory, is_counted) {
            Ok(found) => found,
            Err(unclear) => {
                named.unclear = Some(unclear);
                break;
            }
        };
        if found.is_empty() {
            // A UUID that nothing answers to may be that of a silent GPU; the others of the
            // list are granted all the same.
            let may_be_silent = !matches!(entry, Selector::Index(_));
            if may_be_silent && !inventory.silent.is_empty() {
                continue;
            }
            named.is_closed = true;
            break;
        }
        named.is_closed |= found.iter().all(|device| !device.usable);
        for device in found {
            if !named.devices.iter().any(|known| known.uuid == device.uuid) {
                named.devices.push(device.clone());
            }
        }
    }
    named
}

/// The devices of the GPU with this CUDA index, or why it is not certain which one that is.
fn by_index<'a>(
    index: u32,
    inventory: &'a Inventory,
    is_counted: &dyn Fn() -> bool,
) -> Result<Vec<&'a Device>, String> {
    let openable: Vec<&Gpu> = inventory.gpus.iter().filter(|gpu| gpu.usable).collect();
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    let before = openable.iter().take(at.saturating_add(1));
    let mut silent = before.filter_map(|gpu| inventory.silent_gpu(gpu.index));
    let named = openable.get(at);
    if let Some(silent) = named.and_then(|gpu| inventory.silent_gpu(gpu.index)) {
        return Err(format!(
            "index {index} is a GPU that does not answer: {silent}"
        ));
    }
    match silent.next() {
        Some(silent) if !is_counted() => Err(format!(
            "it is not certain which GPU has index {index}, since one before it does not answer: {silent}"
        )),
        _ => Ok(named.map_or_else(Vec::new, |gpu| of_gpu(gpu, inventory))),
    }
}

/// The devices that an entry names, or why it is not certain which GPU is meant.
fn matching<'a>(
    entry: &Selector,
    inventory: &'a Inventory,
    is_counted: &dyn Fn() -> bool,
) -> Result<Vec<&'a Device>, String> {
    match entry {
        Selector::Index(index) => by_index(*index, inventory, is_counted),
        Selector::OldMig { gpu, gi, ci } => {
            let parts =
                |d: &Device| d.gpu_uuid.as_ref() == Some(gpu) && d.instance == Some((*gi, *ci));
            let devices = inventory.devices.iter();
            let named = devices.filter(|d| entry.names(&d.uuid) || parts(d));
            Ok(named.collect())
        }
        Selector::Full(_) | Selector::Prefix(_) => Ok(by_name(entry, inventory)),
    }
}

fn of_gpu<'a>(gpu: &Gpu, inventory: &'a Inventory) -> Vec<&'a Device> {
    let of_gpu = inventory.devices.iter().filter(|d| d.gpu == gpu.index);
    of_gpu.collect()
}

/// By a UUID or its beginning, of a GPU or of a MIG device. Where two fit, CUDA takes neither.
fn by_name<'a>(entry: &Selector, inventory: &'a Inventory) -> Vec<&'a Device> {
    let is_named = |gpu: &&Gpu| gpu.uuid.as_ref().is_some_and(|uuid| entry.names(uuid));
    let gpus: Vec<&Gpu> = inventory.gpus.iter().filter(is_named).collect();
    let devices = inventory.devices.iter();
    let devices: Vec<&Device> = devices.filter(|d| entry.names(&d.uuid)).collect();
    match (gpus.as_slice(), devices.len()) {
        ([gpu], _) => of_gpu(gpu, inventory),
        // Of a whole UUID that is listed twice the first place stands.
        ([gpu, ..], _) if matches!(entry, Selector::Full(_)) => of_gpu(gpu, inventory),
        ([], 1) => devices,
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "visible_properties.rs"]
mod properties;

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
