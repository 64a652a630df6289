//! What it changes of a request that this process is a rank, once the devices that it may
//! choose from are known: its share of a device, the device that is nearest to it, and the
//! neighbours among which CPUs are divided.

use getgpu_choose::Granted;
use getgpu_model::{
    Device, Failure, Inventory, Nearest, Uuid, Visible,
    cpus::{CpuSet, mask},
    quantity,
};
use getgpu_settings::Shown;

use super::rank::Rank;
use super::{LAUNCHERS, distribution, launchers, waiting};
use crate::bind::CpuNeighbours;
use crate::call::{CudawrapCall, Origin};
use crate::causes::CudawrapUsage;

/// This process's rank, from its environment.
///
/// # Errors
///
/// A variable of a launcher has a value that is no rank.
pub(super) fn of_process() -> Result<Option<Rank>, Failure> {
    // Only where several launchers have set theirs is there something to find out.
    let set = LAUNCHERS
        .iter()
        .filter(|launcher| variable(launcher.local).is_some());
    let nearest = (set.count() > 1).then(launchers::nearest).flatten();
    super::find_rank(&variable, nearest.as_deref())
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

impl Rank {
    /// What is known of the programs among which CPUs are divided, before their devices are.
    pub fn cpu_neighbours(&self) -> CpuNeighbours {
        CpuNeighbours {
            programs: self.size,
            has_several_devices: self.devices.is_some_and(|devices| devices > 1),
            ..CpuNeighbours::default()
        }
    }
}

/// The share of a rank in a grant of one device, of which nothing has to be asked.
pub fn share_single_device(
    call: &CudawrapCall<'_>,
    granted: Granted,
    device: &Device,
) -> Result<Granted, Failure> {
    let Some(rank) = call.rank else {
        return Ok(granted);
    };
    if is_ours_alone(call, &granted, std::slice::from_ref(&device.uuid)) {
        return Ok(granted);
    }
    if call.settings.visible == Shown::All {
        check_shown(call, rank, 1)?;
    }
    let granted = if call.settings.share.is_none() {
        let share = distribution::share(rank, 1, granted.count);
        granted.divided(share)
    } else {
        granted
    };
    waiting::check(call, rank, &granted, &[device])?;
    Ok(granted)
}

/// Whether the devices were reserved for, or leased by, this rank alone.
fn is_ours_alone(call: &CudawrapCall<'_>, granted: &Granted, grant: &[Uuid]) -> bool {
    let owned = granted.owned_of(call.lock_file, grant, &[]).cover();
    owned.is_some_and(|cover| launchers::is_ours_alone(call.lock_file, &cover))
}

/// Puts a rank into its place among the devices `listed` that it may choose from.
///
/// # Errors
///
/// A wait was asked for that cannot end.
pub fn place(
    call: &CudawrapCall<'_>,
    granted: Granted,
    inventory: &Inventory,
    listed: &[Uuid],
    neighbours: &mut CpuNeighbours,
) -> Result<Granted, Failure> {
    let Some(rank) = call.rank else {
        return Ok(granted);
    };
    check_shown(call, rank, listed.len())?;
    let granted = place_rank(call, rank, granted.with_least(), listed, neighbours);
    if !granted.grant.exists() || !is_ours_alone(call, &granted, listed) {
        let devices = inventory.devices.iter();
        let devices: Vec<&Device> = devices.filter(|d| listed.contains(&d.uuid)).collect();
        waiting::check(call, rank, &granted, &devices)?;
    }
    Ok(granted)
}

/// A rank that finds LOCAL_RANK takes the device of that number, as programs under torchrun do:
/// behind its own device, which comes first, that is another rank's, and where all devices are shown
/// there has to be one for each rank.
fn check_shown(call: &CudawrapCall<'_>, rank: &Rank, devices: usize) -> Result<(), Failure> {
    let name = super::TORCHRUN.local;
    if !rank.has_siblings() || variable(name).is_none() {
        return Ok(());
    }
    let (shown, ranks) = (call.settings.visible, rank.size.unwrap_or(rank.local + 1));
    // The words after a link's name belong to its program.
    let (first, all) = match call.origin {
        Origin::Link => ("CUDAWRAP_VISIBLE=first", "CUDAWRAP_VISIBLE=all"),
        Origin::OwnName(_) => ("--visible first", "--visible all"),
    };
    match shown {
        Shown::First => Err(CudawrapUsage::RankTakesOther { first, name, all }.into()),
        Shown::All if ranks > devices => {
            let devices = quantity::counted(devices, "device");
            Err(CudawrapUsage::RanksLackDevices {
                all,
                name,
                ranks,
                devices,
            }
            .into())
        }
        Shown::One | Shown::All => Ok(()),
    }
}

/// Gives a rank its part of the devices that ranks divide, and says which is nearest.
fn place_rank(
    call: &CudawrapCall<'_>,
    rank: &Rank,
    granted: Granted,
    listed: &[Uuid],
    neighbours: &mut CpuNeighbours,
) -> Granted {
    let settings = call.settings;
    // Whose devices are divided: those of a grant, and all of the node only if the user
    // asks for that.
    let divided = (granted.grant.visible != Visible::Unset || settings.share_auto)
        && !is_ours_alone(call, &granted, listed);
    let count = granted.count;
    let granted = if divided && settings.share.is_none() {
        if let Some(line) = distribution::uneven(rank, listed.len(), count) {
            call.diag.remark(&line);
        }
        granted.divided(distribution::share(rank, listed.len(), count))
    } else {
        granted
    };
    let block = distribution::block(rank, listed.len()).filter(|_| divided);
    // Ranks that are fewer than the devices use the first ones.
    if let (Some(_), Some(size)) = (block, rank.size.filter(|size| *size < listed.len())) {
        let used = &listed[..size];
        neighbours.devices.retain(|(uuid, _)| used.contains(uuid));
    }
    neighbours.seat = block;
    // If each device gets the same number of ranks, each rank takes the nearest device with a free
    // place, and none stays empty. If not, ranks near the same device could fill it and leave another
    // one empty; then the block of each rank decides alone.
    let is_by_block = block.is_some() && distribution::is_uneven(rank, listed.len());
    granted.near(Nearest {
        cpus: if is_by_block {
            CpuSet::default()
        } else {
            mask::of_process(0).unwrap_or_default()
        },
        block,
    })
}
