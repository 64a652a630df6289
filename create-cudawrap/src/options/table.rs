//! The flag table of create-cudawrap: what each option is called and what it is for, and
//! the texts around it in the help. The parser, the help, the man page and the
//! completions are made from it; it needs nothing else of this program.

use std::path::PathBuf;

use clap::{Arg, Command, ValueHint, value_parser};
use getgpu_common::flags::{self, Flag, Takes, flag};
use getgpu_common::help_text::HelpText;
use getgpu_common::shared_flags;

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
        "Give the program its name back, the very same file; for a directory: every wrapped program in it",
    ),
    flag(
        "repair",
        &[],
        Takes::Nothing,
        TASK,
        "Wrap the new program if an upgrade has replaced the link, and keep the older one as name.replaced-1; turn a copy of cudawrap back into a link; renew a link to a cudawrap that no longer exists",
    ),
    flag(
        "status",
        &[],
        Takes::Nothing,
        TASK,
        "Print a line for each PATH or, if it is a directory, for each wrapped program in it; exit status 1 if one needs attention",
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
        "With --undo, --repair, --status: every path that was recorded when it was wrapped",
    ),
    flag(
        "link-dir",
        &[],
        Takes::Value("DIR"),
        HOW,
        "Leave the program alone and put a link with its name into DIR, which must come before the program's directory in PATH",
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
        "Also wrap a file of a package, a program under an AppArmor profile, or one on a network file system without cudawrap",
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
    FLAGS.iter().copied().chain(shared_flags::COMMON)
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    let paths = Arg::new("paths")
        .value_name("PATH")
        .num_args(0..)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::AnyPath)
        .help("The programs to wrap; for a symbolic link, the link itself and not its target");
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
            "the program is back under its name",
            "create-cudawrap --undo /opt/amber/bin/pmemd.cuda",
        ),
        (
            "list what is wrapped in a directory",
            "create-cudawrap --status /opt/amber/bin",
        ),
        ("after an upgrade", "create-cudawrap --repair --all"),
        (
            "a file of a package manager, which stays unchanged",
            "create-cudawrap --link-dir /usr/local/bin /usr/bin/gmx",
        ),
    ],
    exit: &[
        ("0", "done"),
        (
            "1",
            "refused or failed for at least one PATH, or --status found one that needs attention",
        ),
        ("2", "wrong usage or settings"),
    ],
    environment: &[
        (
            "GETGPU_CONFIG",
            "is read instead of /etc/getgpu/config.toml",
        ),
        (
            "PATH",
            "where cudawrap is looked for if it is not beside create-cudawrap",
        ),
        (
            "XDG_STATE_HOME",
            "for users other than root: wrapped paths are recorded in getgpu/wrapped below it",
        ),
    ],
};
