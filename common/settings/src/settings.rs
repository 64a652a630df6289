//! Everything that can be set, with the built-in values. Each field has a row in `keys`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use getgpu_model::{Selector, Share, quantity};

use crate::{
    ArgvZero, AutoSettings, DeviceNames, EnforceMemory, IdleAction, LeaseAt, Log, Policy,
    RunOrFail, Shown, SlurmSettings, SlurmTasks, Type, Unshared, Wait, WithoutGrant,
};

/// The site's list of devices if no setting names another.
pub(crate) const ALLOWED_FILE: &str = "/usr/local/share/gpus/ids";

/// Everything that can be set, with the built-in values.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Devices of the site; replaces the file.
    pub allowed: Option<Vec<String>>,
    /// The site's list of devices.
    pub allowed_file: PathBuf,
    /// Whether the list may be the caller's own: they named the settings, by
    /// GETGPU_CONFIG.
    pub callers_list: bool,
    /// Devices that are never chosen.
    pub excluded: Vec<String>,
    /// The lock, if not the host's usual one.
    pub lock: Option<PathBuf>,
    /// The NVIDIA library, if not `libnvidia-ml.so.1` of the loader's search.
    pub library: Option<PathBuf>,
    /// getgpu, if not beside cudawrap.
    pub getgpu: Option<PathBuf>,
    /// More memory in use than this, in bytes, makes a device busy; none: the larger of
    /// 128 MiB and 1 %, in a container 64 MiB.
    pub idle_memory: Option<u64>,
    /// DeviceNames of programs that do not make a device busy.
    pub ignore_processes: Vec<String>,
    /// Where no processes are listed, memory alone decides.
    pub memory_decides: bool,
    /// How long NVML may take in all.
    pub nvml_timeout: Duration,
    /// A batch job without a grant.
    pub without_grant: WithoutGrant,
    /// A lock that is not the host's.
    pub unshared: Unshared,
    /// Devices that one user may have at a time.
    pub max_per_user: Option<u32>,
    /// The longest that --hold keeps a device.
    pub max_hold: Option<Duration>,
    /// How long a reservation of --hold may be without use.
    pub max_idle: Option<Duration>,
    /// What becomes of it then.
    pub idle_action: IdleAction,
    /// The longest wait in the queue.
    pub max_wait: Option<Duration>,
    /// Where leases are written down.
    pub log: Log,
    /// Programs that load libcudawrap.so.
    pub auto: AutoSettings,
    /// What sort of device is wanted.
    pub kind: Type,
    /// How many devices are chosen at a time.
    pub count: u32,
    /// More, up to so many, where they are free.
    pub count_most: u32,
    /// Whether as many are, as the grant has, where there is one.
    pub count_all: bool,
    /// Only MIG devices of these profiles; empty: of any.
    pub profile: Vec<String>,
    /// Only devices on GPUs whose names have one of these parts; empty: on any.
    pub model: Vec<String>,
    /// Parts of the names of GPUs whose devices are taken first.
    pub prefer_model: Vec<String>,
    /// Only devices, or shares, with at least so many bytes of memory.
    pub min_memory: Option<u64>,
    /// Only devices on these GPUs; empty: on any.
    pub gpu: Vec<Selector>,
    /// Which of the free devices; none: a random one, or for a share the least loaded.
    pub policy: Option<Policy>,
    /// A part of a device; none: a whole one.
    pub share: Option<Share>,
    /// Whether the share comes from a settings file, and not from an option or a variable
    /// of this call.
    pub share_by_default: bool,
    /// Whether ranks that are more than the devices share them also where nothing was
    /// granted; a share that was set excludes it.
    pub share_auto: bool,
    /// What a program sees of the devices that it could have had.
    pub visible: Shown,
    /// How CUDA_VISIBLE_DEVICES names a program's devices.
    pub names: DeviceNames,
    /// How long to wait in the queue.
    pub wait: Wait,
    /// How long a reservation waits for its program.
    pub reserve_for: Duration,
    /// How long a reservation outlasts its last program while the caller lives.
    pub linger: Duration,
    /// DeviceNames of programs besides the usual agents and servers that keep no device.
    pub background_programs: Vec<String>,
    /// What becomes of a program whose named device another user has.
    pub when_taken: RunOrFail,
    /// No GPU here.
    pub when_no_gpu: RunOrFail,
    /// What a wrapped program finds as argv\[0\].
    pub argv0: ArgvZero,
    /// When a wrapped program takes its device.
    pub lease: LeaseAt,
    /// Whether TensorFlow and JAX are told how much memory a share has.
    pub framework_memory: bool,
    /// Whether programs with a share are clients of an MPS daemon.
    pub mps: bool,
    /// Whether programs run on the CPUs near their device only.
    pub bind: bool,
    /// Whether the driver keeps jobs of Slurm to their parts of a GPU's memory.
    pub enforce_memory: EnforceMemory,
    /// Slurm's hooks.
    pub slurm: SlurmSettings,
    /// Where a file sets what it sets: `path:line`, by setting.
    pub places: BTreeMap<&'static str, String>,
}

impl Settings {
    /// How long a call waits in the queue, by what it asks for and what the site allows.
    pub fn longest_wait(&self) -> Wait {
        self.wait.capped(self.max_wait)
    }

    /// The line for a user who asked to wait longer than the site allows.
    pub fn wait_is_cut(&self) -> Option<String> {
        let most = self.max_wait.filter(|_| self.longest_wait() != self.wait)?;
        Some(format!(
            "waiting for at most {}, the limit of this node (max_wait)",
            quantity::time_text(most)
        ))
    }

    /// The line for a user who asked for a reservation that lasts longer than the site
    /// allows; none: without end.
    pub fn hold_is_cut(&self, asked: Option<Duration>) -> Option<String> {
        let most = self
            .max_hold
            .filter(|most| asked.is_none_or(|asked| asked > *most))?;
        Some(format!(
            "reserved for at most {}, the limit of this node (max_hold)",
            quantity::time_text(most)
        ))
    }

    /// Whether this node's devices are shared by parts that Slurm's prolog reserves, as the site's file
    /// says.
    pub fn shares_by_parts(&self) -> bool {
        self.places.contains_key("slurm.shares") && !self.slurm.shares.is_empty()
    }

    /// Whether a batch job without a grant may use no device. Where devices are shared by parts that
    /// is so unless the site says otherwise, or has the TaskProlog give devices to such jobs.
    pub fn hides_ungranted(&self) -> bool {
        let is_said = self.places.contains_key("without_grant");
        let by_hook = !matches!(self.slurm.tasks, SlurmTasks::Auto | SlurmTasks::Asked);
        let by_default = !is_said && self.shares_by_parts() && !by_hook;
        by_default || self.without_grant == WithoutGrant::None
    }
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
            callers_list: false,
            excluded: Vec::new(),
            lock: None,
            library: None,
            getgpu: None,
            idle_memory: None,
            background_programs: Vec::new(),
            ignore_processes: ignored.map(str::to_owned).into(),
            memory_decides: false,
            nvml_timeout: Duration::from_secs(30),
            without_grant: WithoutGrant::All,
            unshared: Unshared::Warn,
            max_per_user: None,
            max_hold: None,
            max_idle: None,
            idle_action: IdleAction::Log,
            max_wait: None,
            log: Log::None,
            auto: AutoSettings::default(),
            kind: Type::Auto,
            count: 1,
            count_most: 1,
            count_all: false,
            profile: Vec::new(),
            model: Vec::new(),
            prefer_model: Vec::new(),
            min_memory: None,
            gpu: Vec::new(),
            policy: None,
            share: None,
            share_by_default: true,
            share_auto: false,
            visible: Shown::One,
            names: DeviceNames::Uuid,
            wait: Wait::NO,
            reserve_for: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            when_taken: RunOrFail::Run,
            when_no_gpu: RunOrFail::Run,
            argv0: ArgvZero::Name,
            lease: LeaseAt::Start,
            framework_memory: true,
            mps: false,
            bind: false,
            enforce_memory: EnforceMemory::default(),
            slurm: SlurmSettings::default(),
            places: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
#[path = "settings_properties.rs"]
mod properties;

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
