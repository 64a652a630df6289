//! What can go wrong with wrapping, as the user reads it: each row has the status, the line and the
//! hint of one failure. The path in question is put before it.

use std::io;
use std::path::Display;
use std::process::ExitStatus;

use getgpu_model::{causes, reason};

causes! {
    /// Why nothing is done with a path.
    pub(crate) enum PathCause<'a> {
        /// A system call, with its errno.
        Os { why: String } => Refused: "{why}";
        NoPath => Refused: "an empty path names nothing";
        NoSuchFile => Refused: "no such file";
        OnlyHiddenLeft => Refused:
            "no such file; the program is CUDAWRAP_name beside it", "--undo puts it back";
        Unfit { what: &'a str, remedy: UnfitRemedy } => Refused: "is {what}", "{remedy}";
        NotExecutable => Refused: "is not executable", "chmod +x, if it is a program";
        DirectoryUnreachable { why: String } => Refused: "its directory cannot be reached: {why}";
        DirectoryUnknown { why: String } => Refused: "its directory: {why}";
        DirectoryLocked { seconds: f32 } => Refused:
            "another process has locked its directory for {seconds} s",
            "wait until that process exits, or end it (lslocks shows it)";
        DirectoryWithoutLocks { why: String } => Refused: "its directory cannot be locked: {why}",
            "--force skips the lock; make sure nobody else is wrapping here";
        DirectoryOpen { remedy: DirectoryRemedy } => Refused:
            "is in a directory that users other than root can write to", "{remedy}";
        OwnProgram { name: &'a str } => Refused: "is {name} itself", "wrap the programs that use a GPU";
        NameOfOlder { meant: Display<'a> } => Refused:
            "has a name as --repair gives them to older programs", "did you mean {meant}?";
        NameOfWrapped { meant: Display<'a> } => Refused:
            "is the name that a wrapped program has, not a path to wrap", "did you mean {meant}?";
        NameTooLong { most: usize } => Refused:
            "name too long: at most {most} bytes", "wrap a link to it that has a shorter name";
        PathTooLong { most: usize } => Refused:
            "path too long: at most {most} bytes", "wrap a link to it that has a shorter path";
        InProfile { profile: Display<'a> } => Refused:
            "is named in the AppArmor profile {profile}, which would not apply to it any more",
            "use --link-dir; --force wraps it anyway, and the profile then has no effect";
        OnNetwork { system: &'a str } => Refused:
            "is on {system}, and cudawrap is not: nodes without cudawrap would lose the program",
            "copy cudawrap and getgpu there, and name that cudawrap with --wrapper";
        OfPackage { package: String } => Refused:
            "belongs to the package {package}, whose next upgrade would replace the link",
            "use --link-dir, which leaves it alone; or --force";
        PackageUnknown { tool: Display<'a>, why: PackageFault } => Refused:
            "{tool}: {why}", "--force wraps without asking which package owns the file";
        TakenByTmp => Refused:
            "the file .CUDAWRAP_name~ beside it is in the way", "find out what it is, and move it away";
        TakenByHidden => Refused:
            "something else has the name CUDAWRAP_name beside it", "find out what it is, and move it away";
        TakenByLink => Refused:
            "that name is taken in the directory of links", "find out what it is, and move it away";
        InLinkDir => Refused: "is already in the directory of --link-dir",
            "give another directory, which comes before that in PATH";
        Upgraded => Refused: "is a program, and so is the CUDAWRAP_name beside it",
            "after an upgrade: create-cudawrap --repair, which wraps the program at the path and keeps the other under another name";
        UpgradedKept => Refused: "is a program, and so is CUDAWRAP_name beside it: both are kept",
            "an upgrade has replaced the link; move the one away that is not wanted";
        Copied => Refused: "is a copy of cudawrap; the program is CUDAWRAP_name beside it",
            "create-cudawrap --repair makes it a link again";
        LeadsToWrapped { hop: String } => Refused:
            "only leads to {hop}, which leads to cudawrap", "undo that one";
        LeadsToNothing { hop: String } => Refused: "leads to {hop}, a link to cudawrap that runs no program",
            "create-cudawrap --status shows what is wrong there";
        LinkAlone => Refused:
            "is a link to cudawrap, with no program of its name beside it or behind it in PATH",
            "install the program, or remove the link with --undo";
        OfMigtools => Refused: "is wrapped by migtools",
            "create-cudawrap without --undo takes it over; or put its program back: mv -T MIGTOOLS_name name";
        MigtoolsWithoutProgram => Refused:
            "is wrapped by migtools, but its program, MIGTOOLS_name beside it, does not exist",
            "install the program again, then wrap it";
        Unsound { state: &'a str, detail: String } => Refused: "is {state}: {detail}";
        StepFailed { step: String, why: String, remedy: StepRemedy } => Refused: "{step}: {why}", "{remedy}";
    }

    /// What can go wrong before the first path.
    pub(crate) enum CreateCause<'a> {
        Contradiction { what: Contradiction } => Usage: "{what}", "create-cudawrap --help shows the options";
        NoWrapper { site: &'a str } => Refused:
            "cudawrap: not found beside create-cudawrap, in PATH or in {site}", "name it with --wrapper PATH";
        WrapperUnfit { fault: String } => Refused:
            "{fault}", "install the package again, or name another cudawrap with --wrapper";
        WrapperUnreachable { path: Display<'a>, why: String } => Refused: "--wrapper {path}: {why}";
        WrapperMissing { path: Display<'a> } => Refused: "--wrapper {path}: no such file";
        WrapperNotRun { path: Display<'a> } => Refused: "--wrapper {path}: not a program that you may run";
        WrapperMisnamed { path: Display<'a> } => Refused:
            "--wrapper {path}: its name must be cudawrap", "cudawrap recognises its links by that name";
    }

    /// What does not go together on a command line.
    #[derive(Clone, Copy)]
    pub(crate) enum Contradiction {
        ManyTasks => "only one of --undo, --repair and --status can be given";
        JsonAlone => "--json goes with --status";
        AllToWrap => "--all goes with --undo, --repair or --status";
        AllAndPath => "--all stands for the noted paths: give either it or PATH";
        NoPathGiven => "no PATH given";
        LinkDirAlone => "--link-dir needs PATH, and --status takes the directory as PATH";
        StatusDryRun => "--status changes nothing: it takes no --dry-run";
        VerboseQuiet => "--verbose and --quiet exclude each other";
    }

    /// Why it is not known which package a file is of.
    pub(crate) enum PackageFault {
        NotStarted { why: String } => "{why}";
        NoAnswer => "no answer in 10 s";
        Failed { status: ExitStatus } => "failed ({status})";
    }

    /// What to do with a path that is no program to wrap.
    pub(crate) enum UnfitRemedy {
        Unknown => "";
        UseLinkDir => "as CUDAWRAP_name it could execute itself for ever; use --link-dir";
        NamePrograms => "name the programs in it";
        InstallAgain => "install the program again, then wrap it";
        MoveAway => "find out what it is, and move it away; then --undo puts the program back, and it can be wrapped again";
    }

    /// What makes a directory one that root can wrap in.
    pub(crate) enum DirectoryRemedy {
        CloseIt => "make the directory writable for root only: chmod go-w";
        BeOwner { uid: u32, gid: u32 } => "run this command as the directory's owner: setpriv --reuid {uid} --regid {gid} --clear-groups create-cudawrap ...";
    }

    /// What to do after a step that failed.
    pub(crate) enum StepRemedy {
        Unknown => "";
        RunAgain => "stopped half way, and the path still runs its program: run the same command again, or --undo";
        LetLink => "the program needs a second name (hard link), which its owner or root can give it on most file systems; else use --link-dir";
    }
}

impl From<io::Error> for PathCause<'_> {
    fn from(error: io::Error) -> Self {
        let why = reason(&error);
        Self::Os { why }
    }
}
