//! Programs of other users on a device that the user of `cudawrap -- PROGRAM` named: nothing
//! was chosen, so NVML was not asked whether it is busy. A line says who is there; the device
//! is used all the same, since it was named.

use getgpu_linux::{procfs, users};
use getgpu_model::{Detail, Device, GpuProcess, Uuid};

use crate::call::CudawrapCall;
use crate::lease::helper;

/// Says who else runs on the devices. What cannot be read is no reason to fail.
pub fn tell(call: &CudawrapCall<'_>, devices: &[Device]) {
    if !call.speaks_for_all() {
        return;
    }
    let used = helper::node(call.settings).ask(|node| {
        let nvml = node.nvml()?;
        let used = devices
            .iter()
            .map(|device| nvml.usage_by_uuid(&device.uuid, Detail::Full));
        used.collect::<Result<Vec<_>, _>>()
    });
    for (device, usage) in devices.iter().zip(used.unwrap_or_default()) {
        let mut others = usage.processes.iter().filter(|one| is_of_others(one));
        if let Some(first) = others.next() {
            call.diag.warn(&line(&device.uuid, first, others.count()));
        }
    }
}

/// Whether it is a program of another user, or of one that /proc does not show.
fn is_of_others(process: &GpuProcess) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    let uid = i32::try_from(process.pid).ok().and_then(procfs::euid);
    !process.ignored && uid != Some(own)
}

/// `MIG-12..: also used by ben (pid 4711, python3), who did not start it through cudawrap`
fn line(uuid: &Uuid, process: &GpuProcess, more: usize) -> String {
    let pid = i32::try_from(process.pid).unwrap_or_default();
    let user = procfs::euid(pid).map_or_else(|| "another user".to_owned(), users::name);
    let program = procfs::comm(pid).map(|comm| procfs::program_name(pid, &comm));
    let program = program.or_else(|| process.name.clone());
    let program = program.map_or_else(String::new, |name| format!(", {name}"));
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{uuid}: also used by {user} (pid {pid}{program}){more}, without a lease")
}
