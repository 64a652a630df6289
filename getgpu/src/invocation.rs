//! One call of getgpu that prints a device, as data: what was typed, what is in force, and
//! the node that is asked.

use std::time::Instant;

use getgpu_common::diag::Diag;
use getgpu_common::lock::LockFile;
use getgpu_common::node::Node;
use getgpu_common::settings::{Environment, Settings};
use getgpu_nvml::spawn;

use crate::options::Options;

/// One call that prints a device.
pub struct Invocation<'a> {
    pub options: &'a Options,
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
