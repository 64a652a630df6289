//! What can go wrong before a program runs, as the user reads it: each row has the status, the line
//! and the hint of one failure. What a choice fails at is in common/choose and common/queue.

use std::path::Display;
use std::process::ExitStatus;

use getgpu_choose::GIVEN_ANOTHER;
use getgpu_model::{Uuid, causes};

causes! {
    /// Why a program is not found or not started.
    pub(crate) enum StartCause<'a> {
        Setuid => Refused: "is setuid or setgid, and would run every program with its owner's rights",
            "chmod u-s,g-s on the file cudawrap";
        NoProc => Refused: "/proc is not mounted: cannot tell by which name this program was started";
        NoName => Refused:
            "cannot tell by which name this program was started (by descriptor, or through ld.so?)",
            "start it by its path";
        NothingBehind { shown: String, name: &'a str } => NotFound:
            "{shown}: there is no CUDAWRAP_{name} beside it and no other {name} in PATH",
            "create-cudawrap --status shows what is wrapped";
        NotInPath { shown: &'a str, remedy: PathRemedy<'a> } => NotFound:
            "{shown}: no such program in PATH", "{remedy}";
        NotPermitted { path: Display<'a> } => CannotRun: "{path}: Permission denied";
        NoInterpreter { shown: &'a str } => NotFound: "{shown}: its interpreter does not exist",
            "the first line (#!) names it, or file {shown} shows it";
        NoFile { shown: &'a str, why: String, remedy: PathRemedy<'a> } => NotFound:
            "{shown}: {why}", "{remedy}";
        NotExecuted { shown: &'a str, why: String } => CannotRun: "{shown}: {why}";
        NoGetgpu => Refused: "getgpu was not found beside cudawrap",
            "install both, or set `getgpu` in /etc/getgpu/config.toml";
        GetgpuNotStarted { getgpu: Display<'a>, why: String } => Nvml: "cannot start {getgpu}: {why}";
        NodesClosed { uuid: &'a Uuid } => NoUsableGpu:
            "{uuid}: this process may not open its device nodes", "{GIVEN_ANOTHER}";
    }

    /// What contradicts each other in the options and variables of a call.
    pub(crate) enum CudawrapUsage<'a> {
        NoProgram => Usage: "no program to run", "cudawrap --help";
        TimeAsProgram { time: &'a str } => Usage:
            "--wait {time}: {time} would be the program", "cudawrap --wait={time} -- PROGRAM";
        AutoAtStart { option: &'a str } => Usage:
            "--auto: {option} has no effect on a program that is already running",
            "use --auto or {option}, not both";
        NoLibrary => Refused: "--auto: libcudawrap.so was not found beside cudawrap",
            "install it as lib/getgpu/libcudawrap.so beside cudawrap's bin";
        ManyShown { count: usize, remedy: String } => Usage:
            "--count {count}: --visible first and all are for programs with one device", "{remedy}";
        NotRank { name: &'a str, shown: String } => Usage:
            "{name}={shown}: not the number of a rank", "unset {name} to choose without ranks";
        RankOutside { rank: &'a str, local: usize, of: &'a str, size: usize } => Usage:
            "{rank}={local} is not less than {of}={size}", "unset both to choose without ranks";
        RanksWait { ranks: usize, why: RanksFault, remedy: String } => Usage:
            "--wait: {ranks} ranks do not wait each on its own: {why}", "{remedy}";
        RanksLackDevices { all: &'a str, name: &'a str, ranks: usize, devices: String } => Usage:
            "{all}: a program that takes cuda:{name} finds no device in some ranks: {ranks} ranks on {devices}",
            "start as many ranks as there are devices, or have the program take cuda:0";
        RankTakesOther { first: &'a str, name: &'a str, all: &'a str } => Usage:
            "{first}: a program that takes cuda:{name} would use another rank's device",
            "{all}: each rank has the device of its number in the list";
        MpsOfMany { count: usize } => Usage:
            "MPS: {count} devices: a program can be a client on one device only",
            "start one program on each, or switch MPS off (CUDAWRAP_MPS=0)";
        MpsWithoutShare => Usage:
            "--mps: without a share the program has the device to itself", "add --share, as in --share 1/2";
    }

    /// Why a program is no client of an MPS daemon.
    pub(crate) enum MpsCause<'a> {
        NotInstalled { name: &'a str } => Refused: "MPS: {name} is not installed",
            "Debian has it in the package nvidia-cuda-mps; elsewhere it comes with the driver's packages";
        NotStarted { uuid: &'a str, why: &'a str, remedy: MpsRemedy<'a> } => Refused:
            "{uuid}: the MPS daemon cannot be started: {why}", "{remedy}";
        StillBusy { uuid: &'a str, seconds: u64, log: Display<'a> } => Refused:
            "{uuid}: another process has been starting or ending the MPS daemon for {seconds} s",
            "see {log}/control.log";
        Unusable { path: Display<'a>, why: String } => Refused: "MPS directory {path}: {why}";
        TopOpen { path: Display<'a> } => Refused:
            "MPS directory {path}: others can rename what is in it", "chmod +t /tmp";
        NotDirectory { path: Display<'a> } => Refused:
            "MPS directory {path}: it is not a directory", "its owner or an administrator has to move it away";
        Foreign { path: Display<'a>, uid: u32 } => Refused:
            "MPS directory {path}: it belongs to uid {uid}, not to you",
            "its owner or an administrator has to move it away";
        Open { path: Display<'a> } => Refused:
            "MPS directory {path}: others can enter it", "its owner or an administrator has to move it away";
    }

    /// Why an MPS daemon is not there in time.
    pub(crate) enum DaemonFault<'a> {
        Ended { program: Display<'a>, status: ExitStatus } => "{program} ended with {status} and does not listen";
        NotReady { program: Display<'a>, seconds: u64 } => "{program} is not ready after {seconds} s";
        NoAnswer { seconds: u64 } => "no answer after {seconds} s";
        KeeperExited => "cudawrap-mps exited at once";
    }

    /// Where an MPS daemon says more.
    pub(crate) enum MpsRemedy<'a> {
        Unknown => "";
        Log { line: String } => "its log ends with: {line}";
        NoLog { program: Display<'a> } => "it has written no log; the program is {program}";
    }

    /// Why ranks do not wait each on its own.
    pub(crate) enum RanksFault {
        EachHolds => "those that have a device would hold it and wait for the others";
        TooManyRanks => "the devices of CUDA_VISIBLE_DEVICES cannot serve all of them";
    }

    /// What was meant by a name that no program has.
    pub(crate) enum PathRemedy<'a> {
        Unknown => "";
        Here { shown: &'a str } => "did you mean ./{shown}?";
        Python { shown: &'a str } => "cudawrap -- python3 {shown}";
        Unquote { shown: &'a str } => "one word: remove the quotes: cudawrap -- {shown}";
    }
}
