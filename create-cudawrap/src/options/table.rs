//! The flag table of create-cudawrap: what each option is called and what it is for, and
//! the texts around it in the help. The parser, the help, the man page and the
//! completions are made from it; it needs nothing else of this program.

use std::path::PathBuf;

use clap::{Arg, Command, ValueHint, value_parser};
use getgpu_common::flags::{self, Flag, Takes, flag};
use getgpu_common::help_text::HelpText;

/// The program's name in every message, whatever it was called by.
pub const PROGRAM: &str = "create-cudawrap";

const TASK: &str = "What to do (without any of these: wrap)";
const HOW: &str = "How";

/// What only create-cudawrap has.
const FLAGS: &[Flag] = &[
    flag(
        "undo",
        &[],
        Takes::Nothing,
        TASK,
        "Put the program back under its name, the same file that it was; in a directory, every wrapped program",
    ),
    flag(
        "repair",
        &[],
        Takes::Nothing,
        TASK,
        "Wrap the new program after an upgrade replaced the link; renew links to a cudawrap that is gone",
    ),
    flag(
        "status",
        &[],
        Takes::Nothing,
        TASK,
        "Show a line for each PATH, or for each wrapped program in it if it is a directory; status 1 if one needs attention",
    ),
    flag(
        "json",
        &[],
        Takes::Nothing,
        TASK,
        "With --status: print JSON",
    ),
    flag(
        "all",
        &[],
        Takes::Nothing,
        TASK,
        "With --undo, --repair, --status: every path noted when it was wrapped",
    ),
    flag(
        "link-dir",
        &[],
        Takes::Value("DIR"),
        HOW,
        "Leave the program alone and put a link of its name into DIR, which comes before it in PATH",
    ),
    flag(
        "divert",
        &[],
        Takes::Nothing,
        HOW,
        "On Debian: let dpkg write CUDAWRAP_name from now on, so that upgrades keep the link",
    ),
    flag(
        "dry-run",
        &['n'],
        Takes::Nothing,
        HOW,
        "Print what would be done",
    ),
    flag(
        "force",
        &[],
        Takes::Nothing,
        HOW,
        "Wrap also a package's file, one under an AppArmor profile, one on a network file system without cudawrap",
    ),
    flag(
        "wrapper",
        &[],
        Takes::Value("PATH"),
        HOW,
        "Make links to this cudawrap",
    ),
];

/// Every option of create-cudawrap.
pub fn table() -> impl Iterator<Item = Flag> {
    FLAGS.iter().copied().chain(flags::COMMON)
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    let paths = Arg::new("paths")
        .value_name("PATH")
        .num_args(0..)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::AnyPath)
        .help("The programs to wrap; a symbolic link is the link, not what it leads to");
    let path = |arg: Arg, hint| {
        arg.value_parser(value_parser!(PathBuf))
            .value_hint(hint)
            .allow_hyphen_values(false)
    };
    flags::command(PROGRAM, GUIDE.about, table())
        .mut_arg("link-dir", |arg| path(arg, ValueHint::DirPath))
        .mut_arg("wrapper", |arg| path(arg, ValueHint::ExecutablePath))
        .override_usage("create-cudawrap [OPTIONS] PATH...")
        .arg(paths)
}

/// The texts beside the options.
pub const GUIDE: HelpText = HelpText {
    about: "Make programs start through cudawrap, which gives each of them a free MIG device",
    common: &[],
    note: "",
    examples: &[
        (
            "the program becomes CUDAWRAP_pmemd.cuda",
            "create-cudawrap /opt/amber/bin/pmemd.cuda",
        ),
        (
            "as it was",
            "create-cudawrap --undo /opt/amber/bin/pmemd.cuda",
        ),
        (
            "what is wrapped there",
            "create-cudawrap --status /opt/amber/bin",
        ),
        ("after an upgrade", "create-cudawrap --repair --all"),
        (
            "a file of a package manager, left alone",
            "create-cudawrap --link-dir /usr/local/bin /usr/bin/gmx",
        ),
    ],
    exit: &[
        ("0", "done"),
        (
            "1",
            "refused or failed (of one PATH at least), or attention needed",
        ),
        ("2", "usage or settings"),
    ],
    environment: &[
        ("GETGPU_CONFIG", "stands for /etc/getgpu/config.toml"),
        (
            "PATH",
            "where cudawrap is looked for if it is not beside create-cudawrap",
        ),
        (
            "XDG_STATE_HOME",
            "where it is noted what is wrapped (other users than root): getgpu/wrapped there",
        ),
    ],
};
