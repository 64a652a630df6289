//! The listing as JSON, schema 1: names may be added, never changed. Bytes and Unix
//! seconds; null where not known.

use getgpu_common::quantity::unix_seconds;
use getgpu_common::queue::queued::Queued;
use serde::Serialize;

use super::Listing;
use super::rows::Row;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    host: String,
    time: u64,
    driver: Option<&'a str>,
    lock: &'a str,
    lock_shared: bool,
    waiting: usize,
    queue: &'a [Queued],
    devices: &'a [Row],
    problems: &'a [String],
}

/// One line of JSON.
pub fn text(listing: &Listing) -> String {
    let document = Document {
        schema: 1,
        host: nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        time: unix_seconds(),
        driver: listing.inventory.driver.as_deref(),
        lock: &listing.lock,
        lock_shared: listing.lock_shared,
        waiting: listing.waiting,
        queue: &listing.queue,
        devices: &listing.rows,
        problems: &listing.problems,
    };
    let mut text = serde_json::to_string(&document).unwrap_or_default();
    text.push('\n');
    text
}
