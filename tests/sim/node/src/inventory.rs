//! What `node.toml` says: a node as a person writes it down, with everything that can be
//! worked out left out. `gpu.rs` turns it into the node that the simulated library
//! answers for.

use serde::Deserialize;

/// A node as written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// Driver version; decides UUID form, names and which functions answer.
    pub driver: String,
    /// Host name, only to give two nodes different UUIDs.
    #[serde(default)]
    pub host: String,
    /// How its GPUs are connected; by nothing that NVML tells where left out.
    pub links: Option<LinkKind>,
    /// The GPUs in NVML order.
    #[serde(default)]
    pub gpu: Vec<GpuSpec>,
}

/// How the GPUs of a node are connected. In each kind the first half of them is in one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// Twelve NVLinks of each GPU lead to switches, as in a DGX.
    Switch,
    /// PCIe alone.
    Pcie,
    /// Each two GPUs have four NVLinks between them.
    Pairs,
}

/// A GPU, or `count` equal ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpec {
    /// One of the models in `models.rs`, such as `A100-SXM4-40GB`.
    pub model: String,
    /// How many of them; 1 if left out.
    pub count: Option<u32>,
    /// MIG mode is on.
    #[serde(default)]
    pub mig: bool,
    /// MIG devices in the short form: `"3g.20gb, 4x1g.5gb"`.
    pub layout: Option<String>,
    /// MIG devices one by one, for holes, several compute instances in a GPU instance,
    /// own figures.
    #[serde(default)]
    pub device: Vec<DeviceSpec>,
    /// `GPU-...`; made from host and index if left out. Not with `count`.
    pub uuid: Option<String>,
    /// Memory in use in MiB when nothing runs.
    pub idle_mib: Option<u64>,
    /// An integrated GPU: it shares the host's memory, and NVML does not report any
    /// (NOT_SUPPORTED).
    #[serde(default)]
    pub integrated: bool,
    /// The host's NUMA node that the GPU's memory is, as on GH200.
    pub numa_node: Option<u32>,
    /// CPUs near the GPU as in `taskset -c`: `"0-15,32-47"`; all of 0-63 if left out.
    pub cpus: Option<String>,
}

/// A MIG device: one compute instance in a GPU instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id in it.
    #[serde(default)]
    pub ci: u32,
    /// Profile, `1g.5gb` or `1c.3g.20gb`.
    pub profile: String,
    /// MIG index; the next one in the order of (gi, ci) if left out. A jump leaves a
    /// hole.
    pub index: Option<u32>,
    /// Memory in use in MiB when nothing runs.
    pub idle_mib: Option<u64>,
    /// `MIG-...`; made from host, GPU, gi and ci if left out.
    pub uuid: Option<String>,
}

impl Inventory {
    /// Reads the text of a `node.toml`.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }
}
