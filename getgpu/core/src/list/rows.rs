//! One row of the listing: a device with its state, the first that applies, and who is
//! behind it. Pure but for names of users and starts of processes, from /proc.

use clap::ValueEnum;
use getgpu_choose::{IndexOrder, Indexed, Outside};
use getgpu_linux::{procfs, users};
use getgpu_lock::{Holder, Holdings, holders};
use getgpu_model::{
    Activity, Ailment, ComputeMode, Device, Gauge, Inventory, Silent, UNITS, Usage,
};
use serde::{Deserialize, Serialize};

use super::watched::WatchedDevice;
use crate::options::Only;

/// What a device is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    /// All of it is leased.
    Leased,
    /// Parts of it are leased.
    Shared,
    /// Held for a program, until that exits.
    Reserved,
    /// Used by programs that never asked.
    Busy,
    /// NVML will not tell.
    #[default]
    Unknown,
    /// CUDA cannot or should not start there.
    Unhealthy,
    /// A call is just taking it, or keeps others from taking it.
    Claimed,
    /// Free, and kept for a waiter that wants several, or all of one.
    Kept,
    /// Free, if it is in the pool.
    Free,
}

/// A process that NVML shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessRow {
    pub pid: u32,
    pub user: Option<String>,
    pub name: Option<String>,
    /// Device memory in bytes.
    pub memory: Option<u64>,
    /// When it started, in Unix seconds; for the table only.
    #[serde(skip)]
    pub since: Option<u64>,
}

/// A device in the listing; the names are those of the JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// The host, in a listing of several.
    #[serde(skip)]
    pub host: Option<String>,
    /// What `getgpu INDEX` calls it.
    pub index: Option<usize>,
    pub uuid: String,
    /// NVML index of its GPU.
    pub gpu: u32,
    pub gpu_uuid: Option<String>,
    pub gpu_name: Option<String>,
    pub pci_bus_id: Option<String>,
    pub mig: bool,
    pub gpu_instance: Option<u32>,
    pub compute_instance: Option<u32>,
    pub mig_index: Option<u32>,
    pub profile: Option<String>,
    /// In bytes.
    pub memory_total: Option<u64>,
    /// In bytes.
    pub memory_used: Option<u64>,
    pub allowed: bool,
    pub usable: bool,
    pub excluded: bool,
    pub state: DeviceState,
    /// The part of it that is leased or reserved, from 0 to 1.
    pub share_used: f64,
    pub reason: Option<String>,
    pub compute_mode: Option<ComputeMode>,
    /// What is wrong with its GPU, or set on it.
    pub health: Vec<Ailment>,
    /// Held, although NVML shows that no process uses it now; null if it is not held, or
    /// NVML does not tell.
    pub empty: Option<bool>,
    /// Since when, in Unix seconds, where a site that sets `max_idle` has it watched.
    pub empty_since: Option<u64>,
    /// Since when, in Unix seconds, it is held and its programs compute nothing, where it is watched so.
    pub idle_since: Option<u64>,
    pub holders: Vec<Holder>,
    pub processes: Vec<ProcessRow>,
    /// How many leases ended there at once while others lasted, as a monitor saw it.
    #[serde(skip)]
    pub short_leases: Option<usize>,
    /// Why it is not in the pool.
    #[serde(skip)]
    pub outside: Option<Outside>,
    /// The numbers of its GPU that were asked for.
    #[serde(skip)]
    pub gauges: Vec<(Gauge, Option<u32>)>,
}

impl Row {
    /// Puts together what NVML and the lock say of a device, whatever the site says of it.
    pub fn new(device: &Device, inventory: &Inventory, usage: Usage, held: Holdings) -> Self {
        let processes: Vec<ProcessRow> = usage.processes.iter().map(process).collect();
        Self {
            uuid: device.uuid.to_string(),
            gpu_uuid: device.gpu_uuid.as_ref().map(ToString::to_string),
            mig: device.slot.is_some(),
            gpu_instance: device.instance.map(|(gi, _)| gi),
            compute_instance: device.instance.map(|(_, ci)| ci),
            mig_index: device.slot,
            profile: device.profile.clone(),
            memory_total: usage.memory.map(|m| m.total),
            memory_used: usage.memory.map(|m| m.used),
            usable: device.usable,
            state: state(&held, usage.activity),
            empty: empty(&held, usage.activity),
            share_used: held.used as f64 / UNITS as f64,
            reason: usage
                .reason
                .or_else(|| Ailment::texts(&usage.health.ailments)),
            compute_mode: usage.health.compute_mode,
            health: usage.health.ailments,
            holders: named(held.holders, &processes),
            processes,
            ..Self::on_gpu(device.gpu, inventory)
        }
    }

    /// A GPU, or a MIG device, that does not answer: a row of its own, without a UUID unless
    /// NVML told that of the GPU.
    pub fn of_silent(silent: &Silent, inventory: &Inventory, order: &IndexOrder<'_>) -> Self {
        let gpu = inventory.gpu(silent.gpu);
        let gpu_uuid = gpu.and_then(|gpu| gpu.uuid.as_ref());
        let uuid = gpu_uuid.filter(|_| silent.slot.is_none());
        let mut places = order.places.iter();
        Self {
            index: places.position(|place| *place == Indexed::Silent(silent)),
            uuid: uuid.map(ToString::to_string).unwrap_or_default(),
            gpu_uuid: gpu_uuid.map(ToString::to_string),
            mig: silent.slot.is_some(),
            mig_index: silent.slot,
            usable: gpu.is_none_or(|gpu| gpu.usable),
            reason: Some(silent.reason.clone()),
            outside: Some(Outside::Silent),
            ..Self::on_gpu(silent.gpu, inventory)
        }
    }

    /// What is the same for all that is on one GPU.
    fn on_gpu(index: u32, inventory: &Inventory) -> Self {
        let gpu = inventory.gpu(index);
        Self {
            gpu: index,
            gpu_name: gpu.and_then(|gpu| gpu.name.clone()),
            pci_bus_id: gpu.and_then(|gpu| gpu.pci_bus_id.clone()),
            allowed: true,
            ..Self::default()
        }
    }

    /// Adds what a monitor knew of it a moment ago, as far as that can be so now.
    pub fn add(&mut self, watched: WatchedDevice) {
        // Another program may have it by now. Both times are in seconds, rounded each in its way.
        let began = self.holders.iter().filter_map(|holder| holder.since).min();
        let is_its = |since: &u64| began.is_none_or(|began| began <= since + 2);
        let since =
            |since: Option<u64>, empty| since.filter(|_| self.empty == Some(empty)).filter(is_its);
        let (empty, idle) = (
            since(watched.empty_since, true),
            since(watched.idle_since, false),
        );
        (self.empty_since, self.idle_since) = (empty, idle);
        self.short_leases = watched.short_leases;
    }

    /// The first process of a user who holds nothing of a device that is held.
    pub fn guest(&self) -> Option<&ProcessRow> {
        let known = self.holders.iter().all(|holder| holder.user.is_some());
        self.processes.iter().find(|process| {
            known
                && process.user.is_some()
                && !self
                    .holders
                    .iter()
                    .any(|holder| holder.user == process.user)
        })
    }

    /// A number of the GPU, if it was asked for and NVML tells it.
    pub fn gauge(&self, gauge: Gauge) -> Option<u32> {
        let found = self.gauges.iter().find(|(known, _)| *known == gauge);
        found.and_then(|(_, number)| *number)
    }

    /// Whether a listing of only some devices shows it.
    pub fn is_shown(&self, only: &Only) -> bool {
        match only {
            Only::Free => self.state == DeviceState::Free && self.is_in_pool(),
            Only::User { uid, name } => self.is_of(*uid, name),
        }
    }

    /// Whether it stands for what does not answer, and is no device that has a name.
    pub fn is_silent(&self) -> bool {
        self.outside == Some(Outside::Silent)
    }

    /// Whether a call may choose it.
    pub const fn is_in_pool(&self) -> bool {
        self.outside.is_none()
    }

    fn is_of(&self, uid: u32, name: &str) -> bool {
        let holds =
            |holder: &Holder| holder.uid == Some(uid) || holder.user.as_deref() == Some(name);
        self.holders.iter().any(holds)
            || self
                .processes
                .iter()
                .any(|process| process.user.as_deref() == Some(name))
    }
}

/// Whether a device that is held is unused.
fn empty(held: &Holdings, activity: Activity) -> Option<bool> {
    match activity {
        _ if held.used == 0 => None,
        Activity::Idle => Some(true),
        Activity::Busy => Some(false),
        Activity::Unknown | Activity::Unhealthy => None,
    }
}

fn state(held: &Holdings, activity: Activity) -> DeviceState {
    if held.whole {
        return DeviceState::Leased;
    }
    if held.leased > 0 {
        return DeviceState::Shared;
    }
    if held.reserved > 0 {
        return DeviceState::Reserved;
    }
    match activity {
        Activity::Busy => DeviceState::Busy,
        Activity::Unknown => DeviceState::Unknown,
        Activity::Unhealthy => DeviceState::Unhealthy,
        Activity::Idle if held.claimed() => DeviceState::Claimed,
        Activity::Idle if held.kept => DeviceState::Kept,
        Activity::Idle => DeviceState::Free,
    }
}

/// The holders; if of one lease only the user is known, it is shown with the process that NVML
/// shows on the device and that is no other holder.
fn named(mut holders: Vec<Holder>, processes: &[ProcessRow]) -> Vec<Holder> {
    let known: Vec<i32> = holders.iter().filter_map(|holder| holder.pid).collect();
    let mut nameless = holders
        .iter_mut()
        .filter(|holder| holder.kind == "lease" && holder.pid.is_none());
    let is_other =
        |process: &&ProcessRow| process.user.is_some() && !known.contains(&(process.pid as i32));
    if let (Some(holder), None) = (nameless.next(), nameless.next())
        && let Some(process) = processes.iter().find(is_other)
    {
        holder.pid = i32::try_from(process.pid).ok();
        holder.program.clone_from(&process.name);
    }
    holders
}

fn process(process: &getgpu_model::GpuProcess) -> ProcessRow {
    ProcessRow {
        pid: process.pid,
        user: procfs::euid(process.pid as i32).map(users::name),
        name: process.name.clone(),
        memory: process.memory,
        since: procfs::Stat::read(process.pid as i32)
            .as_ref()
            .and_then(holders::since),
    }
}
