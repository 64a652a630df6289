//! The ways in which a program gets its device: every form that the commands know, as a
//! line of a shell.

/// How a program gets its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `cudawrap --`
    Run,
    /// The same, in the queue if none is free.
    Wait,
    /// A wrapped name.
    Link,
    /// Nobody wrapped it: libcudawrap.so.
    Unwrapped,
    /// A quarter of a device.
    Quarter,
    /// A reservation that no program uses.
    Idle,
    /// `--hold` under a tag, then `--release`.
    Release,
    /// A listing.
    List,
    /// `$(getgpu)`.
    Plain,
    /// `$(getgpu --wait)` in a shell that lives on.
    Patient,
    /// `$(getgpu --hold)` and two programs, one after the other.
    Session,
    /// A reserved quarter.
    Part,
    /// Two devices.
    Pair,
    /// getgpu in a time namespace, a day ahead.
    Ahead,
}

impl Way {
    pub(crate) const ALL: [Self; 14] = [
        Self::Run,
        Self::Wait,
        Self::Link,
        Self::Unwrapped,
        Self::Quarter,
        Self::Idle,
        Self::Release,
        Self::List,
        Self::Plain,
        Self::Patient,
        Self::Session,
        Self::Part,
        Self::Pair,
        Self::Ahead,
    ];

    /// The status that says that no device is free.
    pub(crate) const fn none(self) -> i32 {
        match self {
            Self::Run | Self::Wait | Self::Link | Self::Quarter => 75,
            Self::Unwrapped => 100,
            _ => 1,
        }
    }

    /// Those that stay a lease, or nothing, when any of their processes is killed. A
    /// reservation lives in its holder: without it, NVML is the only witness, and a
    /// program that has no context yet is not seen.
    pub(crate) const fn survives(self) -> bool {
        !matches!(
            self,
            Self::Plain | Self::Patient | Self::Session | Self::Part | Self::Pair | Self::Ahead
        )
    }

    /// Those whose shell need not fork: a shell that cannot waits for a quarter of a
    /// minute.
    pub(crate) const fn forkless(self) -> bool {
        matches!(
            self,
            Self::Run | Self::Wait | Self::Link | Self::Unwrapped | Self::Quarter | Self::Idle
        )
    }

    /// The line of the shell. `program` takes the words of sim-cuda.
    pub(crate) fn line(self, program: &str, time: u64, number: u64) -> String {
        let run = format!("{program} --init 20ms --run {time}ms --tag");
        match self {
            Self::Run => format!("exec cudawrap -- {run} x{number}"),
            Self::Wait => format!("exec cudawrap --wait=10 -- {run} x{number}"),
            Self::Link => format!("exec ../opt/app --init 20ms --run {time}ms --tag x{number}"),
            Self::Unwrapped => format!("CUDA_INJECTION64_PATH=$HOOK exec {run} x{number}"),
            Self::Quarter => {
                format!("exec cudawrap --share 1/4 --wait=10 -- {run} q{number} --max 4")
            }
            Self::Idle => "exec getgpu --for=1".to_owned(),
            Self::Release => format!(
                "getgpu --hold --tag soak{number} >/dev/null || exit; sleep 0.1; exec getgpu --release soak{number}"
            ),
            Self::List => {
                "getgpu --list --json >/dev/null && getgpu --queue >/dev/null && exec getgpu --count-free".to_owned()
            }
            Self::Plain => format!("d=$(getgpu) || exit; CUDA_VISIBLE_DEVICES=$d exec {run} x{number}"),
            Self::Patient => {
                format!("d=$(getgpu --wait=10) || exit; CUDA_VISIBLE_DEVICES=$d {run} x{number}; exit $?")
            }
            Self::Session => format!(
                "d=$(getgpu --hold) || exit; export CUDA_VISIBLE_DEVICES=$d; {run} x{number}; {run} x{number} || exit $?; : session"
            ),
            Self::Part => format!(
                "d=$(getgpu --share 1/4) || exit; CUDA_VISIBLE_DEVICES=$d exec {run} q{number} --max 4"
            ),
            Self::Pair => {
                format!("d=$(getgpu -n 2 --wait=10) || exit; CUDA_VISIBLE_DEVICES=$d exec {run} x{number}")
            }
            Self::Ahead => format!(
                "d=$(unshare -T --boottime 86400 --monotonic 86400 getgpu --wait=10) || exit; CUDA_VISIBLE_DEVICES=$d exec {run} x{number}"
            ),
        }
    }
}
