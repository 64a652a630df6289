//! What can go wrong at a program's first CUDA call, as the user reads it: each row has the status,
//! the line and the hint of one failure.

use std::path::Display;

use getgpu_model::causes;

causes! {
    /// Why a program gets no device.
    pub(crate) enum LibraryCause<'a> {
        Panicked => Refused: "libcudawrap.so failed";
        NoCudawrap => Nvml: "cudawrap was not found beside libcudawrap.so",
            "install both, or set `getgpu` in /etc/getgpu/config.toml";
        NoDeviceFound { cudawrap: Display<'a>, why: WorkerFault } => Nvml:
            "{cudawrap}: no device found: {why}";
    }

    /// Why cudawrap has not answered.
    pub(crate) enum WorkerFault {
        ChildrenElsewhere => "children of this program are in another pid namespace (see unshare --fork)";
        Late { seconds: u64 } => "no answer within {seconds} s";
        NoDescriptorLeft => "no descriptor is left for the lease (ulimit -n)";
        Exited => "it exited without an answer";
        Os { why: String } => "{why}";
    }
}
