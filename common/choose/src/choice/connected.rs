//! Several whole GPUs for one program are those that are connected best with each other, where that is
//! left open: more than are wanted may be chosen from, and no policy says which.

use super::device_claim;
use super::policy::Candidate;
use crate::request::Owned;
use crate::take::Part;
use getgpu_ask::Node;
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure, LinkMap};

/// How the GPUs of the pool are connected, if that is to decide. Asked anew for each number of
/// devices that a range tries.
pub(super) fn links(
    node: &mut Node<'_>,
    request: &Owned,
    pool: &[&Device],
) -> Result<Option<LinkMap>, Failure> {
    let is_open = request.count > 1
        && pool.len() > request.count
        && request.policy.is_none()
        && request.filter.share.is_none()
        && pool.iter().all(|device| device.slot.is_none());
    if !is_open {
        return Ok(None);
    }
    let gpus: Vec<u32> = pool.iter().map(|device| device.gpu).collect();
    node.nvml()?.links(&gpus).map(Some)
}

/// Leaves only the set that is connected best with what was picked, of those that have room on the
/// lock; the order decides between sets that are alike. All stay where too few have room.
pub(super) fn retain_best(
    request: &Owned,
    probe: &OfdLock,
    links: &LinkMap,
    picked: &[(usize, Part)],
    left: &mut Vec<Candidate<'_>>,
) -> Result<(), Failure> {
    let mut free = Vec::new();
    for candidate in left.iter() {
        if device_claim::units(probe, request, candidate.device)?.is_ok() {
            free.push(candidate.device.gpu);
        }
    }
    let first: Vec<u32> = picked.iter().map(|(_, part)| part.device.gpu).collect();
    let count = request.count;
    if first.len() + free.len() >= count {
        let best = links.best(&first, &free, count);
        left.retain(|candidate| best.contains(&candidate.device.gpu));
    }
    Ok(())
}
