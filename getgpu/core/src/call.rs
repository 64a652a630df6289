//! One call of getgpu: what was typed and what is in force, as data.

use std::time::Instant;

use getgpu_ask::Node;
use getgpu_lock::LockFile;
use getgpu_model::Diag;
use getgpu_nvml::spawn;
use getgpu_settings::{Environment, Settings};

use crate::options::GetgpuOptions;

/// One call that prints a device.
pub struct GetgpuCall<'a> {
    pub options: &'a GetgpuOptions,
    pub environment: &'a Environment,
    pub settings: &'a Settings,
    pub lock_file: LockFile,
    pub diag: &'a Diag,
    /// When it began.
    pub began: Instant,
}

/// This node, asked by a fork of this process.
pub fn node(settings: &Settings) -> Node<'_> {
    Node::new(settings, |_| spawn::fork_worker())
}
