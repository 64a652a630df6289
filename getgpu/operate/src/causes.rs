//! What can go wrong for who runs a node, as it is read there: each row has the status, the line and
//! the hint of one failure.

use std::path::Display;

use getgpu_model::{Uuid, causes};

causes! {
    /// Why an extra does nothing, or has found something.
    pub(crate) enum OperateCause<'a> {
        ProblemsFound { problems: String } => NoneFree: "--check: {problems}";
        MonitorOfUser => Usage: "--monitor: only root sees what all users hold";
        MonitorInContainer => Usage:
            "--monitor: not in a pid namespace of its own, from which it sees no other process: start it on the host";
        MonitorRuns => Refused: "--monitor: another one runs already";
        MonitorUnlocked { path: Display<'a>, why: String } => LockPlace: "--monitor: {path}: {why}";
        MonitorUntold { why: &'a str } => LockPlace: "--monitor: what it tells: {why}";
        MetricsUnwritten { metrics: Display<'a>, why: String } => Usage: "--monitor: {metrics}: {why}";
        NothingLogged => NoneFree: "no line of getgpu's or cudawrap's to report",
            "the site's setting log = \"syslog\" has them written; journalctl may need root";
        InputUnread { why: String } => NoneFree:
            "standard input: cannot be read: {why}", "give the lines on standard input: ... | getgpu --report";
        JournalUnread { why: String } => NoneFree:
            "journalctl: cannot be read: {why}", "give the lines on standard input: ... | getgpu --report";
        NoCgroup => CannotRun: "no cgroup v2 is mounted";
        MigUnlimited => CannotRun: "the driver limits the memory of whole GPUs only";
    }

    /// Why a job or a task of Slurm has no device.
    pub(crate) enum SlurmCause<'a> {
        SettingsWrong => Usage: "the settings are wrong";
        OptionsNotAllowed { asked: &'a str } => Usage:
            "GETGPU_SLURM={asked}: only yes and no are allowed here (job_options)";
        LeavesGrant => Usage: "a job stays within its grant";
        ChoosesNothing => Usage: "with these options getgpu chooses no device";
        PartMarked { job: &'a str, why: &'a str } => NoneFree: "job {job} asked for a part of a GPU: {why}";
        PartNotReserved { job: &'a str, part: &'a str } => NoneFree:
            "job {job}: {part} was promised, and no prolog has reserved it on this node";
        /// slurmd takes a job that is started again for one that it knows.
        PartNotReservedAgain { job: &'a str, part: &'a str } => NoneFree:
            "job {job}: {part} was promised, and no prolog has reserved it on this node; Slurm has started the job again without its prolog: scontrol requeue {job} starts it once more";
        PartUnread { reservations: String } => LockPlace:
            "{reservations} could not be read in time, and one may be the job's";
        MemoryUntold => CannotRun: "the GPU does not tell its memory";
        OutsideCgroup => CannotRun:
            "the prolog does not run in the job's cgroup (PrologFlags=RunInJob, cgroup v2)";
        PartUnknown => CannotRun: "its reservation cannot be read";
        NotLimited { why: String } => CannotRun: "{why}";
        InUseBesides { device: &'a Uuid, why: &'a str } => NoneFree: "{device} is in use, and {why}";
    }
}
