//! What is wrong with the node, as `faults.toml` says it; read again at each `nvmlInit`.
//! Only data and matching live here, the simulated library acts on it.

use serde::Deserialize;

/// Everything that is wrong; the default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Printed to stdout at init, as some stub libraries do.
    pub banner: Option<String>,
    /// GPUs in MIG mode tell neither processes nor memory (4) to anybody but root outside of
    /// user namespaces.
    pub monitor_is_for_root: bool,
    /// Processes outside the caller's pid namespace are left out of lists; their memory
    /// still counts.
    pub foreign_pidns_blind: bool,
    /// Processes outside the caller's pid namespace are in lists with pid 0.
    pub foreign_pidns_nameless: bool,
    /// The lists of a compute instance have the processes of the others of its GPU instance, too.
    pub siblings_listed: bool,
    /// Devices whose nodes in /dev the caller may not open are not listed, as in a task of Slurm with
    /// ConstrainDevices.
    pub closed_hidden: bool,
    /// No simulated program is in a list, and none takes memory.
    pub unseen: bool,
    /// Each list of compute processes has this many invented entries more than the one
    /// before.
    pub processes_grow: u32,
    /// Time that calls take.
    pub latency: Latency,
    /// Processes that are in lists although no simulated program runs.
    pub process: Vec<FakeProcess>,
    /// Memory figures that do not follow from the inventory.
    pub memory: Vec<MemoryFault>,
    /// GPUs and devices that are not well.
    pub health: Vec<HealthFault>,
    /// Calls that fail, hang or worse. The first that matches acts.
    pub rule: Vec<Rule>,
}

/// Time that calls take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// The first init of a session.
    pub init_ms: u64,
    /// The first touch of each GPU in a session; seconds without the persistence daemon.
    pub attach_ms: u64,
    /// Every call.
    pub call_us: u64,
}

/// Which list a process is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeProcess {
    /// UUID of the MIG device or GPU it is on.
    pub device: String,
    /// Its pid, existing or not.
    pub pid: u32,
    /// Memory it uses; not told if left out.
    pub memory_mib: Option<u64>,
    /// Which list it is in.
    #[serde(default)]
    pub kind: Kind,
}

/// Memory figures of a device, instead of those that follow from the inventory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFault {
    /// UUID of the MIG device or GPU.
    pub device: String,
    /// Used when no simulated program runs.
    pub used_mib: Option<u64>,
}

/// What is wrong with a GPU, or a MIG device, or was set on it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthFault {
    /// That GPU (by index) and its MIG devices.
    pub gpu: Option<u32>,
    /// The MIG device or GPU of this UUID.
    pub device: Option<String>,
    /// `nvmlComputeMode_t`: 2 prohibited, 3 exclusive process.
    pub compute_mode: Option<u32>,
    /// `nvmlDeviceGpuRecoveryAction_t`.
    pub recovery_action: Option<u32>,
    /// `nvmlReturn_t` of each field value, where the call itself succeeds.
    pub field_returns: Option<i32>,
    /// Memory rows are remapped at the next reset.
    pub rows_pending: bool,
    /// A memory row could not be remapped.
    pub rows_failed: bool,
    /// Memory pages are retired at the next reboot.
    pub pages_pending: bool,
    /// Memory banks are remapped at the next reset.
    pub banks_pending: bool,
    /// The memory has an error that cannot be repaired.
    pub unrepairable: bool,
    /// Whether GPUs under confidential computing accept work; without it where left out.
    pub accepts_work: Option<bool>,
    /// State and status of the NVLink fabric (NVML_GPU_FABRIC_STATE_*, `nvmlReturn_t`); not
    /// supported where left out.
    pub fabric: Option<[u32; 2]>,
    /// Persistence mode; on where left out.
    pub persistence: Option<bool>,
    /// Utilisation of the GPU, in percent; 97 while a program runs there where left out.
    pub utilization: Option<u32>,
}

impl HealthFault {
    /// Whether it is about a device; `uuids` are the device's own.
    pub fn is_about(&self, gpu: Option<u32>, uuids: &[&str]) -> bool {
        self.gpu.is_none_or(|only| gpu == Some(only))
            && self
                .device
                .as_ref()
                .is_none_or(|only| uuids.contains(&only.as_str()))
    }
}

/// A call that does not do what it should. Exactly one of `returns` and `does` is given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Exact name of the C function, or `*` for all but init, shutdown and error strings.
    pub function: String,
    /// Only for this GPU (by index) and its MIG devices.
    pub gpu: Option<u32>,
    /// Only for the MIG device or GPU of this UUID.
    pub device: Option<String>,
    /// Only from this matching call on, counted from 1.
    pub from: Option<u64>,
    /// Only for so many matching calls (counted from `from`).
    pub first: Option<u64>,
    /// The code it returns.
    pub returns: Option<i32>,
    /// What it does instead of answering.
    pub does: Option<Action>,
    /// Which noise it writes, if it writes noise.
    #[serde(default)]
    pub seed: u64,
}

/// What a call may do instead of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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
