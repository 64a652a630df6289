//! What can go wrong in a queue, as the user reads it: each row has the status, the line and the
//! hint of one failure.

use getgpu_ask::{HANGS, HANGS_OR_SICK};
use getgpu_model::causes;

causes! {
    /// Why a call gets nothing beside those that wait, or at the end of its own wait.
    pub(crate) enum QueueCause<'a> {
        OneWaits { remedy: &'a str } => NoneFree: "no free device: 1 is waiting", "{remedy}";
        SomeWait { waiting: usize, remedy: &'a str } => NoneFree:
            "no free device: {waiting} are waiting", "{remedy}";
        NotServed { free: String, remedy: &'a str } => NoneFree:
            "not served: the waiters before you have not taken {free}", "{remedy}";
        /// A list without devices was named.
        NoneNamed => NoneFree: "no free device";
        NoGpuOfRequestAnswers { gpu: u32, why: &'a str } => Nvml:
            "no GPU of the request answers NVML: GPU {gpu}: {why}", "{HANGS_OR_SICK}";
        NoGpuAnswers { gpu: u32, why: &'a str } => Nvml: "no GPU answers NVML: GPU {gpu}: {why}", "{HANGS}";
    }
}
