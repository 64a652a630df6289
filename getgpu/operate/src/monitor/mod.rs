//! `getgpu --monitor`: one process of root's on a node, where a site wants it. Once a
//! second it looks at the lock and logs the end of leases; where `max_idle` is set it asks
//! NVML whether held devices are used, and whether their programs compute; once a minute it
//! writes the metrics.

mod held;
mod idle;
mod metrics_file;
mod notice;
mod short_leases;
mod spell;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use getgpu_choose::{Asked, GrantUse, find_lock_file};
use getgpu_linux::procfs::namespaces;
use getgpu_lock::{LockFile, OfdLock};
use getgpu_model::{Detail, Diag, Failure, Inventory, Uuid, reason};
use getgpu_settings::{Environment, Loaded, Log};

use crate::causes::OperateCause;
use crate::prometheus;
use getgpu_core::call::node;
use getgpu_core::list;
use getgpu_core::list::watched::{self, WHOLE, Watched};
use held::HeldDevices;
use short_leases::LeaseEnds;

/// Between two looks at the lock.
const LOOK: Duration = Duration::from_secs(1);
/// Between two lists of the node, two looks into the settings, and two files of metrics.
const RELIST: Duration = Duration::from_secs(60);

/// Watches until it is killed; `metrics`: the file for node_exporter.
///
/// # Errors
///
/// Not root, not on the host, another one runs already, no lock, or settings that are wrong at the start.
pub fn run(environment: &Environment, metrics: Option<&Path>, diag: &Diag) -> Result<(), Failure> {
    if !namespaces::is_host_root() {
        return Err(OperateCause::MonitorOfUser.into());
    }
    if !namespaces::host_pids() {
        return Err(OperateCause::MonitorInContainer.into());
    }
    let loaded = Loaded::read(environment, None)?.strict()?;
    let lock_file = find_lock_file(&loaded.settings, environment, Some(diag))?;
    let _only = only_one(&lock_file)?;
    let mut monitor = Monitor {
        lock_file,
        loaded,
        max_idle: BTreeMap::new(),
        inventory: Inventory::default(),
        held: HeldDevices::default(),
        ends: LeaseEnds::default(),
        told: Watched::new(),
        telling: None,
        looked: None,
    };
    let mut relist = Instant::now();
    loop {
        if relist <= Instant::now() {
            relist = Instant::now() + RELIST;
            monitor.relist(environment, diag);
            report(monitor.tell(), diag);
            if let Some(path) = metrics {
                report(monitor.write_metrics(environment, path), diag);
            }
        }
        report(monitor.check(), diag);
        std::thread::sleep(LOOK);
    }
}

/// Whether a monitor of this lock runs; none if this user may not ask. Asking takes no
/// lock: a monitor that starts at this instant would take us for another one.
pub fn runs(lock_file: &LockFile) -> Option<bool> {
    match File::open(file_of(lock_file)) {
        Ok(file) => {
            let conflict = OfdLock::new(file.into()).conflict(WHOLE).ok()?;
            Some(conflict.is_some())
        }
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(false),
    }
}

/// Keeps a second monitor of this lock away, whose lines would all come twice.
fn only_one(lock_file: &LockFile) -> Result<OfdLock, Failure> {
    let path = file_of(lock_file);
    let unusable = |error: io::Error| {
        let (path, why) = (path.display(), reason(&error));
        Failure::from(OperateCause::MonitorUnlocked { path, why })
    };
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let lock = OfdLock::new(options.open(&path).map_err(unusable)?.into());
    if lock.try_write(WHOLE)? {
        return Ok(lock);
    }
    Err(OperateCause::MonitorRuns.into())
}

/// The file that a monitor of this lock keeps locked. Only root can open it, so no other
/// user can keep a monitor away.
fn file_of(lock_file: &LockFile) -> PathBuf {
    lock_file.path.with_extension("monitor")
}

/// A monitor continues whatever fails.
fn report(done: Result<(), Failure>, diag: &Diag) {
    if let Err(failure) = done {
        diag.error(&failure);
    }
}

struct Monitor {
    lock_file: LockFile,
    loaded: Loaded,
    /// `max_idle` of users, as far as it was asked for since the settings were read.
    max_idle: BTreeMap<Option<u32>, Option<Duration>>,
    /// The node, as it was listed last.
    inventory: Inventory,
    held: HeldDevices,
    ends: LeaseEnds,
    /// What the file for other calls has, and the lock on it that says that this monitor runs.
    told: Watched,
    telling: Option<OfdLock>,
    /// When NVML was asked last whether held devices are used.
    looked: Option<Instant>,
}

impl Monitor {
    /// Reads the settings and lists the node anew; what cannot be read stays as it was.
    fn relist(&mut self, environment: &Environment, diag: &Diag) {
        match Loaded::read(environment, None).and_then(Loaded::strict) {
            Ok(loaded) => {
                self.loaded = loaded;
                self.max_idle.clear();
            }
            Err(failure) => diag.error(&failure),
        }
        match node(&self.loaded.settings).ask(|node| node.inventory(Detail::Uuid)) {
            Ok(inventory) => {
                let mut listed = (*inventory).clone();
                listed.keep_silent(&self.inventory);
                self.inventory = listed;
            }
            Err(failure) => diag.error(&failure),
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        let devices = self.inventory.devices.iter();
        let devices: Vec<Uuid> = devices.map(|device| device.uuid.clone()).collect();
        let ended = self.held.update(&self.lock_file, &devices)?;
        for held in ended.iter().filter(|held| held.leased) {
            for device in &held.devices {
                self.ends.note(device, held.seen_for(), Instant::now());
            }
        }
        if self.loaded.settings.log == Log::Syslog {
            ended.iter().for_each(held::HeldDevice::log_end);
        }
        let (loaded, known) = (&self.loaded, &mut self.max_idle);
        let shortest = idle::set_limits(&mut self.held, |uid| {
            *known.entry(uid).or_insert_with(|| loaded.max_idle_of(uid))
        });
        let pause = shortest.map(spell::between_looks);
        if pause.is_some_and(|pause| self.looked.is_none_or(|at| at.elapsed() >= pause)) {
            self.looked = Some(Instant::now());
            idle::check(
                &self.lock_file,
                &mut self.held,
                &self.inventory,
                &self.loaded.settings,
            )?;
        }
        if self.watched() == self.told {
            return Ok(());
        }
        self.tell()
    }

    /// What there is to say of devices.
    fn watched(&mut self) -> Watched {
        let mut watched = Watched::new();
        let lasting = self.held.leased_for(short_leases::SHORT);
        for (device, many) in self.ends.suspects(&lasting, Instant::now()) {
            watched.entry(device).or_default().short_leases = Some(many);
        }
        for (device, since) in self.held.since(|held| held.empty) {
            watched.entry(device).or_default().empty_since = Some(since);
        }
        for (device, since) in self.held.since(|held| held.idle) {
            watched.entry(device).or_default().idle_since = Some(since);
        }
        watched
    }

    /// Leaves it for `--list` and `--check`: when it changes, and once a minute, for a disk that was full.
    fn tell(&mut self) -> Result<(), Failure> {
        self.told = self.watched();
        let text = serde_json::to_string(&self.told).unwrap_or_default();
        let file = metrics_file::replace(&watched::file_of(&self.lock_file), &text);
        let file = file.map_err(|error| {
            let why = &reason(&error);
            Failure::from(OperateCause::MonitorUntold { why })
        })?;
        let lock = OfdLock::new(file.into());
        if !lock.try_write(WHOLE)? {
            let why = "another process has locked it";
            return Err(OperateCause::MonitorUntold { why }.into());
        }
        self.telling = Some(lock);
        Ok(())
    }

    /// The metrics of `--list --format prometheus` for node_exporter's textfile collector.
    fn write_metrics(&self, environment: &Environment, path: &Path) -> Result<(), Failure> {
        let asked = Asked::listed(&self.loaded.settings, environment, GrantUse::Ignore)?;
        let mut node = node(&self.loaded.settings);
        let listing = list::gather(&mut node, asked, &self.lock_file, &[])?;
        let replaced = metrics_file::replace(path, &prometheus::text(&listing));
        replaced.map(drop).map_err(|error| {
            let (metrics, why) = (path.display(), reason(&error));
            OperateCause::MetricsUnwritten { metrics, why }.into()
        })
    }
}
