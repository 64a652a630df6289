//! Programs of other users on a device that the user of `cudawrap -- PROGRAM` named: nothing
//! was chosen, so NVML was not asked whether it is busy. A line says who is there; the device
//! is used all the same, since it was named.

use getgpu_linux::{procfs, users};
use getgpu_model::{Device, GpuProcess};

use crate::call::CudawrapCall;
use crate::lease::helper;

/// Says who else runs on the devices. What cannot be read is no reason to fail.
pub fn tell(call: &CudawrapCall<'_>, devices: &[Device]) {
    if !call.speaks_for_all() {
        return;
    }
    let uuids = devices.iter().map(|device| &device.uuid);
    let shown = helper::node(call.settings).processes_on(uuids.clone());
    for (uuid, processes) in uuids.zip(shown) {
        let mut others = processes.iter().filter(|one| is_of_others(one));
        if let Some(first) = others.next() {
            let who = users::name_process(first.pid as i32);
            let more = match others.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let line = format!("{uuid}: also used by {who}{more}, without a lease");
            call.diag.warn(&line);
        }
    }
}

/// Whether it is a program of another user, or of one that /proc does not show.
fn is_of_others(process: &GpuProcess) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    !process.ignored && procfs::euid(process.pid as i32) != Some(own)
}
