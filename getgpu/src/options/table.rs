//! The options of getgpu: what each is called and what it is for, and the texts around them
//! in the help. The parser, the help, the man page and the completions are made from this
//! struct; it needs nothing else of this program.

use clap::{Command, CommandFactory, Parser};
use getgpu_common::flags;
use getgpu_common::help_text::HelpText;
use getgpu_common::shared_flags::{Choosing, Common};

/// What `--hold` means without a value.
pub const CALLER: &str = "caller";

pub const FORMATS: [&str; 4] = ["uuid", "index", "env", "task"];
/// What `--format` takes beside `--list`.
pub const LIST_FORMATS: [&str; 4] = ["table", "json", "csv", "prometheus"];

/// What was typed.
#[derive(Parser, Clone, Debug)]
#[command(name = "getgpu", about = GUIDE.about, long_about = None)]
#[command(override_usage = "getgpu [OPTIONS] [INDEX]")]
pub struct Typed {
    #[command(flatten)]
    pub choosing: Choosing,
    #[command(flatten)]
    pub keeping: Keeping,
    #[command(flatten)]
    pub looking: Looking,
    #[command(flatten)]
    pub service: Service,
    #[command(flatten)]
    pub common: Common,
    /// The device with this number in getgpu --list, even if it is in use; reserved if it is
    /// free
    #[arg(value_name = "INDEX", num_args = 0..)]
    pub index: Vec<String>,
}

/// How a device is kept and given up.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Keeping it")]
pub struct Keeping {
    /// How long the reservation waits for its program to appear [default: 60]
    #[arg(long = "for", value_name = "TIME")]
    pub reserve_for: Option<String>,
    /// Keep the device until PID (default: the calling process) exits, whatever runs; 0: until it
    /// is released (root only)
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = CALLER)]
    pub hold: Option<String>,
    /// Name the reservation; without other options: print the devices reserved under NAME
    #[arg(long, value_name = "NAME")]
    pub tag: Option<String>,
    /// Reserve on behalf of UID (root only)
    #[arg(long, value_name = "UID")]
    pub uid: Option<String>,
    /// Only print a device, reserve nothing
    #[arg(long)]
    pub no_reserve: bool,
    /// Give up your reservation with this TAG, or of the device with this UUID or INDEX (root:
    /// anybody's)
    #[arg(long, value_name = "DEVICE-or-TAG")]
    pub release: Option<String>,
    /// Give up all your reservations (root: everybody's)
    #[arg(long)]
    pub release_all: bool,
}

/// What is shown, and how.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Looking")]
pub struct Looking {
    /// List all devices (-L does the same): state, user, program, since when
    #[arg(long, short = 'l', short_alias = 'L')]
    pub list: bool,
    /// With --list, --queue or --check: print JSON
    #[arg(long)]
    pub json: bool,
    /// With --list: only free devices
    #[arg(long)]
    pub free: bool,
    /// With --list: only devices that you hold or use
    #[arg(long)]
    pub mine: bool,
    /// With --list: only devices that this user holds or uses
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Show the list on a terminal and redraw it every SECONDS (default: 2) until you press q
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "2")]
    pub watch: Option<String>,
    /// List the waiters in the queue, each with its start and command, and since when devices are
    /// held
    #[arg(long)]
    pub queue: bool,
    /// Print the number of free devices
    #[arg(long)]
    pub count_free: bool,
    /// uuid, index (with CUDA_DEVICE_ORDER=PCI_BUS_ID; whole GPUs only), env (an export line) or
    /// task (env and, for a share, the variables that frameworks read); with --list: table, json,
    /// csv, prometheus
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// With --list: more columns, of the GPU: utilization, power, temperature
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// With --list: colours also in a pipe (always), or nowhere (never) [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub color: Option<String>,
    /// Also print, for every other device, why it was not chosen
    #[arg(long)]
    pub explain: bool,
    /// Check whether this node is set up and print a remedy for each problem (with -q: problems
    /// only); with DIR...: check the wrapped programs there too
    #[arg(long)]
    pub check: bool,
    /// Print each setting and where it comes from
    #[arg(long)]
    pub show_config: bool,
}

/// What services and batch systems call.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Other")]
pub struct Service {
    /// Watch the node as a service of root's: log the end of leases, apply max_idle, write metrics
    /// into FILE once a minute
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    pub monitor: Option<String>,
    /// Run as Slurm's prolog, task-prolog or epilog, which etc/slurm calls
    #[arg(long, value_name = "HOOK")]
    pub slurm: Option<String>,
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    flags::prepared(Typed::command())
}

/// The texts beside the options.
pub const GUIDE: HelpText = HelpText {
    about: "Print the UUID of a free MIG device or GPU, and keep it reserved for the program that will use it",
    common: &[
        "type",
        "count",
        "min-memory",
        "share",
        "wait",
        "hold",
        "release",
        "list",
        "watch",
        "check",
        "help",
    ],
    note: "",
    examples: &[
        (
            "one program, reserved until it exits",
            "CUDA_VISIBLE_DEVICES=$(getgpu) ./app",
        ),
        (
            "a shell session, reserved until this shell ends",
            "export CUDA_VISIBLE_DEVICES=$(getgpu --hold)",
        ),
        (
            "the same in Python, before CUDA is used",
            "os.environ[\"CUDA_VISIBLE_DEVICES\"] = subprocess.check_output([\"getgpu\", \"--hold\"], text=True).strip()",
        ),
        (
            "leased by the program itself; not started if no device is free",
            "cudawrap -- ./app",
        ),
        (
            "the smallest device with at least 10 GiB, after at most an hour in the queue",
            "d=$(getgpu --min-memory 10G --wait=1h) && CUDA_VISIBLE_DEVICES=$d ./app",
        ),
    ],
    exit: &[
        ("0", "done; a chosen device is printed"),
        (
            "1",
            "no device is free, or none became free in the time to wait; you are over the site's limit; --check found a problem",
        ),
        ("2", "wrong usage or settings, no such index"),
        (
            "3",
            "no driver, NVML failed or timed out, no such device exists here",
        ),
        (
            "4",
            "the lock cannot be used, or getgpu-hold cannot be started",
        ),
    ],
    environment: &[
        (
            "CUDA_VISIBLE_DEVICES",
            "a grant: only these devices are considered",
        ),
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
