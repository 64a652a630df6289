//! The disturbances of a soak, what each needs, and which statuses it may cause besides
//! those of a calm node.

use std::path::PathBuf;

use harness::skip;

use super::group::Group;

/// What disturbs the node while programs are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Calm,
    /// CLOCK_REALTIME is set back and forth, by years.
    Clock,
    /// CLOCK_MONOTONIC and CLOCK_BOOTTIME leap by minutes, as after a suspend.
    Leap,
    /// Every process of the node is stopped for seconds, then goes on.
    Stop,
    /// A memory cgroup so small that the kernel kills.
    Memory,
    /// A small RLIMIT_NOFILE: EMFILE.
    Files,
    /// A small RLIMIT_AS: ENOMEM.
    Space,
    /// A small RLIMIT_NPROC: EAGAIN from fork.
    Processes,
    /// A stranger takes 10,000 ranges of the lock and gives them back.
    Foreign,
    /// SIGKILL of random processes.
    Kills,
}

/// The library that shows processes another clock.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

impl Kind {
    /// In the order in which they come.
    pub(crate) const ALL: [Self; 10] = [
        Self::Calm,
        Self::Clock,
        Self::Stop,
        Self::Files,
        Self::Kills,
        Self::Foreign,
        Self::Memory,
        Self::Leap,
        Self::Processes,
        Self::Space,
    ];

    /// For the CSV file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Clock => "clock",
            Self::Leap => "leap",
            Self::Stop => "stop",
            Self::Memory => "memory",
            Self::Files => "files",
            Self::Space => "space",
            Self::Processes => "processes",
            Self::Foreign => "foreign",
            Self::Kills => "kills",
        }
    }

    /// Whether this machine has what it takes; otherwise it has been said.
    pub(crate) fn possible(self) -> bool {
        let why = match self {
            Self::Clock | Self::Leap if faketime().is_none() => "libfaketime is not installed",
            Self::Memory if Group::new().is_none() => "no memory cgroup can be made here",
            Self::Processes if !nix::unistd::geteuid().is_root() => "not run as root",
            _ => return true,
        };
        skip::say(&format!("disturbance {}: {why}", self.name()));
        false
    }

    /// Statuses that it may cause, with a line that says so.
    pub(crate) const fn statuses(self) -> &'static [i32] {
        match self {
            Self::Calm | Self::Clock | Self::Foreign => &[],
            // The wait, or the time that NVML may take, has passed.
            Self::Leap | Self::Stop => &[1, 3, 4, 75, 100, 125],
            // 137: a shell's word for a killed child.
            Self::Kills => &[1, 3, 4, 100, 125, 137],
            // 2 is a settings file that cannot be read, or a shell that cannot fork.
            Self::Memory => &[1, 2, 3, 4, 100, 125, 126, 127, 137, 254],
            Self::Files | Self::Space | Self::Processes => &[1, 2, 3, 4, 100, 125, 126, 127, 254],
        }
    }

    /// Signals that a launch may end by.
    pub(crate) const fn signals(self) -> &'static [i32] {
        match self {
            Self::Kills | Self::Memory => &[9],
            // A stopped process whose group loses its last link to its session (setpgid(2)).
            Self::Stop => &[1],
            _ => &[],
        }
    }

    /// Whether other programs than ours (shells, the loader) may write lines too.
    pub(crate) const fn others_speak(self) -> bool {
        matches!(
            self,
            Self::Memory | Self::Files | Self::Space | Self::Processes | Self::Kills
        )
    }
}

/// Where libfaketime is.
pub(crate) fn faketime() -> Option<PathBuf> {
    FAKETIME
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file())
}
