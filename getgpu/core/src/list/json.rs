//! The listing as JSON, schema 1: names may be added, never changed. Bytes and Unix
//! seconds; null where not known.

use getgpu_model::{diag::json, quantity::unix_seconds};
use getgpu_queue::Queued;
use serde::Serialize;

use super::Listing;
use super::rows::Row;

#[derive(Serialize)]
struct ListDocument<'a> {
    schema: u32,
    host: String,
    /// In Unix seconds.
    time: u64,
    driver: Option<&'a str>,
    lock: &'a str,
    lock_shared: bool,
    /// How many calls wait.
    waiting: usize,
    queue: &'a [Queued],
    devices: Vec<&'a Row>,
    silent: Vec<SilentRow<'a>>,
    problems: &'a [String],
}

/// A GPU or MIG device that does not answer and has no known name.
#[derive(Serialize)]
struct SilentRow<'a> {
    index: Option<usize>,
    gpu: u32,
    gpu_uuid: Option<&'a str>,
    mig_index: Option<u32>,
    reason: Option<&'a str>,
}

impl<'a> SilentRow<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            index: row.index,
            gpu: row.gpu,
            gpu_uuid: row.gpu_uuid.as_deref(),
            mig_index: row.mig_index,
            reason: row.reason.as_deref(),
        }
    }
}

/// One line of JSON.
pub fn text(listing: &Listing) -> String {
    let (silent, devices): (Vec<&Row>, Vec<&Row>) =
        listing.rows.iter().partition(|row| row.is_silent());
    let document = ListDocument {
        schema: 1,
        host: nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        time: unix_seconds(),
        driver: listing.driver.as_deref(),
        lock: &listing.lock,
        lock_shared: listing.lock_shared,
        waiting: listing.waiting,
        queue: &listing.queue,
        devices,
        silent: silent.into_iter().map(SilentRow::of).collect(),
        problems: &listing.problems,
    };
    json(&(serde_json::to_string(&document).unwrap_or_default() + "\n"))
}
