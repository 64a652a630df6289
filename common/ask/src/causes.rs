//! What can go wrong with asking NVML, as the user reads it: each row has the status, the line and
//! the hint of one failure.

use getgpu_model::causes;

/// What a driver that does not answer calls for.
pub const HANGS: &str =
    "the NVIDIA driver hangs on this node; setting `nvml_timeout` allows more time";

/// What a GPU that does not answer calls for.
pub const HANGS_OR_SICK: &str =
    "getgpu --list shows the GPUs that do not answer; nvidia-smi -q -i GPU and dmesg say more";

causes! {
    /// Why NVML, or one GPU, gives no answer.
    pub(crate) enum AskCause<'a> {
        Late { within: String } => Nvml: "NVML did not answer within {within}", "{HANGS}";
        /// The process that asks has ended, or answers with something else.
        WorkerFailed { why: &'a str, remedy: WorkerRemedy } => Nvml:
            "the process that asks NVML failed: {why}", "{remedy}";
        NoGpuAnswers { why: String } => Nvml: "no GPU answers NVML: {why}", "{HANGS}";
        /// Of one GPU, which is left alone.
        OneSilent { why: String } => Nvml: "{why}";
    }

    /// Why one GPU is left alone.
    pub(crate) enum SilentFault<'a> {
        NotAsked { all: String } => "not asked: the other GPUs took most of {all} (setting `nvml_timeout`)";
        Late { within: String } => "did not answer within {within}";
        WorkerFailed { why: &'a str } => "the process that asks NVML failed there: {why}";
    }

    /// What to do about the process that asks.
    pub(crate) enum WorkerRemedy {
        RaiseLimit => "ulimit -v limits this process";
        TryDriver => "does `nvidia-smi -L` work on this node?";
    }
}
