//! Listings as programs read them: `getgpu --list --json` and `--count-free`. A test that
//! needs to know who holds a device asks here.

use harness::Sandbox;
use serde_json::Value;

/// What `getgpu --list --json` prints; it succeeds and prints no warning.
#[track_caller]
pub fn json(sandbox: &Sandbox) -> Value {
    let outcome = sandbox.ask("--list --json");
    outcome.exits(0).says(&[]);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// All devices of such a listing.
#[track_caller]
pub fn devices(listing: &Value) -> &Vec<Value> {
    listing["devices"].as_array().expect("a list of devices")
}

/// The entry of one device in it.
#[track_caller]
pub fn device<'a>(listing: &'a Value, uuid: &str) -> &'a Value {
    devices(listing)
        .iter()
        .find(|device| device["uuid"] == uuid)
        .unwrap_or_else(|| panic!("{uuid} is not listed: {listing}"))
}

/// A MIG device by its GPU and instances, as drivers before 470 name it.
pub fn instance(device: &Value) -> String {
    let gpu = device["gpu_uuid"].as_str().unwrap_or_default();
    let (instance, compute) = (&device["gpu_instance"], &device["compute_instance"]);
    format!("MIG-{gpu}/{instance}/{compute}")
}

/// The states of all devices.
#[track_caller]
pub fn states(sandbox: &Sandbox) -> Vec<String> {
    let listing = json(sandbox);
    let states = devices(&listing)
        .iter()
        .map(|device| device["state"].as_str());
    states.flatten().map(str::to_owned).collect()
}

/// The shares of a device that holders of this kind have.
pub fn shares(device: &Value, kind: &str) -> Vec<f64> {
    let holders = device["holders"].as_array().into_iter().flatten();
    let holders = holders.filter(|holder| holder["kind"] == kind);
    holders
        .filter_map(|holder| holder["share"].as_f64())
        .collect()
}

/// How much of the node's devices is used, as a sum of shares.
#[track_caller]
pub fn share_used(sandbox: &Sandbox) -> f64 {
    let listing = json(sandbox);
    let used = devices(&listing)
        .iter()
        .map(|device| device["share_used"].as_f64());
    used.flatten().sum()
}

/// How many programs wait.
#[track_caller]
pub fn waiting(sandbox: &Sandbox) -> u64 {
    json(sandbox)["waiting"].as_u64().expect("a number")
}

/// What `getgpu --count-free` prints.
#[track_caller]
pub fn free_devices(sandbox: &Sandbox) -> String {
    sandbox.line("--count-free")
}
