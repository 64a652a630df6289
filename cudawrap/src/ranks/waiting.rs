//! A rank does not wait on its own: the others wait for it (in MPI_Init, for example) and
//! hold their devices meanwhile, so that no wait would end. What all ranks need is
//! reserved for them before they start, and this says by which line.

use getgpu_choose::Granted;
use getgpu_linux::program_name;
use getgpu_model::{Device, Failure, Share, UNITS};
use getgpu_settings::{Settings, Wait};

use super::launchers;
use super::rank::Rank;
use crate::call::{CudawrapCall, Origin};
use crate::causes::{CudawrapUsage, RanksFault};

/// The settings of a process that may be a rank with others beside it: then no `wait` of
/// files and variables applies. One that is typed does, unless [`check`] refuses it: in a place
/// of their own, ranks wait for what is about to end there, as after a restart.
pub fn settings(settings: &Settings, rank: Option<&Rank>, wait_is_typed: bool) -> Settings {
    let mut settings = settings.clone();
    if !wait_is_typed && rank.is_some_and(Rank::has_siblings) {
        settings.wait = Wait::NO;
    }
    settings
}

/// Refuses a typed `--wait` of ranks that are more than `devices`, those that they divide,
/// can serve. What a grant has is theirs; what they divide without one could be any program's.
///
/// # Errors
///
/// The line that reserves for all of them.
pub fn check(
    call: &CudawrapCall<'_>,
    rank: &Rank,
    request: &Granted,
    devices: &[&Device],
) -> Result<(), Failure> {
    if !call.is_typed("wait") || !rank.has_siblings() {
        return Ok(());
    }
    let ranks = rank.size.unwrap_or(rank.local + 1);
    let (served, why) = if request.grant.exists() {
        let served = served(rank, devices, call.settings.share, request.count);
        (served, RanksFault::TooManyRanks)
    } else {
        (0, RanksFault::EachHolds)
    };
    if ranks <= served {
        return Ok(());
    }
    let remedy = hint(call, rank, devices.len(), request);
    Err(CudawrapUsage::RanksWait { ranks, why, remedy }.into())
}

/// How many programs with `count` devices each these serve at a time, with those that the
/// launcher gave to other ranks: without a share, ranks divide them evenly, however many they are.
fn served(rank: &Rank, devices: &[&Device], share: Option<Share>, count: usize) -> usize {
    let parts = match share {
        None if devices.is_empty() || devices.len() < count => 0,
        None => return usize::MAX,
        Some(share) => {
            let of = |device: &&Device| {
                let units = share.units(device.memory);
                units.map_or(0, |units| UNITS / units.max(1))
            };
            usize::try_from(devices.iter().map(of).sum::<i64>()).unwrap_or(0)
        }
    };
    // Where the launcher has divided the devices already, the other ranks have as many.
    let all = rank.devices.unwrap_or(0).max(devices.len());
    parts * all / devices.len().max(1) / count.max(1)
}

/// What a person can do where this process is one of several ranks and finds no device;
/// none: it is not. `pool`: how many devices there are.
pub fn hint_for_ranks(call: &CudawrapCall<'_>, pool: usize, request: &Granted) -> Option<String> {
    let rank = call.rank.filter(|rank| rank.has_siblings())?;
    Some(hint(call, rank, pool, request))
}

/// What a person can do for ranks of which one has no device. `pool`: how many devices there
/// are.
fn hint(call: &CudawrapCall<'_>, rank: &Rank, pool: usize, request: &Granted) -> String {
    if request.grant.exists() {
        return if call.settings.share.is_some() {
            "getgpu --list shows who holds what; without --share the ranks divide the devices evenly".into()
        } else {
            "getgpu --list shows who holds what".into()
        };
    }
    let program = match call.origin {
        Origin::Link => program_name(call.lessee.program),
        Origin::OwnName(_) => {
            let program = call.lessee.program.display();
            format!("cudawrap{} -- {program}", typed_amount(call))
        }
    };
    let parts = match call.settings.share {
        Some(Share::Fraction { of, parts }) => (parts / of.max(1)).max(1),
        _ => 1,
    };
    let start = launchers::command();
    let (ranks, devices) = match rank.size {
        Some(size) => {
            let each = call.settings.count as usize;
            let devices = size
                .saturating_mul(each)
                .div_ceil(usize::try_from(parts).unwrap_or(1));
            (size.to_string(), devices.min(pool.max(1)).to_string())
        }
        None => ("N".into(), "N".into()),
    };
    format!(
        "reserve for all ranks before they start: CUDA_VISIBLE_DEVICES=$(getgpu -n {devices} --wait) {start} {ranks} {program}"
    )
}

/// The options by which a rank asks for more or less than one device, as they are typed.
fn typed_amount(call: &CudawrapCall<'_>) -> String {
    let count = Some(call.settings.count).filter(|_| call.is_typed("count"));
    let share = call.settings.share.filter(|_| call.is_typed("share"));
    let count = count
        .map(|count| format!(" -n {count}"))
        .unwrap_or_default();
    let share = share.map(|share| format!(" --share {share}"));
    count + &share.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use getgpu_model::Uuid;

    #[test]
    fn devices_serve_as_many_ranks_as_have_room() {
        let uuid = Uuid::parse("GPU-00000000-0000-0000-0000-000000000000").unwrap();
        let device = Device::by_uuid(uuid);
        let half = Some(Share::Fraction { of: 1, parts: 2 });
        #[rustfmt::skip]
        let cases = [
            ("no device", 0, None, None, 1, 0),
            ("evenly", 2, None, None, 1, usize::MAX),
            ("halves", 2, None, half, 1, 4),
            ("two devices for each", 4, None, None, 2, usize::MAX),
            ("fewer than each wants", 1, None, None, 2, 0),
            ("halves of two devices for each", 4, None, half, 2, 4),
            ("Slurm gave each of four its own", 1, Some(4), half, 1, 8),
            ("and two to each", 2, Some(8), None, 2, usize::MAX),
            ("Slurm gave all to each", 4, Some(4), half, 1, 8),
        ];
        for (what, devices, all, share, count, expected) in cases {
            let rank = Rank {
                local: 0,
                size: Some(4),
                devices: all,
                first: true,
            };
            let devices = vec![&device; devices];
            let found = served(&rank, &devices, share, count);
            assert_eq!(found, expected, "{what}");
        }
    }
}
