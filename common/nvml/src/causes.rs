//! What can go wrong with NVIDIA's library, as the user reads it: each row has the status, the line
//! and the hint of one failure.

use std::path::Display;

use getgpu_model::causes;

use crate::fault::Fault;

causes! {
    /// Why the library is of no use. What a node lacks is `NodeCause`.
    pub(crate) enum NvmlCause<'a> {
        NotLoaded { file: Display<'a>, why: String, remedy: LoadRemedy } => Nvml:
            "cannot load {file}: {why}", "{remedy}";
        CallFailed { fault: Fault, remedy: InitRemedy } => Nvml: "NVML {fault}", "{remedy}";
        /// As with a holder that cannot be started: the machine lacks something now, not the driver.
        NotForked { why: String } => LockPlace: "cannot start a process to ask NVML: {why}";
    }

    /// What to do where the library cannot be loaded.
    pub(crate) enum LoadRemedy {
        RaiseLimit => "ulimit -v limits this process";
        Install => "the NVIDIA driver is loaded but its library is not found: install libnvidia-ml1 or set `library`";
        InstallAgain => "the NVIDIA driver is loaded but this file is not its library (empty, damaged or for another machine): install libnvidia-ml1 again or set `library`";
    }

    /// What to do where the library does not start.
    pub(crate) enum InitRemedy {
        Started => "";
        RestartContainer => "this container was started before the node's driver was updated: start it again";
        Reboot => "the driver was updated while in use: the node needs a reboot or a reload of the nvidia module";
        TryDriver => "does `nvidia-smi -L` work on this node?";
    }
}
