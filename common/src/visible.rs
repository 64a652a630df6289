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
    pub fn parse(value: Option<&OsStr>) -> Self {
        let Some(value) = value else {
            return Self::Unset;
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let entries: Vec<Selector> = text.split(',').map_while(Selector::parse).collect();
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
        match self {
            Self::Entries(entries) => match entries.as_slice() {
                [Selector::Full(uuid)] => Some(uuid),
                _ => None,
            },
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
            .map(|entry| {
                if let Selector::Full(uuid) = entry {
                    Some(uuid.clone())
                } else {
                    None
                }
            })
            .collect()
    }
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
        let devices = matching(entry, inventory);
        devices.iter().any(|device| device.slot.is_some())
    })
}

/// The devices of `inventory` that `entries` name, in the order of the entries, cut at
/// the first that names nothing. A GPU in MIG mode, by index or UUID, stands for its MIG
/// devices.
pub fn resolve(entries: &[Selector], inventory: &Inventory) -> Vec<Device> {
    let mut named: Vec<Device> = Vec::new();
    for entry in entries {
        let found = matching(entry, inventory);
        if found.is_empty() {
            break;
        }
        for device in found {
            if !named.iter().any(|known| known.uuid == device.uuid) {
                named.push(device.clone());
            }
        }
    }
    named
}

fn matching<'a>(entry: &Selector, inventory: &'a Inventory) -> Vec<&'a Device> {
    let (gpus, devices) = (&inventory.gpus, &inventory.devices);
    match entry {
        Selector::Index(index) => {
            let mut openable = gpus.iter().filter(|gpu| gpu.usable);
            let gpu = openable.nth(*index as usize);
            gpu.map_or_else(Vec::new, |gpu| of_gpu(gpu, inventory))
        }
        Selector::Prefix(_) => by_prefix(entry, inventory),
        Selector::Full(uuid) => {
            let gpu = gpus.iter().find(|gpu| gpu.uuid.as_ref() == Some(uuid));
            gpu.map_or_else(
                || devices.iter().filter(|d| d.uuid == *uuid).collect(),
                |gpu| of_gpu(gpu, inventory),
            )
        }
        Selector::OldMig { gpu, gi, ci } => {
            let parts =
                |d: &Device| d.gpu_uuid.as_ref() == Some(gpu) && d.instance == Some((*gi, *ci));
            let named = devices.iter().filter(|d| entry.names(&d.uuid) || parts(d));
            named.collect()
        }
    }
}

fn of_gpu<'a>(gpu: &Gpu, inventory: &'a Inventory) -> Vec<&'a Device> {
    let of_gpu = inventory.devices.iter().filter(|d| d.gpu == gpu.index);
    of_gpu.collect()
}

/// Where two fit, CUDA takes neither.
fn by_prefix<'a>(entry: &Selector, inventory: &'a Inventory) -> Vec<&'a Device> {
    let mut gpus = inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.uuid.as_ref().is_some_and(|uuid| entry.names(uuid)));
    let mut devices = inventory
        .devices
        .iter()
        .filter(|d| d.uuid.is_mig() && entry.names(&d.uuid));
    match (gpus.next(), gpus.next(), devices.next(), devices.next()) {
        (Some(gpu), None, None, _) => of_gpu(gpu, inventory),
        (None, _, Some(device), None) => vec![device],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "visible_properties.rs"]
mod properties;

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
