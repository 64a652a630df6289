//! The options of create-cudawrap: what each is called and what it is for, and the texts
//! around them in the help. The parser, the help, the man page and the completions are made
//! from this struct; it needs nothing else of this program.

use std::path::PathBuf;

use clap::{Command, CommandFactory, Parser, ValueHint};
use getgpu_cli::{Common, HelpText, flags};

/// The program's name in every message, whatever it was called by.
pub const PROGRAM: &str = "create-cudawrap";

/// What was typed.
#[derive(Parser, Clone, Debug)]
#[command(name = PROGRAM, about = GUIDE.about, long_about = None)]
#[command(override_usage = "create-cudawrap [OPTIONS] PATH...")]
pub struct CreateArguments {
    #[command(flatten)]
    pub doing: Doing,
    #[command(flatten)]
    pub how: How,
    #[command(flatten)]
    pub common: Common,
    /// The programs to wrap; for a symbolic link, the link itself and not its target
    #[arg(value_name = "PATH", num_args = 0.., value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

/// What is to be done.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "What to do (without any of these: wrap)")]
pub struct Doing {
    /// Give the program its name back, the very same file; for a directory: every wrapped program
    /// in it
    #[arg(long)]
    pub undo: bool,
    /// Wrap the new program if an upgrade has replaced the link, and keep the older one as
    /// CUDAWRAP_name.replaced-1; turn a copy of cudawrap back into a link; renew a link to a cudawrap that
    /// no longer exists
    #[arg(long)]
    pub repair: bool,
    /// Print a line for each PATH or, if it is a directory, for each wrapped program in it; exit
    /// status 1 if one needs attention
    #[arg(long)]
    pub status: bool,
    /// With --status: print JSON
    #[arg(long)]
    pub json: bool,
    /// With --undo, --repair, --status: every path that was recorded when it was wrapped
    #[arg(long)]
    pub all: bool,
}

/// How it is done.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "How")]
pub struct How {
    /// Leave the program alone and put a link with its name into DIR, which must come before the
    /// program's directory in PATH
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub link_dir: Option<PathBuf>,
    /// Print what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Also wrap a file of a package, a program under an AppArmor profile, or one on a network file
    /// system without cudawrap
    #[arg(long)]
    pub force: bool,
    /// Make links to this cudawrap
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub wrapper: Option<PathBuf>,
}

/// The parser, from which completions are made too.
pub fn command() -> Command {
    flags::prepared(CreateArguments::command())
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
