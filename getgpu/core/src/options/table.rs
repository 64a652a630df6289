//! The options of getgpu: what each is called, what it is for and what excludes it, and the
//! texts around them in the help. The parser, the help, the man page and the completions are
//! made from this struct; it needs nothing else of this program.

use getgpu_model::lease_tag;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, Parser, ValueEnum};
use getgpu_cli::{Choosing, Common, HelpText, flags};
use getgpu_model::{Gauge, quantity};

/// How an answer or a listing is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Uuid,
    Index,
    /// A line for the shell.
    Env,
    /// Export lines for a task: CUDA_VISIBLE_DEVICES, and for a part of a device what
    /// frameworks read.
    Task,
    Table,
    Json,
    Csv,
    /// For node_exporter's textfile collector.
    Prometheus,
    /// Nothing is printed.
    #[value(skip)]
    Nothing,
}

/// What a row of a report is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportBy {
    User,
    Tag,
    Program,
}

/// When a table has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that shows them.
    Auto,
    Always,
    Never,
}

/// When Slurm calls (slurm.conf(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hook {
    /// On a node, before a job.
    Prolog,
    /// Before each task.
    TaskProlog,
    /// On a node, behind a job.
    Epilog,
}

/// What is done instead of printing a device, each alone but for `--list --watch`, which
/// means the same as `--watch`. Beside the first one words may stand.
#[rustfmt::skip]
const NO_DEVICE: [&str; 11] = [
    "check", "queue", "wanted", "report", "count_free", "release", "release_all", "monitor", "slurm", "list", "watch",
];
/// What has no meaning beside that.
#[rustfmt::skip]
const FOR_A_DEVICE: [&str; 12] = [
    "wait", "wait_letter", "count", "policy", "prefer_model", "reserve_for", "hold", "tag", "uid", "no_reserve",
    "explain", "show_config",
];
/// Actions of these that are about calls, users and all devices, and what chooses by kind, which
/// has no meaning beside them.
const OF_NO_KIND: [&str; 3] = ["queue", "report", "wanted"];
const BY_KIND: [&str; 6] = ["type", "profile", "model", "min_memory", "gpu", "share"];

/// What was typed.
#[derive(Parser, Clone, Debug)]
#[command(name = "getgpu", about = GUIDE.about, long_about = None)]
#[command(override_usage = "getgpu [OPTIONS] [INDEX]")]
pub struct GetgpuArguments {
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
    #[arg(conflicts_with = "show_config")]
    pub index: Vec<String>,
}

/// How a device is kept and given up.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Keeping it")]
pub struct Keeping {
    /// How long the reservation waits for its program to appear [default: 60]
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub reserve_for: Option<Duration>,
    /// Keep the device until PID (default: the calling process) exits, whatever runs; 0: until it
    /// is released (root only)
    #[arg(long, value_name = "PID", require_equals = true, value_parser = process_id)]
    pub hold: Option<Option<i32>>,
    /// Name the reservation; without other options: print the devices reserved under NAME
    #[arg(long, value_name = "NAME", value_parser = lease_tag::parse)]
    #[arg(conflicts_with = "show_config")]
    pub tag: Option<String>,
    /// Reserve on behalf of UID (root only)
    #[arg(long, value_name = "UID", value_parser = user_id)]
    #[arg(conflicts_with = "show_config")]
    pub uid: Option<u32>,
    /// Only print a device, reserve nothing
    #[arg(long, conflicts_with_all = ["reserve_for", "hold", "tag", "uid"])]
    pub no_reserve: bool,
    /// Give up your reservation with this TAG, or of the device with this INDEX or UUID, or of
    /// several UUIDs as they were printed (root: anybody's)
    #[arg(long, value_name = "DEVICE-or-TAG", value_parser = NonEmptyStringValueParser::new())]
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
    #[arg(long, short = 'l', visible_short_alias = 'L')]
    pub list: bool,
    /// With --list, --queue, --report or --check: print JSON
    #[arg(long, conflicts_with = "format")]
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
    /// With --list: the listings of other hosts (getgpu --list --json, a line each) in these files, or
    /// on standard input (-), as one table
    #[arg(long, value_name = "FILE", num_args = 1..)]
    #[arg(conflicts_with_all = ["json", "watch", "columns"])]
    pub from: Vec<PathBuf>,
    /// Show the list on a terminal and redraw it every SECONDS (default: 2) until you press q
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "2", value_parser = quantity::time)]
    #[arg(conflicts_with_all = ["json", "format"])]
    pub watch: Option<Duration>,
    /// List the waiters in the queue, each with its start and command, and since when devices are
    /// held
    #[arg(long)]
    pub queue: bool,
    /// Whether to make room: exit status 0 if a call waits in the queue while you hold a device,
    /// else 1
    #[arg(long)]
    pub wanted: bool,
    /// Sum up the lines of the system's log (journalctl, or standard input): starts, device hours
    /// and refusals by user (default), tag or program
    #[arg(long, value_name = "BY", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "user", value_parser = report_by)]
    pub report: Option<ReportBy>,
    /// With --report: lines of the journal since TIME, as journalctl has it
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Print the number of free devices
    #[arg(long)]
    pub count_free: bool,
    /// uuid, index (with CUDA_DEVICE_ORDER=PCI_BUS_ID; whole GPUs only), env (an export line) or
    /// task (env and, for a share, the variables that frameworks read); with --list: table, json,
    /// csv, prometheus
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,
    /// With --list: more columns, of the GPU: utilization, power, temperature
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub columns: Vec<Gauge>,
    /// With --list: colours also in a pipe (always), or nowhere (never)
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
    /// Also print, for every other device, why it was not chosen
    #[arg(long)]
    pub explain: bool,
    /// Check whether this node is set up and print a remedy for each problem (with -q: problems
    /// only); with DIR...: check the wrapped programs there too
    #[arg(long)]
    pub check: bool,
    /// With --check: only the GPUs for which a reset, a reboot or a repair is due
    #[arg(long, requires = "check")]
    pub health: bool,
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
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub monitor: Option<Option<PathBuf>>,
    /// Run as Slurm's prolog, task-prolog or epilog, which etc/slurm calls
    #[arg(long, value_name = "HOOK", hide_possible_values = true)]
    pub slurm: Option<Hook>,
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    flags::prepared(GetgpuArguments::command())
}

/// Two options that were typed and exclude each other beyond what clap is told: one that
/// prints no device, and one that has no meaning beside it. (To tell clap of each pair costs
/// a twentieth of what a pick takes.)
pub fn exclusion(typed: &ArgMatches) -> Option<[&'static str; 2]> {
    let is_typed = |id: &&str| typed.value_source(id) == Some(ValueSource::CommandLine);
    let mut actions = NO_DEVICE.into_iter().filter(is_typed);
    let action = actions.next()?;
    let second = actions.next().filter(|_| action != "list");
    let by_kind = BY_KIND.into_iter().filter(|_| OF_NO_KIND.contains(&action));
    let mut others = FOR_A_DEVICE.into_iter().chain(by_kind);
    let word = Some("index").filter(|word| action != "check" && is_typed(word));
    Some([action, second.or_else(|| others.find(is_typed)).or(word)?])
}

fn report_by(text: &str) -> Result<ReportBy, String> {
    let by = ReportBy::from_str(text, false);
    by.map_err(|_| format!("`{text}` is not user, tag or program"))
}

fn process_id(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid >= 0);
    pid.ok_or_else(|| format!("`{text}` is not a process id"))
}

fn user_id(text: &str) -> Result<u32, String> {
    // The last number stands for no user at all (setuid(2)).
    let uid = text.parse().ok().filter(|uid| *uid != u32::MAX);
    uid.ok_or_else(|| format!("`{text}` is not a user id"))
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
            "no device is free, no device became free in the time to wait, your devices are at the site's limit, --check found a problem, --report found nothing, --wanted found that no call waits, or nothing is reserved under what --tag or --release names",
        ),
        ("2", "wrong usage or settings, no such index"),
        (
            "3",
            "no driver, NVML failed or timed out, no such device exists here, or more are wanted than the site's limit",
        ),
        (
            "4",
            "standard output cannot be written, the lock cannot be used, or getgpu-hold cannot be started",
        ),
    ],
    environment: &[
        (
            "CUDA_VISIBLE_DEVICES",
            "a grant: only these devices are considered",
        ),
        (
            "CUDAWRAP_TAG",
            "a name under which the reservation is shown, unless --tag names it",
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
