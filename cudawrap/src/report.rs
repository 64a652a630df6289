//! What is said of a call: why its program could not be run, with the documented status;
//! and, for the site's log, what was leased.

use std::path::Path;
use std::time::Instant;

use getgpu_common::diag::Diag;
use getgpu_common::error::Failure;
use getgpu_common::exit;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::job::Job;
use getgpu_common::lock::{Place, Side};
use getgpu_common::record::Record;
use getgpu_common::recorder;
use getgpu_common::settings::{Log, Settings};

/// Says what went wrong and gives the exit status.
pub fn end(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::cudawrap(failure.kind)
}

/// Writes a lease down, and later its end, where the site wants that.
pub fn leased(
    settings: &Settings,
    place: &Place,
    devices: &[Device],
    part: f64,
    program: &Path,
    began: Instant,
) {
    if settings.log == Log::None {
        return;
    }
    let devices: Vec<Uuid> = devices.iter().map(|device| device.uuid.clone()).collect();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let job = Job::own();
    let record = Record {
        by: "cudawrap",
        what: "leased",
        devices: &devices,
        uid: nix::unistd::geteuid().as_raw(),
        program: ("program", name.strip_prefix("CUDAWRAP_").unwrap_or(&name)),
        share: part,
        job: job.as_ref(),
        waited: began.elapsed(),
    };
    record.send(settings);
    if let Some(first) = devices.first() {
        recorder::start(
            settings,
            place,
            Side::Lease,
            std::process::id() as i32,
            first,
            &record.text(),
        );
    }
}
