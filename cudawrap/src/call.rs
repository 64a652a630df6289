//! One call of cudawrap: the program that is to get a device, and what is in force for it.
//! Every step of the story takes it: a device is chosen, leased, and the program is
//! launched with it.

use std::path::Path;
use std::time::Instant;

use getgpu_cli::Overrides;
use getgpu_lock::LockFile;
use getgpu_model::Diag;
use getgpu_settings::{Environment, Settings};

use crate::ranks::rank::Rank;

/// How cudawrap was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// By a link to it, whose user may not know of cudawrap: where a device is named, the
    /// program runs with or without a lease, and every word is the program's.
    Link,
    /// By its own name, with these options.
    OwnName(&'a Overrides),
}

/// The program that a lease is for.
#[derive(Clone, Copy, Debug)]
pub struct Lessee<'a> {
    /// Its file.
    pub program: &'a Path,
    /// The process that it runs in, or will run in.
    pub pid: i32,
}

impl<'a> Lessee<'a> {
    /// The program that this process will become.
    pub fn to_be(program: &'a Path) -> Self {
        Self {
            program,
            pid: std::process::id() as i32,
        }
    }

    /// Whether it has been started already, and has loaded libcudawrap.so.
    pub fn runs_already(&self) -> bool {
        self.pid != std::process::id() as i32
    }
}

/// What a program is given a device with.
pub struct CudawrapCall<'a> {
    pub settings: &'a Settings,
    pub environment: &'a Environment,
    pub lock_file: &'a LockFile,
    /// The program that a device is for.
    pub lessee: Lessee<'a>,
    /// Which rank this is, under a launcher.
    pub rank: Option<&'a Rank>,
    pub diag: &'a Diag,
    pub origin: Origin<'a>,
    /// The name under which the lease is shown.
    pub tag: Option<String>,
    /// When we began to look for a device.
    pub began: Instant,
}

impl CudawrapCall<'_> {
    /// Whether the option of this setting was typed, and is no wish of the site's.
    pub fn is_typed(&self, setting: &str) -> bool {
        match self.origin {
            Origin::Link => false,
            Origin::OwnName(typed) => typed.first_of(&[setting]).is_some(),
        }
    }

    /// Whether the launcher that started this program has started others on this node.
    pub fn has_siblings(&self) -> bool {
        self.rank.is_some_and(Rank::has_siblings)
    }

    /// Whether a line that concerns all programs of the launcher is for this one to print.
    pub fn speaks_for_all(&self) -> bool {
        self.rank.is_none_or(|rank| rank.first)
    }

    /// How to wait, for a hint: the words after a link's name belong to its program, and one
    /// of several ranks does not wait.
    pub fn how_to_wait(&self) -> &'static str {
        match self.origin {
            _ if self.has_siblings() => "getgpu --list shows who holds what",
            Origin::Link => "with CUDAWRAP_WAIT=10m a program waits",
            Origin::OwnName(_) => "--wait joins the queue",
        }
    }
}
