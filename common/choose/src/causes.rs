//! What can go wrong with a choice, as the user reads it: each row has the status, the line and
//! the hint of one failure.

use std::path::Display;

use getgpu_ask::HANGS_OR_SICK;
use getgpu_model::{Silent, Uuid, WITHOUT_PREFIX_HINT, causes};

use crate::GIVEN_ANOTHER;

causes! {
    /// Why a call gets no device, whatever else is free: its user, its lock, or its own reservation.
    pub(crate) enum ChooseCause<'a> {
        /// `max_per_user` is being counted elsewhere.
        StillChoosing => NoneFree: "another call of yours has not finished choosing in time";
        AtLimit { number: f64, most: u32, names: String, remedy: HeldRemedy } => NoneFree:
            "you hold {number} of at most {most}{names}", "{remedy}";
        MoreThanLimit { count: usize, share: String, most: u32 } => NoDevice:
            "--count {count}{share}: max_per_user allows {most} at a time on this node",
            "ask for fewer devices";
        TooFewFree { used: String, remedy: &'a str } => NoneFree: "too few free devices: {used}", "{remedy}";
        AllInUse { used: String, remedy: &'a str } => NoneFree: "no free device: {used}", "{remedy}";
        InUseBy { uuid: &'a Uuid, who: String, remedy: &'static str } => NoneFree:
            "{uuid}: in use by {who}", "{remedy}";
        ReservationEnded => NoneFree:
            "your reservation ended while a device was being chosen from it", "ask again";
        LockNotShared { directory: Display<'a> } => LockPlace:
            "{directory}: not shared with the host: devices given elsewhere are not excluded",
            "mount {directory}";
        NoCudaIndex { option: &'a str, uuid: &'a Uuid } => NoDevice:
            "{option}: {uuid}: only a whole GPU has a CUDA index", "UUIDs, the default, fit all devices";
        UnsureCudaIndex { option: &'a str, silent: &'a Silent } => Nvml:
            "{option}: it is not certain which index CUDA gives a GPU, since one before it does not answer: {silent}",
            "UUIDs, the default, are certain";
        ShareTooLarge { share: String, why: Room<'a> } => NoDevice:
            "--share {share}: {why}", "a fraction, such as --share 1/2, fits every device";
    }

    /// Why a node has too few devices of the request: asking again cannot help.
    pub(crate) enum PoolCause<'a> {
        TooFewHere { count: usize, by: String, there: String, within: &'a str, silent: String, remedy: &'a str } => NoDevice:
            "{count} devices wanted{by}: only {there} here{within}{silent}", "{remedy}";
        UuidsWithoutPrefix { problem: &'a str } => NoDevice:
            "no device can be used: {problem}", "{WITHOUT_PREFIX_HINT}";
        NoDeviceAnswers { problem: &'a str } => Nvml:
            "no device answers: {problem}", "does `nvidia-smi -L` work on this node?";
        NoMigDevices { remedy: &'a str } => NoDevice:
            "no device on this node: its GPUs are in MIG mode and have no MIG devices", "{remedy}";
        NoneOfRequestAnswers { outside: String, silent: &'a Silent } => Nvml:
            "no device of the request answers here: {outside}; {silent}", "{HANGS_OR_SICK}";
        NoneOfRequestExists { outside: String, there: String } => NoDevice:
            "no device of the request exists here: {outside}", "{there}";
    }

    /// Why a grant leaves a call without devices.
    pub(crate) enum GrantCause<'a> {
        NoPartOfGpu { part: &'a str } => NoGrant: "this job has no part of a GPU on this node",
            "ask for one when you submit the job, for example: sbatch --constraint={part}";
        ShellWithoutGpus => NoGrant: "this shell of an allocation has no GPUs: the job's tasks have them",
            "start the program as a task: srun cudawrap -- ./app";
        NoGpuGiven => NoGrant:
            "this job was given no GPU", "ask the batch system for one, for example: srun --gres=gpu:1";
        UnknownGpusOfJob => NoDevice:
            "this job has GPUs, but CUDA_VISIBLE_DEVICES is not set and nothing says for certain which they are",
            "start the program with srun but without --gpu-bind=none; if GPUs outside Slurm are on this node, ask the admin to list them in the setting `allowed`";
        UnclearIndex { value: &'a str, why: &'a str, remedy: &'a str } => Nvml:
            "CUDA_VISIBLE_DEVICES={value}: {why}", "{remedy}";
        NamesNothing { shown: &'a str, remedy: &'a str } => NoDevice:
            "CUDA_VISIBLE_DEVICES is {shown}: it names no device", "{remedy}";
        NoSuchAnswers { value: &'a str, silent: &'a Silent } => Nvml:
            "CUDA_VISIBLE_DEVICES={value}: no such device answers here; {silent}", "{HANGS_OR_SICK}";
        NotExpanded { value: &'a str } => NoDevice: "CUDA_VISIBLE_DEVICES={value}: no shell expanded this",
            "where no shell is, without the variable: cudawrap -- PROGRAM";
        NoSuchDevice { shown: String, remedy: VanishedRemedy } => NoDevice:
            "CUDA_VISIBLE_DEVICES={shown}: no such device on this node", "{remedy}";
        NoInstances { value: &'a str, gpu: u32, remedy: &'a str } => NoDevice:
            "CUDA_VISIBLE_DEVICES={value}: GPU {gpu} is in MIG mode and has no MIG devices", "{remedy}";
        IndexOfGpu { index: u32, meant: String } => NoDevice:
            "CUDA_VISIBLE_DEVICES={index}: no such device on this node: {index} is a GPU index, and MIG devices go by UUID",
            "CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant{meant}) ./app";
    }

    /// What a user at the limit can give up.
    pub(crate) enum HeldRemedy {
        OfReservation => "getgpu --release UUID gives up a reservation; getgpu --list shows all";
        OfLease => "a lease ends with its program; getgpu --list shows all";
    }

    /// What a named device has, where a share does not fit.
    pub(crate) enum Room<'a> {
        OfPart { uuid: &'a Uuid, memory: String } => "your part of {uuid} has {memory} of memory";
        OfDevice { uuid: &'a Uuid, memory: String } => "{uuid} has {memory} of memory";
        UnknownOf { uuid: &'a Uuid } => "{uuid}: NVML does not report how much memory it has";
    }

    /// What to do about a variable that names nothing here.
    pub(crate) enum VanishedRemedy {
        InJob => "{GIVEN_ANOTHER}";
        NoCall => "did you forget $( )? CUDA_VISIBLE_DEVICES=$(getgpu) ./app";
        AskAgain => "re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again";
    }
}
