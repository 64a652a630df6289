//! The NVML calls about the connections of a GPU, in the form of C. What they mean together is in
//! `crate::links`.

use std::ffi::c_uint;

use nvml_wrapper::{Device, Nvml};

use super::{PCI_WORDS, check};
use crate::fault::{FUNCTION_NOT_FOUND, Fault};
use crate::processes::halves;

/// NVML_NVLINK_DEVICE_TYPE_SWITCH of nvmlIntNvLinkDeviceType_t.
const SWITCH: c_uint = 2;

/// The place of a GPU on the PCI bus: domain, bus and device of nvmlPciInfo_t.
pub(crate) type PciPlace = [u32; 3];

/// Where those lie in nvmlPciInfo_t, behind a text of 16 bytes.
fn place_in(info: &[u64; PCI_WORDS]) -> PciPlace {
    let ((domain, bus), (device, _)) = (halves(info[2]), halves(info[3]));
    [domain, bus, device]
}

/// nvmlDeviceGetPciInfo_v3, the numbers alone.
pub(crate) fn pci_place(nvml: &Nvml, gpu: &Device<'_>) -> Result<PciPlace, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetPciInfo_v3)?;
    let mut info = [0u64; PCI_WORDS];
    // SAFETY: nvmlPciInfo_t has 68 bytes, and numbers of four bytes among them.
    let code = unsafe { call(gpu.handle(), info.as_mut_ptr().cast()) };
    check("DeviceGetPciInfo_v3", code)?;
    Ok(place_in(&info))
}

/// nvmlDeviceGetNvLinkRemotePciInfo_v2: the GPU or switch at the other end of an NVLink.
pub(crate) fn link_remote_place(
    nvml: &Nvml,
    gpu: &Device<'_>,
    link: u32,
) -> Result<PciPlace, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2)?;
    let mut info = [0u64; PCI_WORDS];
    // SAFETY: as above.
    let code = unsafe { call(gpu.handle(), link, info.as_mut_ptr().cast()) };
    check("DeviceGetNvLinkRemotePciInfo_v2", code)?;
    Ok(place_in(&info))
}

/// nvmlDeviceGetNvLinkRemoteDeviceType: whether an NVSwitch is at the other end of an NVLink. True also
/// where the driver has no such call (before 470).
pub(crate) fn leads_to_switch(nvml: &Nvml, gpu: &Device<'_>, link: u32) -> bool {
    let Ok(call) = symbol!(nvml, nvmlDeviceGetNvLinkRemoteDeviceType) else {
        return true;
    };
    let mut kind: c_uint = 0;
    // SAFETY: a handle, a number, and a place for one enum, which is an unsigned int.
    let code = unsafe { call(gpu.handle(), link, &raw mut kind) };
    check("DeviceGetNvLinkRemoteDeviceType", code).is_ok() && kind == SWITCH
}

/// nvmlDeviceGetNvLinkState: whether a link of a GPU is active.
pub(crate) fn is_link_active(nvml: &Nvml, gpu: &Device<'_>, link: u32) -> Result<bool, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetNvLinkState)?;
    let mut state: c_uint = 0;
    // SAFETY: a handle, a number, and a place for one enum, which is an unsigned int.
    let code = unsafe { call(gpu.handle(), link, &raw mut state) };
    check("DeviceGetNvLinkState", code)?;
    Ok(state == 1)
}

/// nvmlDeviceGetTopologyCommonAncestor: how far two GPUs are from each other on the PCI bus.
pub(crate) fn topology_level(
    nvml: &Nvml,
    gpu: &Device<'_>,
    other: &Device<'_>,
) -> Result<u32, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetTopologyCommonAncestor)?;
    let mut level: c_uint = 0;
    // SAFETY: two handles of this session, and a place for one enum, which is an unsigned int.
    let code = unsafe { call(gpu.handle(), other.handle(), &raw mut level) };
    check("DeviceGetTopologyCommonAncestor", code)?;
    Ok(level)
}
