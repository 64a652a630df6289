//! What `--check` asks NVML: whether the driver answers, which devices there are, and
//! which of them no user can ever get.

use std::collections::BTreeMap;
use std::rc::Rc;

use getgpu_ask::{MEMORY_DECIDES, Node};
use getgpu_choose::pool;
use getgpu_linux::procfs::namespaces;
use getgpu_lock::{LockFile, Span, occupancy};
use getgpu_model::{
    Activity, Ailment, Detail, Failure, Inventory, Uuid, WITHOUT_PREFIX, WITHOUT_PREFIX_HINT,
    quantity::counted, visible::has_several_models,
};
use getgpu_settings::Settings;

use super::findings::Findings;
use super::health::NodeHealth;
use getgpu_core::call::node;

/// How the reason of a device begins that is busy though no program is seen there.
const WITHOUT_PROGRAM: &str = "without a program";

const SICK_GPU: &str = "nvidia-smi -q shows more; a GPU that is lost needs a reset or a reboot";

/// Asks NVML for GPUs that do not answer, and for those that need a reset, a reboot or a repair.
///
/// # Errors
///
/// NVML does not list the node.
pub fn check_repair(settings: &Settings, findings: &mut Findings) -> Result<(), Failure> {
    let (inventory, health) = node(settings).ask(|node| {
        let inventory = node.inventory(Detail::Full)?;
        let health = NodeHealth::ask(node, &inventory)?;
        Ok((inventory, health))
    })?;
    let gpus = counted(inventory.gpus.len(), "GPU");
    findings.fine("driver", &gpus);
    for silent in &inventory.silent {
        findings.wrong("driver", &silent.to_string(), SICK_GPU);
    }
    health.report_ailments(findings, Ailment::needs_repair);
    Ok(())
}

/// Asks NVML for everything; none if it does not answer.
pub fn check(
    settings: &Settings,
    lock_file: Option<&LockFile>,
    findings: &mut Findings,
) -> Option<Rc<Inventory>> {
    let began = std::time::Instant::now();
    let scanned = node(settings).ask(|node| {
        let inventory = node.inventory(Detail::Full)?;
        let silent = silent(node, &inventory, lock_file)?;
        let health = NodeHealth::ask(node, &inventory)?;
        Ok((inventory, silent, health))
    });
    let (inventory, silent, health) = match scanned {
        Ok(found) => found,
        Err(failure) => {
            let remedy =
                "install the NVIDIA driver, then check that `nvidia-smi -L` lists the GPUs";
            findings.failed("driver", &failure, remedy);
            return None;
        }
    };
    let driver = inventory.driver.as_deref().unwrap_or("of unknown version");
    findings.fine(
        "driver",
        &format!(
            "{driver}, NVML answers in {} ms",
            began.elapsed().as_millis()
        ),
    );
    for problem in &inventory.troubles() {
        let remedy = if problem.contains(WITHOUT_PREFIX) {
            WITHOUT_PREFIX_HINT
        } else {
            SICK_GPU
        };
        findings.wrong("driver", problem, remedy);
    }
    report_silent(&silent, findings);
    health.report(findings);
    count_devices(&inventory, findings);
    if has_several_models(&inventory.gpus) {
        findings.fine("devices", "GPUs of different models: CUDA counts the fastest first, and getgpu by PCI address as nvidia-smi does, unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set");
    }
    empty_gpus(&inventory, findings);
    closed_devices(&inventory, findings);
    Some(inventory)
}

/// Devices whose use NVML does not tell, or that are busy without a program.
fn report_silent(silent: &BTreeMap<String, Vec<Uuid>>, findings: &mut Findings) {
    for (reason, devices) in silent {
        let others = match devices.len() {
            1 => String::new(),
            2 => " and 1 other".to_owned(),
            many => format!(" and {} others", many - 1),
        };
        let why = if reason.starts_with(WITHOUT_PROGRAM) {
            "busy"
        } else {
            "never free, since NVML does not report who uses it:"
        };
        let text = format!("{}{others}: {why} {reason}", devices[0]);
        let remedy = if reason.starts_with(WITHOUT_PROGRAM) {
            "if nothing runs there, set idle_memory in /etc/getgpu/config.toml above that figure; a process that no longer exists needs a reset of the GPU"
        } else if reason.contains(MEMORY_DECIDES) {
            "memory_decides = true in /etc/getgpu/config.toml, if nothing but programs that are seen uses their memory"
        } else {
            SICK_GPU
        };
        findings.wrong("devices", &text, remedy);
    }
}

/// How many devices there are, of each kind.
fn count_devices(inventory: &Inventory, findings: &mut Findings) {
    let mig_devices = inventory
        .devices
        .iter()
        .filter(|device| device.slot.is_some());
    let mig = mig_devices.count();
    let whole = inventory.devices.len() - mig;
    let text = format!(
        "{} and {} on {}",
        counted(mig, "MIG device"),
        counted(whole, "whole GPU"),
        counted(inventory.gpus.len(), "GPU")
    );
    if inventory.devices.is_empty() {
        findings.wrong(
            "devices",
            &text,
            no_mig_devices("nvidia-smi mig -cgi PROFILES -C"),
        );
    } else {
        findings.fine("devices", &text);
    }
}

/// What to do where GPUs in MIG mode have no devices.
fn no_mig_devices(make: &str) -> &str {
    if namespaces::in_container() {
        pool::CONTAINER_WITHOUT_MIG
    } else {
        make
    }
}

/// GPUs in MIG mode on which no MIG devices were made.
fn empty_gpus(inventory: &Inventory, findings: &mut Findings) {
    for gpu in inventory.gpus.iter().filter(|gpu| gpu.mig) {
        if !inventory
            .devices
            .iter()
            .any(|device| device.gpu == gpu.index)
        {
            let text = format!(
                "GPU {} is in MIG mode but has no MIG devices: nobody can use it",
                gpu.index
            );
            let make = format!("nvidia-smi mig -i {} -cgi PROFILES -C", gpu.index);
            findings.wrong("devices", &text, no_mig_devices(&make));
        }
    }
}

/// Devices whose files this process may not open.
fn closed_devices(inventory: &Inventory, findings: &mut Findings) {
    let closed_devices = inventory.devices.iter().filter(|device| !device.usable);
    let closed = closed_devices.count();
    if closed > 0 {
        let text = format!(
            "{closed} of {} cannot be opened by this process",
            counted(inventory.devices.len(), "device")
        );
        findings.wrong(
            "devices",
            &text,
            "check the permissions of /dev/nvidia* and /dev/nvidia-caps, and the device cgroup",
        );
    }
}

/// The devices whose use NVML does not tell, by what it says instead, and those that are busy
/// without a program. They can never be handed out.
fn silent(
    node: &mut Node<'_>,
    inventory: &Inventory,
    lock_file: Option<&LockFile>,
) -> Result<BTreeMap<String, Vec<Uuid>>, Failure> {
    let probe = lock_file.map(LockFile::open).transpose()?;
    let mut silent: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for device in inventory.devices.iter().filter(|device| device.usable) {
        // A program that holds a device through the lock uses it, and will exit.
        if probe.as_ref().is_some_and(|probe| {
            occupancy::seen(probe, Span::of(&device.uuid)).is_ok_and(|held| held.is_some())
        }) {
            continue;
        }
        let usage = node.nvml()?.usage(device, Detail::Uuid)?;
        let is_named = usage.processes.iter().any(|process| process.name.is_some());
        let reason = usage.reason.unwrap_or_default();
        let reason = match usage.activity {
            Activity::Busy if !is_named => format!("{WITHOUT_PROGRAM}: {reason}"),
            // With its memory told it is unknown only for as long as a program outside this
            // container uses it.
            Activity::Unknown if usage.memory.is_none() => reason,
            _ => continue,
        };
        silent.entry(reason).or_default().push(device.uuid.clone());
    }
    Ok(silent)
}
