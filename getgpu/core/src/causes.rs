//! What can go wrong with a call of getgpu, as the user reads it: each row has the status, the line
//! and the hint of one failure. What a choice fails at is in common/choose and common/queue.

use getgpu_ask::HANGS_OR_SICK;
use getgpu_model::{Silent, Uuid, causes};

causes! {
    /// What is typed wrongly.
    pub(crate) enum GetgpuUsage<'a> {
        Contradiction { what: GetgpuMisuse } => Usage: "{what}", "getgpu --help";
        NoFormatOfList { name: &'a str } => Usage:
            "--format {name}: a list is table, json, csv or prometheus", "getgpu --help";
        FormatOfList { name: &'a str } => Usage: "--format {name} goes with --list", "getgpu --help";
        NotIndex { first: &'a str, remedy: &'a str } => Usage:
            "`{first}` is not an index: 0, 1, ... as getgpu --list shows them", "{remedy}";
        ManyIndices { first: &'a str, second: &'a str } => Usage:
            "{first} and {second}: one INDEX at a time", "getgpu --help";
        IndexAndWait { index: usize } => Usage: "INDEX {index} and --wait exclude each other",
            "to wait at most {index} s for any device: getgpu --wait={index}";
        IndexAndChoice { index: usize, other: &'a str } => Usage:
            "INDEX {index} and {other} exclude each other", "getgpu --help";
        NoSuchUser { typed: &'a str } => Usage:
            "--user {typed}: no user of this node is called so", "getgpu --help";
        UnknownUser { typed: &'a str, why: String } => Usage: "--user {typed}: {why}", "getgpu --help";
        NotForOthers { uid: u32 } => Usage: "--uid {uid}: only root may reserve for another user";
        NoTerminal => Usage: "--watch: this is not a terminal", "for programs: getgpu --list --json";
        NoListingRead { file: &'a str, why: String } => Usage:
            "--from {file}: {why}", "a line for each host, as `ssh HOST getgpu --list --json` prints it";
        NoListing { first: String } => Usage:
            "{first}", "a line for each host, as `ssh HOST getgpu --list --json` prints it";
    }

    /// What contradicts each other on a command line, beyond what the table of options says.
    #[derive(Clone, Copy)]
    pub(crate) enum GetgpuMisuse {
        JsonAlone => "--json goes with --list, --queue, --report or --check";
        SinceAlone => "--since goes with --report";
        FromAlone => "--from goes with --list";
        FreeAlone => "--free goes with --list or --watch";
        MineAlone => "--mine goes with --list or --watch";
        UserAlone => "--user goes with --list or --watch";
        ColumnsAlone => "--columns goes with --list or --watch";
        ColumnsOfJson => "--columns goes with a table or CSV";
        IndexOfMig => "--format index works for whole GPUs only: MIG devices have no CUDA index";
        ShareOfRanks => "--share auto: divides a grant among ranks, which cudawrap does";
        EndlessForProgram => "--for has no meaning with --hold=0, which holds until the device is released";
    }

    /// Why a device is not reserved, held or released.
    pub(crate) enum ReserveCause<'a> {
        TagTaken { name: &'a str, devices: String } => Usage:
            "--tag {name}: in use for {devices}: the tag already belongs to a different request",
            "getgpu --release {name} gives it up";
        TagBusy { name: &'a str } => NoneFree:
            "--tag {name}: another call with this tag has been choosing for a minute";
        TagUnused { name: &'a str } => NoneFree: "--tag {name}: nothing is reserved under it",
            "getgpu --hold --tag {name} reserves a device under it";
        Endless => Usage: "--hold=0: only root may hold a device without end", "getgpu --hold";
        CallerExited => Usage:
            "--hold: the calling process has exited", "name the process to hold for: --hold=PID";
        CallerOutside => Usage:
            "--hold: the caller is not in this pid namespace", "name a process that you can see: --hold=PID";
        CallerHidden { parent: i32 } => Usage:
            "--hold: /proc does not show you the caller, process {parent} of another user (mount option hidepid)",
            "name a process that you can see: --hold=PID";
        NoProcess { pid: i32 } => Usage: "--hold={pid}: no such process";
        NeverExits { pid: i32 } => Usage:
            "--hold={pid}: this process never exits; only root may hold until then";
        NotHeld { why: &'a str } => NoneFree:
            "not held: {why}", "getgpu --hold without INDEX holds a free device; getgpu --list shows them";
        IndexOutside { index: usize, uuid: &'a Uuid, why: String } => Usage:
            "device {index}: {uuid}: {why}", "getgpu --list shows which are not excluded";
        IndexSilent { index: usize, silent: &'a Silent } => Nvml:
            "device {index} does not answer: {silent}", "{HANGS_OR_SICK}";
        IndexUncertain { index: usize, gpu: u32, silent: &'a Silent } => Nvml:
            "it is not certain which device has index {index}, since it is not known how many GPU {gpu} has, which does not answer: {silent}",
            "{HANGS_OR_SICK}";
        NoIndex { index: usize, there: String, within: &'a str, remedy: &'a str } => Usage:
            "no device {index}: {there}{within}", "{remedy}";
        NoIndexNorTag { index: usize } => NoneFree:
            "no device {index}, and no tag of yours is called so", "getgpu --list";
        NotYours { unknown: String, remedy: ReleaseRemedy } => NoneFree:
            "{unknown}: no reservation of yours", "{remedy}";
        HolderStays { devices: String, pid: i32 } => LockPlace:
            "{devices}: the holder (pid {pid}) does not end";
        HolderNotStarted { why: &'a str } => LockPlace:
            "cannot start getgpu-hold, which keeps the reservation: {why}";
        TerminalFailed { why: String } => LockPlace: "terminal: {why}";
    }

    /// What to type where a name is no reservation's.
    pub(crate) enum ReleaseRemedy {
        ByUuid => "CUDAWRAP_TAG only shows a name, which several may have: getgpu --release=UUID";
        List => "getgpu --list shows who holds what";
    }
}
