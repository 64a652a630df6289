//! The flag table of getgpu: what each option is called and what it is for, and the texts
//! around it in the help. The parser, the help, the man page and the completions are made
//! from it; it needs nothing else of this program.

use clap::{Arg, ArgAction, Command};
use getgpu_common::flags::{self, Flag, Takes, flag};
use getgpu_common::help_text::HelpText;
use getgpu_common::shared_flags;

const KEEP: &str = "Keeping it";
const SHOW: &str = "Looking";
const OTHER: &str = "Other";
/// What `--hold` means without a value.
pub const CALLER: &str = "caller";

/// How often `--watch` looks without a value.
pub const WATCH: &str = "2";

pub const FORMATS: [&str; 4] = ["uuid", "index", "env", "task"];
/// What `--format` takes beside `--list`.
pub const LIST_FORMATS: [&str; 4] = ["table", "json", "csv", "prometheus"];

/// What only getgpu has.
const FLAGS: &[Flag] = &[
    flag(
        "for",
        &[],
        Takes::Value("TIME"),
        KEEP,
        "How long the reservation waits for its program to appear [default: 60]",
    ),
    flag(
        "hold",
        &[],
        Takes::Optional {
            name: "PID",
            default: CALLER,
        },
        KEEP,
        "Keep the device until PID (default: the calling process) exits, whatever runs; 0: until it is released (root only)",
    ),
    flag(
        "tag",
        &[],
        Takes::Value("NAME"),
        KEEP,
        "Name the reservation; without other options: print the devices reserved under NAME",
    ),
    flag(
        "uid",
        &[],
        Takes::Value("UID"),
        KEEP,
        "Reserve on behalf of UID (root only)",
    ),
    flag(
        "no-reserve",
        &[],
        Takes::Nothing,
        KEEP,
        "Only print a device, reserve nothing",
    ),
    flag(
        "release",
        &[],
        Takes::Value("DEVICE-or-TAG"),
        KEEP,
        "Give up your reservation with this TAG, or of the device with this UUID or INDEX (root: anybody's)",
    ),
    flag(
        "release-all",
        &[],
        Takes::Nothing,
        KEEP,
        "Give up all your reservations (root: everybody's)",
    ),
    flag(
        "list",
        &['l', 'L'],
        Takes::Nothing,
        SHOW,
        "List all devices: state, user, program, since when",
    ),
    flag(
        "json",
        &[],
        Takes::Nothing,
        SHOW,
        "With --list or --queue: print JSON",
    ),
    flag(
        "free",
        &[],
        Takes::Nothing,
        SHOW,
        "With --list: only free devices",
    ),
    flag(
        "mine",
        &[],
        Takes::Nothing,
        SHOW,
        "With --list: only devices that you hold or use",
    ),
    flag(
        "user",
        &[],
        Takes::Value("NAME"),
        SHOW,
        "With --list: only devices that this user holds or uses",
    ),
    flag(
        "watch",
        &[],
        Takes::Optional {
            name: "SECONDS",
            default: WATCH,
        },
        SHOW,
        "Show the list on a terminal and redraw it every SECONDS (default: 2) until you press q",
    ),
    flag(
        "queue",
        &[],
        Takes::Nothing,
        SHOW,
        "List the waiters in the queue, each with its start and command",
    ),
    flag(
        "count-free",
        &[],
        Takes::Nothing,
        SHOW,
        "Print the number of free devices",
    ),
    flag(
        "format",
        &[],
        Takes::Value("FORMAT"),
        SHOW,
        "uuid, index (with CUDA_DEVICE_ORDER=PCI_BUS_ID; whole GPUs only), env (an export line) or task (env and, for a share, the variables that frameworks read); with --list: table, json, csv, prometheus",
    ),
    flag(
        "explain",
        &[],
        Takes::Nothing,
        SHOW,
        "Also print, for every other device, why it was not chosen",
    ),
    flag(
        "check",
        &[],
        Takes::Nothing,
        SHOW,
        "Check whether this node is set up and print a remedy for each problem; with DIR...: check the wrapped programs there too",
    ),
    flag(
        "monitor",
        &[],
        Takes::Optional {
            name: "FILE",
            default: "",
        },
        OTHER,
        "Watch the node as a service of root's: log the end of leases, apply max_idle, write metrics into FILE once a minute",
    ),
    flag(
        "slurm",
        &[],
        Takes::Value("HOOK"),
        OTHER,
        "Run as Slurm's prolog, task-prolog or epilog, which etc/slurm calls",
    ),
    flag(
        "show-config",
        &[],
        Takes::Nothing,
        SHOW,
        "Print each setting and where it comes from",
    ),
];

/// Every option of getgpu.
pub fn table() -> impl Iterator<Item = Flag> {
    shared_flags::CHOOSING
        .into_iter()
        .chain(FLAGS.iter().copied())
        .chain(shared_flags::COMMON)
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    let index = Arg::new("index")
        .value_name("INDEX")
        .num_args(0..)
        .action(ArgAction::Append)
        .help("The device with this number in getgpu --list, even if it is in use; reserved if it is free");
    flags::command("getgpu", GUIDE.about, table())
        .arg(index)
        .override_usage("getgpu [OPTIONS] [INDEX]")
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
