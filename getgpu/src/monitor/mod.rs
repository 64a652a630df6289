//! `getgpu --monitor`: one process of root's on a node, where a site wants it. Once a
//! second it looks at the lock and logs the end of leases; where `max_idle` is set it asks
//! NVML whether held devices are used; once a minute it writes the metrics.

mod held;
mod idle;
mod metrics;
mod notice;
mod spell;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Detail;
use getgpu_common::lock::LockFile;
use getgpu_common::node_lock::find_lock_file;
use getgpu_common::procfs::namespaces;
use getgpu_common::settings::{Environment, Loaded, Log, Settings};
use nix::fcntl::{Flock, FlockArg};

use crate::invocation::open;
use held::HeldDevices;

/// Between two looks at the lock.
const LOOK: Duration = Duration::from_secs(1);
/// Between two lists of the node, two looks into the settings, and two files of metrics.
const RELIST: Duration = Duration::from_secs(60);

/// Watches until it is killed; `metrics`: the file for node_exporter.
///
/// # Errors
///
/// Not root, another one runs already, no lock, or settings that are wrong at the start.
pub fn run(environment: &Environment, metrics: Option<&Path>, diag: &Diag) -> Result<(), Failure> {
    if !namespaces::is_host_root() {
        let text = "--monitor: only root sees what all users hold";
        return Err(Failure::new(Kind::Usage, text));
    }
    let settings = Loaded::read(environment, None)?.strict()?.settings;
    let lock_file = find_lock_file(&settings, environment, diag, false)?;
    let _only = only_one(&lock_file)?;
    let mut monitor = Monitor {
        lock_file,
        settings,
        devices: Vec::new(),
        held: HeldDevices::default(),
        next_idle: Instant::now(),
    };
    let mut relist = Instant::now();
    loop {
        if relist <= Instant::now() {
            relist = Instant::now() + RELIST;
            monitor.relist(environment, diag);
            if let Some(path) = metrics {
                report(monitor.write_metrics(environment, path), diag);
            }
        }
        report(monitor.look(), diag);
        std::thread::sleep(LOOK);
    }
}

/// Whether a monitor of this lock runs.
pub fn runs(lock_file: &LockFile) -> bool {
    only_one(lock_file).is_err_and(|failure| failure.kind == Kind::Refused)
}

/// Keeps a second monitor of this lock away, whose lines would all come twice.
fn only_one(lock_file: &LockFile) -> Result<Flock<File>, Failure> {
    let directory = lock_file.path.parent().unwrap_or(Path::new("/"));
    let unusable = |error: std::io::Error| {
        let text = format!("--monitor: {}: {}", directory.display(), reason(&error));
        Failure::new(Kind::LockPlace, text)
    };
    let file = File::open(directory).map_err(unusable)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        nix::errno::Errno::EWOULDBLOCK => {
            Failure::new(Kind::Refused, "--monitor: another one runs already")
        }
        errno => unusable(errno.into()),
    })
}

/// A monitor goes on whatever fails.
fn report(done: Result<(), Failure>, diag: &Diag) {
    if let Err(failure) = done {
        diag.error(&failure);
    }
}

struct Monitor {
    lock_file: LockFile,
    settings: Settings,
    /// The devices of the node.
    devices: Vec<Uuid>,
    held: HeldDevices,
    /// When NVML is asked next whether held devices are used.
    next_idle: Instant,
}

impl Monitor {
    /// Reads the settings and lists the node anew; what cannot be read stays as it was.
    fn relist(&mut self, environment: &Environment, diag: &Diag) {
        match Loaded::read(environment, None).and_then(Loaded::strict) {
            Ok(loaded) => self.settings = loaded.settings,
            Err(failure) => diag.error(&failure),
        }
        let listed = open(&self.settings)
            .and_then(|client| client.ask_all(|client| client.scan(Detail::Uuid)));
        match listed {
            Ok(inventory) => {
                let uuids = inventory.devices.into_iter().map(|device| device.uuid);
                self.devices = uuids.collect();
            }
            Err(failure) => diag.error(&failure),
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        let ended = self.held.update(&self.lock_file, &self.devices)?;
        if self.settings.log == Log::Syslog {
            ended.iter().for_each(held::Held::log_end);
        }
        let Some(limit) = self.settings.max_idle else {
            return Ok(());
        };
        if self.next_idle <= Instant::now() {
            self.next_idle = Instant::now() + spell::between_looks(limit);
            idle::look(&mut self.held, &self.settings, limit)?;
        }
        Ok(())
    }

    fn write_metrics(&self, environment: &Environment, path: &Path) -> Result<(), Failure> {
        let since = |device: &Uuid| self.held.empty_since(device);
        metrics::write(environment, &self.settings, &self.lock_file, path, &since)
    }
}
