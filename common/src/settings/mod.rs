//! Settings: the system's file, the user's, the environment, the options; later wins, and policy is the system's alone.
//! `file` reads one file, `keys` is the one table of names, `allowed` reads the site's list of devices.

pub mod allowed;
pub mod environment;
pub mod file;
pub mod keys;

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Failure, Kind};
pub use environment::Environment;
pub use file::File;

/// The site's list of devices if no setting names another.
pub const ALLOWED_FILE: &str = "/usr/local/share/gpus/ids";

/// What sort of device is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// MIG devices if the pool has any, else whole GPUs.
    #[default]
    Auto,
    /// MIG devices only.
    Mig,
    /// Whole GPUs only.
    Gpu,
    /// Both.
    Any,
}

impl std::str::FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "mig" => Ok(Self::Mig),
            "gpu" => Ok(Self::Gpu),
            "any" => Ok(Self::Any),
            other => Err(format!("{other}: not one of auto, mig, gpu, any")),
        }
    }
}

/// A batch job without a grant: all devices, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutGrant {
    /// As outside a job.
    #[default]
    All,
    /// The job was given no GPU, so it gets none.
    None,
}

/// What to do where the lock is not the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unshared {
    /// Say so and go on.
    #[default]
    Warn,
    /// Go on.
    Quiet,
    /// Hand out nothing.
    Fail,
}

/// A wrapped program that cannot have the device it is to run on, or any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOrFail {
    /// Run it all the same.
    #[default]
    Run,
    /// Refuse.
    Fail,
}

/// Everything that can be set, with the built-in values.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Devices of the site; replaces the file.
    pub allowed: Option<Vec<String>>,
    /// The site's list of devices.
    pub allowed_file: PathBuf,
    /// Devices that are never chosen.
    pub excluded: Vec<String>,
    /// The lock, if not the host's usual one.
    pub lock: Option<PathBuf>,
    /// The NVIDIA library, if not `libnvidia-ml.so.1` of the loader's search.
    pub library: Option<PathBuf>,
    /// getgpu, if not beside cudawrap.
    pub getgpu: Option<PathBuf>,
    /// More memory in use than this, in bytes, makes a device busy; none: the larger of 128 MiB and 1 %.
    pub idle_memory: Option<u64>,
    /// Names of programs that do not make a device busy.
    pub ignore_processes: Vec<String>,
    /// How long NVML may take in all.
    pub nvml_timeout: Duration,
    /// A batch job without a grant.
    pub without_grant: WithoutGrant,
    /// A lock that is not the host's.
    pub unshared: Unshared,
    /// What sort of device is wanted.
    pub kind: Type,
    /// How long a reservation waits for its program.
    pub reserve_for: Duration,
    /// How long a reservation outlasts its last program while the caller lives.
    pub linger: Duration,
    /// A named device that somebody else has.
    pub when_taken: RunOrFail,
    /// No GPU here.
    pub when_no_gpu: RunOrFail,
}

impl Default for Settings {
    fn default() -> Self {
        let ignored = [
            "Xorg",
            "Xwayland",
            "gnome-shell",
            "kwin_wayland",
            "kwin_x11",
            "nvidia-cuda-mps-server",
            "nvidia-persistenced",
        ];
        Self {
            allowed: None,
            allowed_file: ALLOWED_FILE.into(),
            excluded: Vec::new(),
            lock: None,
            library: None,
            getgpu: None,
            idle_memory: None,
            ignore_processes: ignored.map(str::to_owned).into(),
            nvml_timeout: Duration::from_secs(30),
            without_grant: WithoutGrant::All,
            unshared: Unshared::Warn,
            kind: Type::Auto,
            reserve_for: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            when_taken: RunOrFail::Run,
            when_no_gpu: RunOrFail::Run,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    BuiltIn,
    /// A settings file.
    File(PathBuf),
    /// An environment variable.
    Variable(&'static str),
    /// An option of this call.
    Option(&'static str),
}

/// Settings in force, and where each comes from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub settings: Settings,
    /// Per key of [`keys::KEYS`], in that order.
    pub sources: Vec<(&'static str, Source)>,
    /// Keys that this version does not know; an error for those who are strict.
    pub unknown: Vec<String>,
}

impl Loaded {
    /// Reads the system's and the user's file. A missing file is fine, an unreadable or wrong one is not.
    pub fn read(environment: &Environment) -> Result<Self, Failure> {
        let mut loaded = Self {
            settings: Settings::default(),
            sources: keys::KEYS.iter().map(|key| (key.name, Source::BuiltIn)).collect(),
            unknown: Vec::new(),
        };
        // A system file that is there and cannot be reached may hold policy; only a missing one is none.
        let missing = std::fs::symlink_metadata(&environment.system_file)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if let Some(file) = File::read(&environment.system_file, environment.system_file_must_exist || !missing)? {
            loaded.apply(file, true)?;
        }
        if let Some(path) = &environment.user_file {
            if let Some(file) = File::read(path, false)? {
                loaded.apply(file, false)?;
            }
        }
        Ok(loaded)
    }

    fn apply(&mut self, file: File, system: bool) -> Result<(), Failure> {
        for key in keys::KEYS {
            if !file.has(key.name) {
                continue;
            }
            if key.policy && !system {
                let place = file.place(key.name);
                return Err(Failure::new(
                    Kind::Usage,
                    format!("{place}: `{}` can be set by the administrator only", key.name),
                )
                .hint("remove the line; policy belongs into /etc/getgpu/config.toml"));
            }
            self.from(key.name, Source::File(file.path().to_owned()));
        }
        self.unknown.extend(file.unknown());
        file.into_values()?.put(&mut self.settings);
        Ok(())
    }

    /// Notes where `key` has its value from.
    pub fn from(&mut self, key: &str, source: Source) {
        if let Some(entry) = self.sources.iter_mut().find(|(name, _)| *name == key) {
            entry.1 = source;
        }
    }

    /// An error if a file holds keys that this version does not know.
    pub fn strict(self) -> Result<Self, Failure> {
        match self.unknown.first() {
            None => Ok(self),
            Some(first) => Err(Failure::new(Kind::Usage, first.clone()).hint("getgpu --show-config lists the keys")),
        }
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
