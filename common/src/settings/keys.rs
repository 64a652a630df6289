//! The one table of settings: name, whether it is policy (system file only), and what it is for.
//! The reader, `--show-config` and the annotated /etc/getgpu/config.toml all follow it.

use super::Settings;

/// One setting.
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Policy: only the system's file may set it.
    pub policy: bool,
    /// One line of help.
    pub help: &'static str,
    /// The value in force, as it would be written in the file.
    pub show: fn(&Settings) -> String,
}

const fn key(name: &'static str, policy: bool, help: &'static str, show: fn(&Settings) -> String) -> Key {
    Key { name, policy, help, show }
}

/// Every setting, policy first.
pub const KEYS: &[Key] = &[
    key("allowed", true, "devices that may be handed out; replaces allowed_file", |s| match &s.allowed {
        Some(list) => list_text(list),
        None => "unset".into(),
    }),
    key(
        "allowed_file",
        true,
        "list of devices that may be handed out, one UUID a line; all if there is no such file",
        |s| text(&s.allowed_file.display()),
    ),
    key("excluded", true, "devices that are never chosen; running programs go on", |s| list_text(&s.excluded)),
    key("lock", true, "the lock file, if not /run/getgpu/lock", |s| path(s.lock.as_ref())),
    key("library", true, "the NVIDIA library, if not libnvidia-ml.so.1 of the usual search", |s| {
        path(s.library.as_ref())
    }),
    key("getgpu", true, "getgpu, if it is not beside cudawrap", |s| path(s.getgpu.as_ref())),
    key("idle_memory", true, "more memory in use makes a device busy; unset: the larger of 128M and 1 %", |s| {
        s.idle_memory.map_or("unset".into(), |bytes| bytes.to_string())
    }),
    key("ignore_processes", true, "names of programs that do not make a device busy", |s| {
        list_text(&s.ignore_processes)
    }),
    key("nvml_timeout", true, "how long the NVIDIA library may take in all", |s| seconds(s.nvml_timeout)),
    key("without_grant", true, "a batch job without CUDA_VISIBLE_DEVICES: \"all\" devices or \"none\"", |s| {
        json(&s.without_grant)
    }),
    key("unshared", true, "a lock that is not the host's: \"warn\", \"quiet\" or \"fail\"", |s| json(&s.unshared)),
    key("type", false, "\"auto\" (MIG devices if there are any, else whole GPUs), \"mig\", \"gpu\" or \"any\"", |s| {
        json(&s.kind)
    }),
    key("reserve_for", false, "how long a reservation waits for its program to appear", |s| seconds(s.reserve_for)),
    key("linger", false, "how long a reservation outlasts its last program while its caller lives", |s| {
        seconds(s.linger)
    }),
    key("when_taken", false, "a wrapped program on a device that somebody else has: \"run\" or \"fail\"", |s| {
        json(&s.when_taken)
    }),
    key("when_no_gpu", false, "a wrapped program on a node without GPUs: \"run\" or \"fail\"", |s| {
        json(&s.when_no_gpu)
    }),
];

fn text(value: &dyn std::fmt::Display) -> String {
    format!("{:?}", value.to_string())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn path(value: Option<&std::path::PathBuf>) -> String {
    value.map_or("unset".into(), |p| text(&p.display()))
}

fn list_text(list: &[String]) -> String {
    json(&list)
}

fn seconds(value: std::time::Duration) -> String {
    format!("\"{}s\"", value.as_secs_f64())
}
