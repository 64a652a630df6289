//! The line of the system's log for a reservation that another process ends, since a holder that is
//! killed writes none. Whose it was, and how much for how long, is what the kernel shows of the holder;
//! of its command line, which its user decides, it has names.

use std::time::Duration;

use getgpu_choose::{Record, syslog};
use getgpu_linux::sys;
use getgpu_lock::{HolderProcess, LockFile, ownership_proof};
use getgpu_model::{Job, Uuid, share};

/// More letters of a name do not fit into a line.
const NAME: usize = 64;

/// A reservation as it was seen before its holder was asked to end.
pub struct EndedReservation {
    pid: i32,
    /// The holder's start after boot, in clock ticks.
    start: u64,
    uid: u32,
    devices: Vec<Uuid>,
    part: f64,
    caller: String,
    tag: Option<String>,
    job: Option<Job>,
}

impl EndedReservation {
    /// None if its end is not to be logged, or if the holder has nothing any more.
    pub fn of(lock_file: &LockFile, holder: &HolderProcess) -> Option<Self> {
        let args = &holder.args;
        args.record.as_ref()?;
        let reserved = ownership_proof::reserved(lock_file, holder);
        let held = || reserved.iter().filter(|(_, units)| !units.is_empty());
        let caller = if holder.confirms(args.caller.pid) {
            name(&args.caller.name)
        } else {
            getgpu_lock::HOLDER_NAME.to_owned()
        };
        let tag = args.tag.as_ref().map(|tag| &tag.name);
        held().next()?;
        Some(Self {
            pid: holder.pid,
            start: holder.start,
            uid: getgpu_linux::procfs::euid(holder.pid)?,
            devices: held().map(|(device, _)| device.clone()).collect(),
            part: share::smallest(held().map(|(_, units)| units)),
            caller,
            tag: args.label.as_ref().or(tag).map(|tag| name(tag)),
            job: args.job.as_ref().map(|job| Job {
                id: name(&job.id),
                task: job.task,
            }),
        })
    }

    /// Writes the line.
    pub fn log(&self) {
        let record = Record {
            by: "getgpu",
            pid: self.pid,
            what: "released",
            devices: &self.devices,
            uid: self.uid,
            program: ("for", &self.caller),
            share: self.part,
            tag: self.tag.as_deref(),
            job: self.job.as_ref(),
            waited: Duration::ZERO,
        };
        let held = sys::boot_time().saturating_sub(sys::after_boot(self.start));
        syslog::released(record.by, self.pid, &record.text(), held);
    }
}

fn name(text: &str) -> String {
    text.chars().take(NAME).collect()
}
