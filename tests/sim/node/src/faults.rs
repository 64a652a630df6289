//! What is wrong with the node, as `faults.toml` says it; read again at each `nvmlInit`.
//! Only data and matching live here, the simulated library acts on it.

use serde::{Deserialize, Serialize};

/// Everything that is wrong; the default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Printed to stdout at init, as some stub libraries do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub banner: Option<String>,
    /// No monitor capability: GPUs in MIG mode tell neither processes nor memory (4).
    pub no_monitor: bool,
    /// The same for everyone but root outside of user namespaces.
    pub monitor_is_for_root: bool,
    /// Processes outside the caller's pid namespace are left out of lists; their memory
    /// still counts.
    pub foreign_pidns_blind: bool,
    /// Processes outside the caller's pid namespace are in lists with pid 0.
    pub foreign_pidns_nameless: bool,
    /// Each list of compute processes has this many invented entries more than the one
    /// before.
    pub processes_grow: u32,
    /// Time that calls take.
    pub latency: Latency,
    /// MIG devices that some callers cannot see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<Hide>,
    /// Processes that are in lists although no simulated program runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<FakeProcess>,
    /// Memory figures that do not follow from the inventory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryFault>,
    /// Calls that fail, hang or worse. The first that matches acts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Rule>,
}

/// Time that calls take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// The first init of a session.
    pub init_ms: u64,
    /// The first touch of each GPU in a session; seconds without the persistence daemon.
    pub attach_ms: u64,
    /// Every call.
    pub call_us: u64,
}

/// MIG devices that cannot be seen; the indices of the others close up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hide {
    /// MIG UUIDs.
    pub devices: Vec<String>,
    /// Only from this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// Which list a process is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Compute processes.
    #[default]
    Compute,
    /// Graphics processes.
    Graphics,
    /// Clients of MPS.
    Mps,
}

/// A process that is only in the lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeProcess {
    /// UUID of the MIG device or GPU it is on.
    pub device: String,
    /// Its pid, existing or not.
    pub pid: u32,
    /// Memory it uses; not told if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Which list it is in.
    #[serde(default)]
    pub kind: Kind,
    /// GPU and compute instance id are given as unknown.
    #[serde(default)]
    pub no_ids: bool,
}

/// Memory figures of a device, instead of those that follow from the inventory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFault {
    /// UUID of the MIG device or GPU.
    pub device: String,
    /// Used when no simulated program runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_mib: Option<u64>,
    /// Total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_mib: Option<u64>,
}

/// A call that does not do what it should. Exactly one of `returns` and `does` is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Exact name of the C function, or `*` for all but init, shutdown and error strings.
    pub function: String,
    /// Only for this GPU (by index) and its MIG devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Only for the MIG device or GPU of this UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Only from this matching call on, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Only for so many matching calls (counted from `from`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Count the calls of all processes on the node together, not those of one process.
    #[serde(default)]
    pub node_wide: bool,
    /// The code it returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<i32>,
    /// What it does instead of answering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub does: Option<Action>,
    /// Which noise it writes, if it writes noise.
    #[serde(default)]
    pub seed: u64,
}

/// What a call may do instead of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Never comes back; signals are still handled.
    Hang,
    /// Stops its own process (SIGSTOP), then answers when continued.
    Stop,
    /// Ends the process by abort().
    Abort,
    /// Answers, but with bytes that are not text where text is due.
    Garbage,
    /// Fills the place for a text to its last byte, without a NUL.
    Unterminated,
    /// Says that it succeeded, or that a list needs more room, and writes noise into all of
    /// the room that it was given: no NUL, no sense in numbers and counts, other noise at
    /// each call.
    Noise,
}

impl Faults {
    /// Reads the text of a `faults.toml`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let faults: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match faults
            .rule
            .iter()
            .find(|rule| rule.returns.is_some() == rule.does.is_some())
        {
            Some(rule) => Err(format!(
                "rule for {}: needs either returns or does",
                rule.function
            )),
            None => Ok(faults),
        }
    }

    /// The text of a `faults.toml`.
    pub fn to_text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// Whether this user cannot see this MIG device.
    pub fn hides(&self, uuid: &str, uid: u32) -> bool {
        let hit = |hide: &Hide| {
            hide.uid.is_none_or(|only| only == uid) && hide.devices.iter().any(|d| d == uuid)
        };
        self.hide.iter().any(hit)
    }
}

impl Rule {
    /// Whether it is about this call; `uuids` are the device's own and its GPU's.
    pub fn is_about(&self, function: &str, gpu: Option<u32>, uuids: &[&str]) -> bool {
        let named =
            self.function == function || (self.function == "*" && !EXEMPT.contains(&function));
        named
            && self.gpu.is_none_or(|only| gpu == Some(only))
            && self
                .device
                .as_ref()
                .is_none_or(|only| uuids.contains(&only.as_str()))
    }

    /// Whether it acts on the `call`th call that it is about (from 1).
    pub fn acts_on(&self, call: u64) -> bool {
        let from = self.from.unwrap_or(1).max(1);
        call >= from && self.first.is_none_or(|first| call - from < first)
    }
}

const EXEMPT: [&str; 4] = [
    "nvmlInit_v2",
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlErrorString",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_by_function_device_and_count() {
        let faults =
            Faults::parse("[[rule]]\nfunction = '*'\ngpu = 1\nfrom = 3\nfirst = 2\nreturns = 15\n")
                .unwrap();
        let rule = &faults.rule[0];
        assert!(rule.is_about("nvmlDeviceGetName", Some(1), &["GPU-x"]));
        assert!(!rule.is_about("nvmlDeviceGetName", Some(0), &["GPU-x"]));
        assert!(!rule.is_about("nvmlInit_v2", Some(1), &[]));
        assert_eq!(
            [1, 2, 3, 4, 5].map(|call| rule.acts_on(call)),
            [false, false, true, true, false]
        );
        assert_eq!(Faults::parse(&faults.to_text().unwrap()).unwrap(), faults);
    }

    #[test]
    fn a_rule_does_one_thing_and_keys_are_known() {
        assert!(Faults::parse("[[rule]]\nfunction = 'nvmlInit_v2'\n").is_err());
        assert!(
            Faults::parse("[[rule]]\nfunction = 'nvmlInit_v2'\nreturns = 9\ndoes = 'hang'\n")
                .is_err()
        );
        assert!(Faults::parse("monitr = true\n").is_err());
    }

    #[test]
    fn hiding_may_be_for_one_user() {
        let faults = Faults::parse("[[hide]]\ndevices = ['MIG-a']\nuid = 1001\n").unwrap();
        assert!(
            faults.hides("MIG-a", 1001)
                && !faults.hides("MIG-a", 0)
                && !faults.hides("MIG-b", 1001)
        );
    }
}
