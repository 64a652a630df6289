//! Listings as programs read them: `getgpu --list --json` and `--count-free`. A test that
//! needs to know who holds a device asks here.

use harness::Sandbox;
use serde_json::Value;

/// What `getgpu --list --json` prints; it succeeds and prints no warning.
#[track_caller]
pub fn json(sandbox: &Sandbox) -> Value {
    let outcome = sandbox.getgpu(["--list", "--json"]).run();
    outcome.exits(0).says(&[]);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// The entry of one device in such a listing.
#[track_caller]
pub fn device<'a>(listing: &'a Value, uuid: &str) -> &'a Value {
    let devices = listing["devices"].as_array().expect("a list of devices");
    devices
        .iter()
        .find(|device| device["uuid"] == uuid)
        .unwrap_or_else(|| panic!("{uuid} is not listed: {listing}"))
}

/// How many programs wait.
#[track_caller]
pub fn waiting(sandbox: &Sandbox) -> u64 {
    json(sandbox)["waiting"].as_u64().expect("a number")
}

/// What `getgpu --count-free` prints.
#[track_caller]
pub fn free_devices(sandbox: &Sandbox) -> String {
    sandbox.getgpu(["--count-free"]).run().line()
}
