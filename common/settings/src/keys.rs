//! The one table of settings: name, whether it is policy (system file only), what it is
//! for, how it is read and shown. Files, options and CUDAWRAP_* variables are all read by
//! it; `--show-config` follows it, and a test holds etc/config.toml against it.

pub use super::key::Key;

use super::Settings;
use super::key::keys;
use super::value_codec::{
    absolute_path, count, counts, memory, names, path, quoted, read, selectors, show_or, show_path,
    show_size, show_text, show_time, size, some_time, time, truth,
};
use crate::policy_words;

/// The tables, policy first. Those of extras lie with the extra.
const TABLES: [&[Key]; 4] = [
    POLICY,
    crate::first_call::KEYS,
    crate::slurm::KEYS,
    PREFERENCES,
];

/// Every setting, policy first.
pub fn all() -> impl Iterator<Item = &'static Key> {
    TABLES.into_iter().flatten()
}

keys! {
    /// What only the system's file may set.
    POLICY:
    policy "allowed", "devices that may be handed out; replaces allowed_file",
        |s| show_or(s.allowed.as_ref(), quoted), |s, t| s.allowed = Some(t.to_vec());
    policy "allowed_file", "list (absolute path) of devices that may be handed out, one UUID a line; all if there is no such file",
        |s| show_text(&s.allowed_file.display()), |s, t| s.allowed_file = absolute_path(t)?;
    policy "excluded", "devices that are never chosen; programs that run there continue",
        |s| quoted(&s.excluded), |s, t| s.excluded = t.to_vec();
    policy "lock", "the lock file (absolute path), if not /run/getgpu/lock",
        |s| show_path(s.lock.as_ref()), |s, t| s.lock = Some(absolute_path(t)?);
    policy "library", "the NVIDIA library, if the loader does not find libnvidia-ml.so.1",
        |s| show_path(s.library.as_ref()), |s, t| s.library = Some(path(t)?);
    policy "getgpu", "the absolute path of getgpu, if it is not beside cudawrap",
        |s| show_path(s.getgpu.as_ref()), |s, t| s.getgpu = Some(absolute_path(t)?);
    policy "idle_memory", "a device with more memory in use than this is busy; unset: the larger of 128M and 1 % of the device, in a container 64M (more is then unknown)",
        |s| show_size(s.idle_memory), |s, t| s.idle_memory = Some(size(t)?);
    policy "ignore_processes", "names of programs that do not make a device busy",
        |s| quoted(&s.ignore_processes), |s, t| s.ignore_processes = t.to_vec();
    policy "memory_decides", "where NVML lists no processes at all, as under WSL, a device without memory in use is free; else it is unknown and never chosen",
        |s| s.memory_decides.to_string(), |s, t| s.memory_decides = truth(t)?;
    policy "nvml_timeout", "how long the NVIDIA library may take in all before a call fails; a GPU that takes a fifth of it for its first question, or a sixth for a later one, is left alone",
        |s| show_time(s.nvml_timeout), |s, t| s.nvml_timeout = some_time(t)?;
    policy "without_grant", "what a batch job without CUDA_VISIBLE_DEVICES may use: \"all\" devices or \"none\"; where `slurm.shares` is set: \"none\", if this is not set",
        |s| quoted(if s.hides_ungranted() { "none" } else { "all" }), |s, t| s.without_grant = read(t)?;
    policy "unshared", "what a call does in a container whose lock is not the host's: \"warn\", \"quiet\" or \"fail\"",
        |s| quoted(&s.unshared), |s, t| s.unshared = read(t)?;
    policy "max_per_user", "devices that one user may have leased or reserved at a time; unset: any number",
        |s| show_or(s.max_per_user, |n| n.to_string()), |s, t| s.max_per_user = Some(count(t)?);
    policy "max_hold", "the longest time for --hold, and for --for; unset: no limit",
        |s| show_or(s.max_hold, show_time), |s, t| s.max_hold = Some(time(t)?);
    policy "max_idle", "how long a device that --hold keeps, or that is leased, may be unused before idle_action; unset: no limit",
        |s| show_or(s.max_idle, show_time), |s, t| s.max_idle = Some(time(t)?);
    policy "idle_action", "what happens after max_idle, with a warning at 80 %: \"log\" tells the user and the system's log, \"end\" ends the reservation; a lease is only reported",
        |s| quoted(&s.idle_action), |s, t| s.idle_action = read(t)?;
    policy "max_wait", "the longest time for --wait; unset: no limit",
        |s| show_or(s.max_wait, show_time), |s, t| s.max_wait = Some(time(t)?);
    policy "log", "where each lease and reservation is logged, a line each: \"none\" (nowhere) or \"syslog\" (the system's log)",
        |s| quoted(&s.log), |s, t| s.log = read(t)?;
    policy "linger", "how long a reservation outlasts the last program that names its device",
        |s| show_time(s.linger), |s, t| s.linger = time(t)?;
    policy "background_programs", "more names of programs that run in the background and never use CUDA, besides agents and servers such as ssh-agent and tmux: a device is not kept for them, only for what they start",
        |s| quoted(&s.background_programs), |s, t| s.background_programs = names(t)?;
}

keys! {
    /// What users may set too.
    PREFERENCES:
    preference "type", "\"auto\" (MIG devices if there are any, else whole GPUs), \"mig\", \"gpu\" or \"any\"",
        |s| quoted(&s.kind), |s, t| s.kind = read(t)?;
    preference "count", "how many devices are chosen at a time; \"2..4\": as many as there are, at least 2; \"all\": all that CUDA_VISIBLE_DEVICES names, for a program that divides them itself",
        |s| show_count(s), |s, t| put_count(s, t)?;
    preference "profile", "only MIG devices with these profiles, the smallest first",
        |s| quoted(&s.profile), |s, t| s.profile = names(t)?;
    preference "model", "only devices on these GPUs: parts of what NVML calls them, such as \"H100\"",
        |s| quoted(&s.model), |s, t| s.model = names(t)?;
    preference "prefer_model", "devices on these GPUs if there are any free, else any that fit",
        |s| quoted(&s.prefer_model), |s, t| s.prefer_model = names(t)?;
    preference "min_memory", "only devices, or shares, with at least this much memory, the smallest first",
        |s| show_size(s.min_memory), |s, t| s.min_memory = Some(memory(t)?);
    preference "gpu", "only devices on these GPUs: NVML indices or UUIDs",
        |s| quoted(&s.gpu.iter().map(ToString::to_string).collect::<Vec<_>>()), |s, t| s.gpu = selectors(t)?;
    preference "policy", concat!("which free device: ", policy_words!(), "; shares: the least loaded"),
        |s| show_or(s.policy.as_ref(), quoted), |s, t| s.policy = Some(read(t)?);
    preference "share", "a part of a device: \"1/2\", 0.5, \"25%\", or a size: \"10G\"; \"auto\": ranks divide the devices evenly; unset: a whole device",
        |s| show_share(s), |s, t| put_share(s, t)?;
    preference "wait", "how long to wait in the queue for a device: \"0\", a time, or \"forever\"; one of several ranks never waits",
        |s| s.wait.text(), |s, t| s.wait = read(t)?;
    preference "reserve_for", "how long a reservation waits for its program to appear",
        |s| show_time(s.reserve_for), |s, t| s.reserve_for = time(t)?;
    preference "when_taken", "what happens to a wrapped program whose CUDA_VISIBLE_DEVICES names a device that somebody else has, or one that NVML does not know: \"run\" or \"fail\"",
        |s| quoted(&s.when_taken), |s, t| s.when_taken = read(t)?;
    preference "when_no_gpu", "what happens to a wrapped program on a node without GPUs, and in a job that was given none: \"run\" or \"fail\"",
        |s| quoted(&s.when_no_gpu), |s, t| s.when_no_gpu = read(t)?;
    preference "argv0", "what a wrapped program finds as its own name: the \"name\" that it was started by, or the path of its own \"file\", for one that looks for its other files from there",
        |s| quoted(&s.argv0), |s, t| s.argv0 = read(t)?;
    preference "lease", "when a wrapped program takes its device: at its \"start\", or at its \"first_call\" of CUDA, by libcudawrap.so",
        |s| quoted(&s.lease), |s, t| s.lease = read(t)?;
    preference "visible", "what a program sees of the devices that it could choose from: \"one\" (its own), its own \"first\" and then the others, or \"all\" as inherited",
        |s| quoted(&s.visible), |s, t| s.visible = read(t)?;
    preference "names", "how a program's CUDA_VISIBLE_DEVICES names its devices: \"uuid\", or \"index\" for programs that read numbers (whole GPUs)",
        |s| quoted(&s.names), |s, t| s.names = read(t)?;
    preference "framework_memory", "set the variables that keep TensorFlow and JAX within a share's memory",
        |s| s.framework_memory.to_string(), |s, t| s.framework_memory = truth(t)?;
    preference "mps", "programs with a share run as clients of NVIDIA's MPS daemon, which is started and ended as needed",
        |s| s.mps.to_string(), |s, t| s.mps = truth(t)?;
    preference "bind", "programs run on the CPUs near their device; with a share, on their part of them",
        |s| s.bind.to_string(), |s, t| s.bind = truth(t)?;
}

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Key> {
    all().find(|key| key.name == name)
}

/// Whether settings of this table have a row, as those of `[slurm]` are called `slurm.NAME`.
pub(crate) fn is_table(name: &str) -> bool {
    let mut tables = all().filter_map(|key| key.name.split_once('.'));
    tables.any(|(table, _)| table == name)
}

fn show_count(settings: &Settings) -> String {
    if settings.count_all {
        "\"all\"".into()
    } else if settings.count_most > settings.count {
        format!("\"{}..{}\"", settings.count, settings.count_most)
    } else {
        settings.count.to_string()
    }
}

fn put_count(settings: &mut Settings, texts: &[String]) -> Result<(), String> {
    settings.count_all = texts == ["all"];
    let (least, most) = match texts {
        [_] if settings.count_all => (1, 1),
        [range] if range.contains("..") => counts(range)?,
        _ => count(texts).map(|number| (number, number))?,
    };
    (settings.count, settings.count_most) = (least, most);
    Ok(())
}

fn show_share(settings: &Settings) -> String {
    if settings.share_auto {
        "\"auto\"".into()
    } else {
        show_or(settings.share.as_ref(), |share| show_text(share))
    }
}

fn put_share(settings: &mut Settings, texts: &[String]) -> Result<(), String> {
    settings.share_auto = texts == ["auto"];
    settings.share = if settings.share_auto {
        None
    } else {
        Some(read(texts)?)
    };
    Ok(())
}
