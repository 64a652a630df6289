//! `--check`: is this node set up? One line per finding, with a remedy where something is
//! wrong: what an administrator runs first and sends with a report. It takes nothing, and
//! what one part of it finds does not keep the others from looking.

mod auto;
mod devices;
mod findings;
mod health;
mod memory_limits;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use getgpu_choose::{Asked, GrantUse};
use getgpu_linux::{LockOrigin, sibling};
use getgpu_lock::{LockFile, host_sharing};
use getgpu_model::{Failure, Inventory, quantity::counted};
use getgpu_settings::{Environment, Loaded, Scoped, Settings};

use crate::{monitor, slurm};
use findings::Findings;
use getgpu_core::list::watched;

pub use findings::Report;

/// Looks at everything and prints what was found; the failure is that something is wrong.
pub fn check(
    environment: &Environment,
    directories: &[PathBuf],
    report: Report,
) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let loaded = settings(environment, &mut findings);
    let settings = &loaded.settings;
    let lock_file = lock(environment, settings, &mut findings);
    monitor_runs(lock_file.as_ref(), &loaded, &mut findings);
    short_leases(lock_file.as_ref(), &mut findings);
    let inventory = devices::check(settings, lock_file.as_ref(), &mut findings);
    if let Some(inventory) = &inventory {
        lists(settings, environment, inventory, &mut findings);
        // Without options the jobs have what there is.
        let choice = Some(&loaded).filter(|loaded| !loaded.settings.slurm.options.is_empty());
        if let Some(Err(failure)) = choice.map(|loaded| slurm::check_choice(loaded, inventory)) {
            findings.failed("settings", &failure, "getgpu --list shows what there is");
        }
        memory_limits::check(settings, inventory, &mut findings);
    }
    auto::check(settings, &mut findings);
    programs(directories, &mut findings);
    findings.report(report)
}

/// Looks only whether a reset, a reboot or a repair of a GPU is due; the failure is that one is. What a
/// batch system drains a node for: settings, limits and modes that an administrator has set are none.
///
/// # Errors
///
/// Also if NVML does not answer, or there is no driver.
pub fn health(environment: &Environment, report: Report) -> Result<(), Failure> {
    let loaded = Loaded::read(environment, None).unwrap_or_default();
    let mut findings = Findings::default();
    devices::check_repair(&loaded.settings, &mut findings)?;
    findings.report(report)
}

/// Tables of limits for a group or a user that this node does not have: one file may be for
/// many nodes, so it is told and is no problem.
fn without_members(tables: &[Scoped], findings: &mut Findings) {
    let mut told = BTreeSet::new();
    for table in tables.iter().filter(|table| !table.has_members()) {
        let (kind, name) = (table.scope.word(), &table.name);
        if told.insert((kind, name)) {
            let text = format!("[{kind}.{name}] limits nobody: this node has no such {kind}");
            findings.fine("settings", &text);
        }
    }
}

/// The settings in force; with an unreadable file those that are built in.
fn settings(environment: &Environment, findings: &mut Findings) -> Loaded {
    match Loaded::read(environment, None).and_then(Loaded::strict) {
        Ok(loaded) => {
            let file = environment.system_file.display();
            let there = if environment.system_file_must_exist {
                ", named by GETGPU_CONFIG, replaces /etc/getgpu/config.toml"
            } else if environment.system_file.exists() {
                " is read"
            } else {
                " does not exist: using defaults"
            };
            findings.fine("settings", &format!("{file}{there}"));
            let prefix = environment.prefix_file.iter();
            for file in prefix.filter(|file| file.exists()) {
                findings.fine("settings", &format!("{} is read", file.display()));
            }
            without_members(&loaded.scoped, findings);
            if let Err(failure) = slurm::check_options(&loaded.settings.slurm.options) {
                findings.failed("settings", &failure, "getgpu --help lists what chooses");
            }
            loaded
        }
        Err(failure) => {
            findings.failed(
                "settings",
                &failure,
                "correct the line; man getgpu.toml lists the settings",
            );
            Loaded::default()
        }
    }
}

/// The lock, if there is one that can be used.
fn lock(
    environment: &Environment,
    settings: &Settings,
    findings: &mut Findings,
) -> Option<LockFile> {
    let remedy = "as root: systemd-tmpfiles --create getgpu.conf, or run getgpu once";
    let lock_file = match LockFile::find(environment.lock.clone(), settings.lock.clone()) {
        Ok(lock_file) => lock_file,
        Err(failure) => {
            findings.failed("lock", &failure, remedy);
            return None;
        }
    };
    if lock_file.origin == LockOrigin::Private {
        let text = format!(
            "there is no /run/getgpu: {} excludes only your own programs",
            lock_file.path.display()
        );
        findings.wrong("lock", &text, remedy);
    } else if !host_sharing::with_host(&lock_file) {
        let directory = lock_file.path.parent().unwrap_or(&lock_file.path).display();
        let text = format!("{}: not shared with the host", lock_file.path.display());
        findings.wrong("lock", &text, &format!("mount the host's {directory} here"));
    } else {
        findings.fine(
            "lock",
            &format!(
                "{}, a FIFO with the right owner and permissions",
                lock_file.path.display()
            ),
        );
    }
    Some(lock_file)
}

/// Whether something applies `max_idle`, be it set for a group or a user only.
fn monitor_runs(lock_file: Option<&LockFile>, loaded: &Loaded, findings: &mut Findings) {
    let Some(lock_file) = lock_file.filter(|_| loaded.limits_idleness()) else {
        return;
    };
    match monitor::runs(lock_file) {
        Some(true) => findings.fine("monitor", "getgpu --monitor applies max_idle"),
        Some(false) => {
            let text = "max_idle is set, and no getgpu --monitor runs: nothing applies it";
            let remedy = "systemctl enable --now getgpu-monitor";
            findings.wrong("monitor", text, remedy);
        }
        None => {}
    }
}

/// Devices on which leases end at once, as a running monitor has seen it.
fn short_leases(lock_file: Option<&LockFile>, findings: &mut Findings) {
    for (device, watched) in lock_file.map(watched::read).unwrap_or_default() {
        let Some(many) = watched.short_leases else {
            continue;
        };
        let text = format!(
            "{device}: {many} leases ended there within two seconds in the last ten minutes, while leases on other devices lasted"
        );
        let remedy = "look for Xid errors in dmesg, and run a CUDA program there; `excluded` takes the device out";
        findings.wrong("devices", &text, remedy);
    }
}

/// The site's lists against what there is.
fn lists(
    settings: &Settings,
    environment: &Environment,
    inventory: &Inventory,
    findings: &mut Findings,
) {
    let asked = match Asked::new(settings, environment, GrantUse::Ignore) {
        Ok(asked) => asked,
        Err(failure) => return findings.failed("lists", &failure, ""),
    };
    // One list may serve many nodes: entries for other nodes are no fault of this one.
    for line in asked.filter().bad_entries() {
        let remedy = "remove the entry; getgpu --list -v shows the UUIDs that exist";
        findings.wrong("lists", &line, remedy);
    }
    let pool = asked.filter().pool(inventory).count();
    let all = inventory.devices.len();
    match (pool, all) {
        (0, 1..) => {
            findings.wrong(
                "pool",
                "no device is handed out",
                "getgpu --explain --no-reserve says why for each",
            );
        }
        _ => findings.fine(
            "pool",
            &format!("{pool} of {} may be handed out", counted(all, "device")),
        ),
    }
}

/// The three programs beside each other, and what create-cudawrap says of wrapped
/// programs.
fn programs(directories: &[PathBuf], findings: &mut Findings) {
    for name in ["cudawrap", "create-cudawrap"] {
        match sibling(name) {
            Some(path) => findings.fine("programs", &path.display().to_string()),
            None => findings.wrong(
                "programs",
                &format!("{name} is not beside getgpu"),
                "install all three programs from one version",
            ),
        }
    }
    if let Some(creator) = sibling("create-cudawrap") {
        wrapped(&creator, directories, findings);
    }
}

/// What create-cudawrap says of wrapped programs, of those in `directories` if there are
/// any.
fn wrapped(creator: &Path, directories: &[PathBuf], findings: &mut Findings) {
    let mut command = Command::new(creator);
    command.arg("--status").args(directories);
    if directories.is_empty() {
        command.arg("--all");
        if !nix::unistd::geteuid().is_root() {
            let text = "what root has wrapped is not in your list: ask root, or name directories";
            findings.fine("wrapped", text);
        }
    }
    let Ok(output) = command.output() else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        findings.fine("wrapped", &counted(said.lines().count(), "program"));
        return;
    }
    for line in said.lines().filter(|line| !is_fine(line)) {
        let remedy = if line.contains(": foreign (migtools") {
            "create-cudawrap PATH takes it over"
        } else if line.contains(": foreign") {
            "find out what it is: create-cudawrap did not make it"
        } else if line.contains("install the package again") {
            "replace programs by install(1) or mv: cp, chmod and chown follow a link"
        } else {
            "create-cudawrap --repair PATH; where it refuses, it says what to do"
        };
        findings.wrong("wrapped", line, remedy);
    }
    for line in errors.lines().filter(|line| !line.contains(": hint: ")) {
        findings.wrong(
            "wrapped",
            line,
            "name files or directories that exist and can be read",
        );
    }
}

/// Whether a line of `create-cudawrap --status` asks for nothing to be done.
fn is_fine(line: &str) -> bool {
    [": wrapped", ": plain"]
        .iter()
        .any(|word| line.ends_with(word))
        || line.contains(": wrapped (")
}
