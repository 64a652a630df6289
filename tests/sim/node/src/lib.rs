//! A simulated NVIDIA node as data: which GPUs and MIG devices it has, what is wrong with
//! it, what runs on it. The simulated driver library, the simulated CUDA program and the
//! tests share it through one folder (`SIM_NODE`).

mod builtin;
pub mod device_nodes;
mod faults;
mod folder;
mod gpu;
mod inventory;
mod layout;
mod memory_limits;
mod models;
mod registry;
mod shared_file;
mod uuid;
mod version;

pub use builtin::{builtin, builtin_names};
pub use faults::{Action, FakeProcess, Faults, HealthFault, Kind, Latency, MemoryFault, Rule};
pub use folder::{Call, Collision, Folder, Run};
pub use gpu::{Gpu, MIB, MigDevice, MigMode, Node};
pub use inventory::{DeviceSpec, GpuSpec, Inventory, LinkKind};
pub use memory_limits::{MemoryLimits, cgroup_top};
pub use registry::{Record, Registration, Taken, monotonic_ns};
pub use version::Version;
