//! Which processes are on a device and how much of its memory is in use.
//! Simulated programs come from the registry, others from `faults.toml`.

use crate::abi::{Memory, MemoryV2};
use crate::codes::{NO_PERMISSION, NOT_SUPPORTED, Reply, UNKNOWN};
use crate::handle::Device;
use crate::session::Session;
use sim_node::{Gpu, Kind, MIB, MigDevice, Record};

/// What stands for "not told" and "not MIG".
const NO_ID: u32 = u32::MAX;
const NO_MEMORY: u64 = u64::MAX;
/// Invented processes have pids that no machine of today gives out soon.
const INVENTED: u32 = 3_000_000;

/// A process on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) memory: u64,
    pub(crate) gi: u32,
    pub(crate) ci: u32,
}

/// Memory of a device in bytes.
pub(crate) struct Figures {
    total: u64,
    reserved: u64,
    used: u64,
}

impl Session {
    /// The processes of a MIG device; of a GPU in MIG mode those of all its MIG devices,
    /// for who may monitor.
    pub(crate) fn processes(&mut self, device: Device, kind: Kind) -> Reply<Vec<Process>> {
        self.may_monitor(device)?;
        let mut processes = Vec::new();
        for (uuid, gi, ci) in self.places(device)? {
            if kind == Kind::Compute {
                let running = self.running_on(&uuid)?;
                let blind = self.faults.foreign_pidns_blind;
                let listed = running.iter().filter(|record| !(record.foreign && blind));
                let nameless = self.faults.foreign_pidns_nameless;
                processes.extend(listed.map(|record| Process {
                    pid: u32::from(!(record.foreign && nameless)) * record.pid,
                    memory: record.memory,
                    gi,
                    ci,
                }));
            }
            let fakes = self.faults.process.iter();
            let fakes = fakes.filter(|fake| fake.device == uuid && fake.kind == kind);
            processes.extend(fakes.map(|fake| Process {
                pid: fake.pid,
                memory: fake.memory_mib.map_or(NO_MEMORY, |mib| mib * MIB),
                gi,
                ci,
            }));
        }
        if kind == Kind::Compute && self.faults.processes_grow > 0 {
            self.grown = self.grown.saturating_add(self.faults.processes_grow);
            processes.extend((0..self.grown).map(|n| Process {
                pid: INVENTED + n,
                memory: MIB,
                gi: NO_ID,
                ci: NO_ID,
            }));
        }
        Ok(processes)
    }

    /// UUID, GI and CI of the places whose processes a device shows.
    fn places(&self, device: Device) -> Reply<Vec<(String, u32, u32)>> {
        let gpu = self.parent(device)?;
        if let Ok(own) = self.mig(device) {
            let siblings = self.faults.siblings_listed;
            let shown = gpu
                .devices
                .iter()
                .filter(|mig| mig.uuid == own.uuid || siblings && mig.gi == own.gi);
            return Ok(shown
                .map(|mig| (mig.uuid.clone(), mig.gi, mig.ci))
                .collect());
        }
        if !gpu.in_mig_mode() {
            return Ok(vec![(gpu.uuid.clone(), NO_ID, NO_ID)]);
        }
        let devices = gpu.devices.iter();
        Ok(devices
            .map(|mig| (mig.uuid.clone(), mig.gi, mig.ci))
            .collect())
    }

    fn may_monitor(&self, device: Device) -> Reply<()> {
        let parent = matches!(device, Device::Gpu(_)) && self.parent(device)?.in_mig_mode();
        let closed = self.faults.monitor_is_for_root && self.uid != 0;
        if parent && closed {
            Err(NO_PERMISSION)
        } else {
            Ok(())
        }
    }

    /// Memory of a device; all compute instances of a GPU instance share it.
    pub(crate) fn memory(&self, device: Device) -> Reply<Figures> {
        self.may_monitor(device)?;
        let gpu = self.parent(device)?;
        if gpu.integrated {
            return Err(NOT_SUPPORTED);
        }
        let (total, reserved) = self
            .mig(device)
            .map_or((gpu.memory, gpu.reserved), |mig| (mig.memory, 0));
        let used = match self.mig(device) {
            Ok(mig) => self.idle(&mig.uuid, mig.idle) + self.in_use(gpu, mig)?,
            Err(_) if gpu.in_mig_mode() => {
                let (mut used, mut last) = (0, None);
                // Devices are in the order of their GPU instances.
                for mig in &gpu.devices {
                    if last.replace(mig.gi) != Some(mig.gi) {
                        used += self.idle(&mig.uuid, mig.idle) + self.in_use(gpu, mig)?;
                    }
                }
                used
            }
            Err(_) => self.idle(&gpu.uuid, gpu.idle) + self.taken(&gpu.uuid)?,
        };
        // A process in a cgroup with a limit sees that one's part alone.
        let limited = self.folder.limited_cgroup(&gpu.uuid, std::process::id());
        if let Ok(Some((cgroup, most))) = limited {
            let used = self.folder.memory_used_in(&gpu.uuid, &cgroup);
            return Ok(Figures {
                total: most,
                reserved: 0,
                used: used.map_err(|_| UNKNOWN)?,
            });
        }
        Ok(Figures {
            total,
            reserved,
            used: used.min(total.saturating_sub(reserved)),
        })
    }

    fn idle(&self, uuid: &str, usual: u64) -> u64 {
        let fault = self.faults.memory.iter().find(|fault| fault.device == uuid);
        fault
            .and_then(|fault| fault.used_mib)
            .map_or(usual, |mib| mib * MIB)
    }

    /// What programs take in the GPU instance of this MIG device.
    fn in_use(&self, gpu: &Gpu, of: &MigDevice) -> Reply<u64> {
        gpu.devices
            .iter()
            .filter(|mig| mig.gi == of.gi)
            .map(|mig| self.taken(&mig.uuid))
            .sum()
    }

    /// The programs of a device that NVML shows.
    fn running_on(&self, uuid: &str) -> Reply<Vec<Record>> {
        if self.faults.unseen {
            return Ok(Vec::new());
        }
        self.folder.running_on(uuid).map_err(|_| UNKNOWN)
    }

    fn taken(&self, uuid: &str) -> Reply<u64> {
        let running = self.running_on(uuid)?;
        let fakes = self.faults.process.iter();
        let fakes = fakes.filter(|fake| fake.device == uuid);
        let fakes = fakes.filter_map(|fake| fake.memory_mib);
        Ok(running.iter().map(|record| record.memory).sum::<u64>() + fakes.sum::<u64>() * MIB)
    }
}

impl Figures {
    /// For `nvmlDeviceGetMemoryInfo`: what is reserved counts as used.
    pub(crate) fn v1(&self) -> Memory {
        let used = self.used + self.reserved;
        Memory {
            total: self.total,
            free: self.total.saturating_sub(used),
            used,
        }
    }

    /// For `nvmlDeviceGetMemoryInfo_v2`.
    pub(crate) fn v2(&self, version: u32) -> MemoryV2 {
        let Self {
            total,
            reserved,
            used,
        } = *self;
        MemoryV2 {
            version,
            total,
            reserved,
            free: total.saturating_sub(used + reserved),
            used,
        }
    }
}
