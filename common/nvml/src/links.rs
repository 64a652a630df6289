//! How a GPU is connected with others: NVLinks (nvmlDeviceGetNvLinkState, the PCI place and the kind of
//! what is behind each) and the way over PCIe (nvmlDeviceGetTopologyCommonAncestor). What is not told is
//! as if there were none.

use super::fault::Fault;
use super::raw;
use super::session::Session;
use getgpu_model::{GpuLinks, PairLinks};

/// NVML_NVLINK_MAX_LINKS (nvml.h 13.5).
const MOST_LINKS: u32 = 36;

/// The connections of one GPU with these, by NVML index.
pub(super) fn links(
    session: &mut Session<'_>,
    gpu: u32,
    others: &[u32],
) -> Result<GpuLinks, Fault> {
    let nvml = session.nvml;
    let own = session.handle(gpu, None)?;
    let mut pairs = Vec::new();
    for other in others {
        let handle = session.handle(*other, None).ok();
        let handle = handle.filter(|_| *other != gpu);
        let place = handle.clone();
        let place = place.and_then(|other| raw::pci_place(nvml, &other).ok());
        let level = handle.and_then(|other| raw::topology_level(nvml, &own, &other).ok());
        pairs.push((place, PairLinks { direct: 0, level }));
    }
    let mut switched = 0;
    for link in 0..MOST_LINKS {
        match raw::is_link_active(nvml, &own, link) {
            Ok(true) => {}
            Ok(false) => continue,
            // No NVLinks, or no more of them.
            Err(_) => break,
        }
        let Ok(remote) = raw::link_remote_place(nvml, &own, link) else {
            continue;
        };
        match pairs.iter_mut().find(|(place, _)| *place == Some(remote)) {
            Some((_, pair)) => pair.direct += 1,
            // A GPU that is not asked for, or the processor, connects none of them.
            None => switched += u32::from(raw::leads_to_switch(nvml, &own, link)),
        }
    }
    let others = pairs.into_iter().map(|(_, pair)| pair).collect();
    Ok(GpuLinks { switched, others })
}
