//! Asking NVML without a trace: getgpu is started as a process that this one never sees as
//! a child, so that the program later finds no child, no zombie and no pending SIGCHLD.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::nvml_client::{Client, WORKER_OPTION, Worker, channel, hang_up};
use getgpu_common::settings::Settings;
use getgpu_common::unseen_child::{self, Directory, Plan, UnseenChild};

/// getgpu: beside our own executable, then as set, then where packages put it; never by
/// PATH.
fn find_getgpu(settings: &Settings) -> Result<PathBuf, Failure> {
    let beside = std::fs::read_link("/proc/self/exe")
        .ok()
        .map(|exe| exe.with_file_name("getgpu"));
    let places = beside
        .into_iter()
        .chain(settings.getgpu.clone())
        .chain(["/usr/bin/getgpu".into(), "/usr/local/bin/getgpu".into()]);
    let runs = |path: &PathBuf| {
        nix::unistd::access(path.as_path(), nix::unistd::AccessFlags::X_OK).is_ok()
    };
    places.into_iter().find(runs).ok_or_else(|| {
        Failure::new(Kind::Nvml, "getgpu was not found beside cudawrap")
            .hint("install both, or set `getgpu` in /etc/getgpu/config.toml")
    })
}

/// Starts the helper and opens a session with it.
pub fn open(settings: &Settings) -> Result<Client<Helper>, Failure> {
    Ok(Client::open(Helper::start(settings)?, settings))
}

/// A session with the helper, ended whatever comes of it.
pub fn ask<T>(
    settings: &Settings,
    ask: impl FnOnce(&mut Client<Helper>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    open(settings)?.ask_all(ask)
}

#[derive(Debug)]
pub struct Helper {
    child: UnseenChild,
    channel: OwnedFd,
}

impl Helper {
    /// Starts getgpu as the process that asks NVML.
    pub fn start(settings: &Settings) -> Result<Self, Failure> {
        let getgpu = find_getgpu(settings)?;
        let failed = |why: &str| {
            Failure::new(
                Kind::Nvml,
                format!("cannot start {}: {why}", getgpu.display()),
            )
        };
        let (ours, theirs) = channel().map_err(|e| failed(&reason(&e)))?;
        let plan = Plan::new(&getgpu, &["getgpu", WORKER_OPTION], &[], Directory::Root);
        let child =
            unseen_child::start(&plan, &theirs, None).map_err(|e| failed(&reason(&e.into())))?;
        Ok(Self {
            child,
            channel: ours,
        })
    }
}

impl Worker for Helper {
    fn channel(&self) -> &OwnedFd {
        &self.channel
    }

    fn end(self, deadline: Instant) -> bool {
        hang_up(self.channel, deadline);
        self.child.end(deadline)
    }
}
