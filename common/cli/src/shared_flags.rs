//! The options that several programs have: those that choose, share and wait, which
//! getgpu and cudawrap take alike, and those that every program has.

use clap::Args;

use getgpu_model::Verbosity;
use getgpu_settings::policy_words;

/// The choosing, sharing and waiting options. Each stands for the setting of its name,
/// and under cudawrap the variable `CUDAWRAP_NAME` stands for it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which device")]
pub struct Choosing {
    /// auto (MIG devices if there are any, else whole GPUs), mig, gpu or any
    #[arg(id = "type", long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// N different devices, separated by commas; all or none; whole GPUs: those that are connected
    /// best; 2..4: as many as there are, at least 2
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) count: Option<String>,
    /// Only MIG devices with this profile (1g.10gb), the smallest first; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Vec<String>,
    /// Only devices on GPUs of this model (H100), a part of what NVML calls them; may be repeated
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
    /// Devices on GPUs of this model if there are any free, else any that fit; may be repeated
    #[arg(long, value_name = "MODEL")]
    pub(crate) prefer_model: Vec<String>,
    /// Only devices (with --share: shares) with at least SIZE of memory (10G is 10 GiB), the
    /// smallest first
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_memory: Option<String>,
    /// Only devices on this GPU: its NVML index or UUID; may be repeated
    #[arg(long, value_name = "GPU")]
    pub(crate) gpu: Vec<String>,
    #[arg(long, value_name = "POLICY", help = policy_words!())]
    pub(crate) policy: Option<String>,
    /// Ignore an inherited CUDA_VISIBLE_DEVICES
    #[arg(long)]
    pub ignore_grant: bool,
    /// A part of a device: 1/2, 0.5, 25%, or a size (10G), on the least loaded device
    #[arg(long, value_name = "F", help_heading = SHARE)]
    pub share: Option<String>,
    /// Wait in the queue, first come, first served, for as long as it takes or for at most TIME
    /// (--wait=30, -w 1.5m, -w 2h)
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "forever", help_heading = SHARE)]
    pub(crate) wait: Option<String>,
    /// The same as --wait=TIME
    #[arg(short = 'w', value_name = "TIME", conflicts_with = "wait", help_heading = SHARE)]
    pub(crate) wait_letter: Option<String>,
}

/// Heading of the options that share and wait.
pub const SHARE: &str = "Sharing and waiting";

/// A setting that an option stands for, and what was typed of it.
pub type Said = (&'static str, Vec<String>);

impl Choosing {
    /// All settings that these options stand for. Each option is named here, so that one that
    /// is added does not compile before it says which setting it is, or that it is none.
    pub fn said(&self) -> Vec<Said> {
        let Self {
            kind,
            count,
            profile,
            model,
            prefer_model,
            min_memory,
            gpu,
            policy,
            ignore_grant: _,
            share,
            wait,
            wait_letter,
        } = self;
        vec![
            ("type", one(kind.as_ref())),
            ("count", one(count.as_ref())),
            ("profile", profile.clone()),
            ("model", model.clone()),
            ("prefer_model", prefer_model.clone()),
            ("min_memory", one(min_memory.as_ref())),
            ("gpu", gpu.clone()),
            ("policy", one(policy.as_ref())),
            ("share", one(share.as_ref())),
            ("wait", one(wait.as_ref().or(wait_letter.as_ref()))),
        ]
    }
}

/// What was typed of an option that has one value.
pub fn one(text: Option<&String>) -> Vec<String> {
    text.into_iter().cloned().collect()
}

/// The options that every program has at the end.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Other")]
pub struct Common {
    /// Print what is decided and why
    #[arg(long, short = 'v')]
    pub verbose: bool,
    /// Print errors only, no hints
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// Print the version
    #[arg(long, short = 'V')]
    pub version: bool,
    /// Print help: the common options (-h) or everything (--help)
    #[arg(long, short = 'h')]
    pub help: bool,
}

impl Common {
    /// How much is to be said.
    pub fn level(self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}
