//! The line of the system's log for a reservation that another process ends, since a holder that is
//! killed writes none. Whose it was, and how much for how long, is what the kernel shows of the holder;
//! of its command line, which its user decides, it has names.

use std::time::Duration;

use getgpu_choose::{Record, syslog};
use getgpu_linux::{procfs, sys};
use getgpu_lock::{HOLDER_NAME, HolderProcess, LockFile, ownership_proof};
use getgpu_model::{Job, Uuid, share};

/// More letters of a name do not fit into a line.
const NAME: usize = 64;

/// The line, to be made before the holder is asked to end. `None` if the end of this reservation is not
/// logged, or if the holder holds nothing any more.
pub fn line(lock_file: &LockFile, holder: &HolderProcess) -> Option<String> {
    let args = &holder.args;
    args.record.as_ref()?;
    let reserved = ownership_proof::reserved(lock_file, holder);
    let held = || reserved.iter().filter(|(_, units)| !units.is_empty());
    held().next()?;
    let devices: Vec<Uuid> = held().map(|(device, _)| device.clone()).collect();
    let caller = if holder.confirms(args.caller.pid) {
        name(&args.caller.name)
    } else {
        HOLDER_NAME.to_owned()
    };
    let tag = args.tag.as_ref().map(|tag| &tag.name);
    let tag = args.label.as_ref().or(tag).map(|tag| name(tag));
    let job = args.job.as_ref().map(|job| Job {
        id: name(&job.id),
        task: job.task,
    });
    let record = Record {
        by: "getgpu",
        pid: holder.pid,
        what: "released",
        devices: &devices,
        uid: procfs::euid(holder.pid)?,
        program: ("for", &caller),
        share: share::smallest(held().map(|(_, units)| units)),
        tag: tag.as_deref(),
        job: job.as_ref(),
        waited: Duration::ZERO,
    };
    Some(record.text())
}

/// Writes the line of a holder that has ended, or was asked to.
pub fn log(holder: &HolderProcess, line: &str) {
    let held = sys::boot_time().saturating_sub(sys::after_boot(holder.start));
    syslog::released("getgpu", holder.pid, line, held);
}

fn name(text: &str) -> String {
    text.chars().take(NAME).collect()
}
