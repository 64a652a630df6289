//! The options of cudawrap: what each is called and what it is for, and the texts around
//! them in the help. The parser, the help, the man page and the completions are made from
//! this struct; it needs nothing else of this program.

use getgpu_model::lease_tag;
use std::ffi::OsString;

use clap::{Command, CommandFactory, Parser, ValueHint};
use getgpu_cli::{Choosing, Common, HelpText, SHARE, Said, flags, one};

/// What was typed.
#[derive(Parser, Clone, Debug)]
#[command(name = "cudawrap", about = GUIDE.about, long_about = None)]
#[command(override_usage = "cudawrap [OPTIONS] [--] PROGRAM [ARG]...")]
pub struct CudawrapArguments {
    #[command(flatten)]
    pub choosing: Choosing,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub common: Common,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", num_args = 1.., trailing_var_arg = true)]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// How the program runs.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "How the program runs")]
pub struct Running {
    /// one: the program sees its own device only; first: its own first, then the other inherited
    /// ones; all: the inherited list unchanged
    #[arg(long, value_name = "WHICH")]
    pub visible: Option<String>,
    /// uuid, or index: CUDA_VISIBLE_DEVICES has numbers, for programs that read them (whole GPUs)
    #[arg(long, value_name = "HOW")]
    pub names: Option<String>,
    /// With --share: run as a client of NVIDIA's MPS daemon, which is started and ended as needed
    #[arg(long, help_heading = SHARE)]
    pub mps: bool,
    /// Run on the CPUs near the device; with --share, on a part of them that no other share has
    #[arg(long)]
    pub bind: bool,
    /// Show the lease under this name in listings, metrics and the log; the program has it in
    /// CUDAWRAP_TAG
    #[arg(long, value_name = "NAME", value_parser = lease_tag::parse)]
    pub tag: Option<String>,
    /// Take the device at the program's first CUDA call (libcudawrap.so), not now
    #[arg(long)]
    pub auto: bool,
}

impl Running {
    /// The settings that these options stand for, which have variables too. `--auto` has no
    /// meaning under a link. Each option is named, so that none is forgotten.
    pub fn said(&self) -> [Said; 4] {
        let Self {
            visible,
            names,
            mps,
            bind,
            auto: _,
            tag: _,
        } = self;
        let truth = |typed: &bool| one(typed.then(|| "true".to_owned()).as_ref());
        [
            ("visible", one(visible.as_ref())),
            ("names", one(names.as_ref())),
            ("mps", truth(mps)),
            ("bind", truth(bind)),
        ]
    }
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    flags::prepared(CudawrapArguments::command())
}

/// The texts beside the options.
pub const GUIDE: HelpText = HelpText {
    about: "Run a program on a free MIG device or GPU, leased until the program exits",
    common: &[
        "type",
        "count",
        "min-memory",
        "gpu",
        "policy",
        "share",
        "wait",
        "mps",
        "bind",
        "verbose",
        "help",
    ],
    note: "An executable that is a link to cudawrap runs its sibling CUDAWRAP_<name> in the same way, with every argument \
           untouched; create-cudawrap makes such links.",
    examples: &[
        (
            "one program; not started if no device is free",
            "cudawrap -- ./app",
        ),
        (
            "after waiting in the queue for a device with at least 10 GiB",
            "cudawrap --min-memory 10G --wait -- ./app",
        ),
        (
            "80 repetitions, two to a device",
            "parallel -j16 cudawrap --share 1/2 --wait -- ./rep {} ::: $(seq 80)",
        ),
        (
            "four ranks on four devices, waited for together: a rank does not wait on its own",
            "CUDA_VISIBLE_DEVICES=$(getgpu -n 4 --wait) mpirun -n 4 cudawrap -- ./app",
        ),
    ],
    exit: &[
        (
            "status",
            "that of the program, since this process becomes the program",
        ),
        (
            "75",
            "no device is free, no device became free in the time to wait, or your devices are at the site's limit",
        ),
        (
            "125",
            "cudawrap failed: wrong usage or settings, no driver, no such device exists here, the lock cannot be used",
        ),
        ("126", "the program cannot be run"),
        ("127", "the program was not found"),
    ],
    environment: &[
        (
            "CUDA_VISIBLE_DEVICES",
            "a grant: one of these devices is chosen",
        ),
        (
            "CUDAWRAP_NAME",
            "the same as option --NAME, also under a link: CUDAWRAP_TYPE, CUDAWRAP_COUNT, CUDAWRAP_PROFILE, CUDAWRAP_MODEL, \
             CUDAWRAP_MIN_MEMORY, CUDAWRAP_GPU, CUDAWRAP_POLICY, CUDAWRAP_SHARE, CUDAWRAP_WAIT (a time, or forever; not for one of several ranks), \
             CUDAWRAP_IGNORE_GRANT=1, CUDAWRAP_MPS=1 (or 0), CUDAWRAP_BIND=1 (or 0), CUDAWRAP_VISIBLE, CUDAWRAP_NAMES, CUDAWRAP_TAG",
        ),
        ("CUDAWRAP_DISABLE=1", "run the program unchanged"),
        (
            "GETGPU_CONFIG",
            "is read instead of /etc/getgpu/config.toml",
        ),
        (
            "GETGPU_LOCK",
            "is used instead of /run/getgpu/lock (for tests)",
        ),
    ],
};
