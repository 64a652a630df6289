//! Which simulated CUDA programs have a context on which device, kept by the kernel
//! through file locks. A program that is killed in any way drops its lock, so nothing
//! needs cleaning and nothing stale is believed.

use crate::folder::Folder;
use crate::shared_file;
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A simulated program with a context, as its file in `running/` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Device.
    pub uuid: String,
    /// Process; in what [`Folder::running`] gives, as the reader's pid namespace sees it.
    pub pid: u32,
    /// Whether the process is outside the reader's pid namespace; `pid` is then its own.
    #[serde(skip)]
    pub foreign: bool,
    /// Memory its context takes, in bytes.
    pub memory: u64,
    /// How many programs it shares the device with at most, itself included; 1: none.
    pub max: u32,
    /// Its `--tag`.
    pub tag: String,
}

/// A context; it ends when this is dropped or the process dies, whichever comes first.
///
/// The lock is a classic POSIX record lock, for three reasons. The kernel gives it up
/// while it closes the descriptors of a dying process, whereas locks that belong to an
/// open file description go only when the description itself is released, later: a
/// context is therefore always gone before any lease (an open-file-description lock) that
/// the same process inherited, at whatever number either descriptor is, and the next
/// owner of the lease finds no false collision. It is not inherited by a fork, as a
/// context is not. And F_GETLK translates its pid for the reader's pid namespace, as the
/// driver does.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
    _locked: File,
}

/// Another program has the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken(pub Record);

impl Folder {
    /// Takes a context on the device of `record`, unless programs are there that it may
    /// not share with.
    ///
    /// The process that has a context must not list them afterwards: it cannot see a lock
    /// of its own, and closing any descriptor of the file drops it.
    pub fn register(&self, record: &Record) -> io::Result<Result<Registration, Taken>> {
        let file_name = file_name(&record.uuid);
        let gate =
            shared_file::open_or_create(&self.running_dir().join(format!("{file_name}.gate")))?;
        // One newcomer at a time on each device: of two that arrive together the second
        // always sees the first.
        let _gate = Flock::lock(gate, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        let others = self.running_on(&record.uuid)?;
        let places = others
            .iter()
            .map(|other| other.max)
            .chain([record.max])
            .min()
            .unwrap_or(1) as usize;
        if let Some(other) = others.get(places.saturating_sub(1)) {
            return Ok(Err(Taken(other.clone())));
        }
        let path =
            self.running_dir()
                .join(format!("{file_name}.{}.{}", record.pid, monotonic_ns()));
        let content = toml::to_string(record).map_err(io::Error::other)?;
        let (file, new) = shared_file::temporary(&path, &content)?;
        fcntl(&file, FcntlArg::F_SETLK(&whole_file(libc::F_WRLCK)))?;
        // It gets its name only with the lock, so a file without lock is always one that
        // a dead program left.
        fs::rename(new, &path)?;
        Ok(Ok(Registration {
            path,
            _locked: file,
        }))
    }

    /// All programs that have a context now.
    pub fn running(&self) -> io::Result<Vec<Record>> {
        self.records("MIG-").and_then(|mut all| {
            all.extend(self.records("GPU-")?);
            Ok(all)
        })
    }

    /// The programs that have a context on this device now.
    pub fn running_on(&self, uuid: &str) -> io::Result<Vec<Record>> {
        self.records(&format!("{}.", file_name(uuid)))
    }

    fn records(&self, prefix: &str) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(self.running_dir())? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name
                .to_str()
                .filter(|name| name.starts_with(prefix) && !name.ends_with(".gate"))
            else {
                continue;
            };
            records.extend(read_if_alive(&self.running_dir().join(name))?);
        }
        records.sort_by_key(|record| record.pid);
        Ok(records)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The record, if the program that wrote it is alive; otherwise the file is removed.
fn read_if_alive(path: &Path) -> io::Result<Option<Record>> {
    let mut file = match File::open(path) {
        // Its program has ended since the directory was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut lock = whole_file(libc::F_WRLCK);
    fcntl(&file, FcntlArg::F_GETLK(&mut lock))?;
    if lock.l_type == libc::F_UNLCK as libc::c_short {
        let _ = fs::remove_file(path);
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut record: Record = toml::from_str(&text).map_err(io::Error::other)?;
    match u32::try_from(lock.l_pid) {
        Ok(pid) if pid > 0 => record.pid = pid,
        _ => record.foreign = true,
    }
    Ok(Some(record))
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// UUIDs of the old form have slashes.
fn file_name(uuid: &str) -> String {
    uuid.replace('/', "_")
}

/// CLOCK_MONOTONIC in ns, the time in `runs.log`.
pub fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| {
        now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs()
    })
}

impl Folder {
    /// Notes in `runs.log` that a context began (`start`) or ends (`end`).
    pub fn note_run(&self, event: &str, record: &Record) -> io::Result<()> {
        let Record { uuid, pid, tag, .. } = record;
        shared_file::append(
            &self.path("runs.log"),
            &format!("{event} {} {uuid} {pid} {tag}", monotonic_ns()),
        )
    }

    /// Notes a collision in `collisions.log`.
    pub fn note_collision(&self, record: &Record, other: &Record) -> io::Result<()> {
        let Record { uuid, pid, tag, .. } = record;
        let line = format!(
            "{} {uuid} {pid} {} {tag} {}",
            monotonic_ns(),
            other.pid,
            other.tag
        );
        shared_file::append(&self.path("collisions.log"), &line)
    }
}
