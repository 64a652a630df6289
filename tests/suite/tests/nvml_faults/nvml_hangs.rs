//! A process that not even SIGKILL ends, a node of absurd size, one UUID twice, a library
//! slower than the limit. No lock waits with the driver.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use getgpu_tests::until_none_is_free;
use harness::skip::{self, Need};
use harness::{Sandbox, size, wait};

/// A file system of its own that can be frozen: who writes to it then is in D state and
/// does not die.
struct Frozen<'a> {
    sandbox: &'a Sandbox,
    place: String,
}

impl<'a> Frozen<'a> {
    fn new(sandbox: &'a Sandbox) -> Option<Self> {
        let place = sandbox.text("ice");
        let script = format!(
            "mkdir {place} && truncate -s 16M {place}.img && mkfs.ext4 -q {place}.img && mount -o loop {place}.img {place} && \
             touch {place}/calls.log && chmod 666 {place}/calls.log"
        );
        let made = sandbox.shell("sh", &script).run();
        if made.code() != Some(0) {
            let why = made.stderr.trim();
            skip::say(&format!(
                "no file system can be mounted and frozen here: {why}"
            ));
            return None;
        }
        let log = sandbox.folder().root().join("calls.log");
        symlink(format!("{place}/calls.log"), log).unwrap();
        Some(Self { sandbox, place })
    }

    fn freeze(&self, word: &str) {
        let command = self.sandbox.command("fsfreeze");
        command.args([word, &self.place]).run().exits(0);
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let script = format!("fsfreeze -u {0} 2>/dev/null; umount -l {0}", self.place);
        self.sandbox.shell("sh", &script).run();
    }
}

/// Processes of the sandbox in D state.
fn stuck(sandbox: &Sandbox) -> usize {
    sandbox.processes_in('D').len()
}

/// The process that asks NVML ends with the call that it asks for, and has nothing of it: if it
/// cannot end, it keeps neither a device, nor a place in the line, nor a pipe of the caller.
#[test]
fn a_killed_call_leaves_nothing_in_a_driver_that_hangs() {
    for function in ["nvmlInit_v2", "nvmlDeviceGetComputeRunningProcesses_v3"] {
        let sandbox = Sandbox::new("h200x1");
        sandbox.faults(&format!(
            "[[rule]]\nfunction = '{function}'\ndoes = 'hang'\n"
        ));
        for line in ["getgpu", "cudawrap --wait -- true"] {
            let script = format!("exec 9>caller; exec {line}");
            let call = sandbox.shell("bash", &script).spawn();
            let asks = || {
                let mut processes = sandbox.processes().into_iter();
                processes.find(|pid| *pid != call.pid() as i32 && is_secluded(*pid))
            };
            wait::until("another process asks", || asks().is_some());
            let open = opened(asks().unwrap());
            let kept = [sandbox.lock(), sandbox.path("work/caller")];
            assert!(!kept.iter().any(|file| open.contains(file)), "{open:?}");
            call.kill();
            wait::until("it has ended", || sandbox.processes().is_empty());
        }
    }
}

/// Its working directory is the last thing that such a process gives up.
fn is_secluded(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place.parent().is_none())
}

/// The files that a process has open.
fn opened(pid: i32) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    let files = files.flatten().flatten();
    files.flat_map(|file| file.path().read_link()).collect()
}

#[test]
fn a_driver_in_which_processes_cannot_even_be_killed() {
    let tools = ["mkfs.ext4", "fsfreeze", "mount"].map(Need::Tool);
    if skip::lacks(&[Need::Root]) || skip::lacks(&tools) {
        return;
    }
    let sandbox = Sandbox::with("mig4", "nvml_timeout = 1");
    let Some(ice) = Frozen::new(&sandbox) else {
        return;
    };
    ice.freeze("-f");
    let outcome = sandbox.ask("");
    outcome.refuses(3, "NVML did not answer within 1 s");
    wait::until("its process is stuck in the kernel", || stuck(&sandbox) > 0);
    let touch = || sandbox.words("cudawrap -- touch ran");
    let outcome = touch().run();
    outcome.refuses(125, "NVML did not answer within 1 s");
    assert!(!sandbox.path("work/ran").exists());
    let waited = sandbox.ask("--wait=3");
    waited.mentions("getgpu: NVML did not answer within 1 s; waited");
    assert_eq!(waited.code(), Some(3));
    // What hangs there keeps nothing: a device that the variable names needs no NVML.
    sandbox.assert_clean();
    touch().visible(&sandbox.uuids()[0]).run().exits(0);
    ice.freeze("-u");
    wait::until("what hung has exited", || sandbox.processes().is_empty());
    sandbox.line("--no-reserve");
}

#[test]
fn a_million_gpus_are_a_library_gone_wrong() {
    let count = size(20_000, 1_000_000);
    let node = format!("driver = '550.54.15'\n[[gpu]]\nmodel = 'T4'\ncount = {count}\n");
    let sandbox = Sandbox::with(&node, "nvml_timeout = 20");
    let outcome = sandbox.ask("--no-reserve");
    if outcome.code() != Some(0) {
        outcome.refuses(3, "");
    }
    let outcome = sandbox.ask("--count-free");
    println!(
        "{count} GPUs: count {} after {:?}",
        outcome.stdout.trim(),
        outcome.elapsed
    );
    assert!(matches!(outcome.code(), Some(0 | 3)), "{outcome:#?}");
}

#[test]
fn one_uuid_twice_is_one_device() {
    let uuid = "MIG-11111111-2222-3333-4444-555555555555";
    let layout =
        format!("device = [{{ gi = 7, profile = '1g.5gb', index = 0, uuid = '{uuid}' }}]\n");
    let gpu = format!("[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n{layout}");
    let sandbox = Sandbox::new(&format!("driver = '550.54.15'\n{gpu}{gpu}"));
    let given = until_none_is_free(&sandbox, &[]);
    let different: BTreeSet<&String> = given.iter().collect();
    assert_eq!(different.len(), given.len(), "{given:?}");
    sandbox.ask("--release-all").exits(0);
    let outcome = sandbox.ask("-n 2");
    assert_ne!(outcome.code(), Some(0), "one device twice: {outcome:#?}");
}

/// All has been answered by then, so a crash behind it is nobody's.
#[test]
fn a_library_that_crashes_when_it_is_unloaded_has_answered() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Tool("cc")], "mig4", "") else {
        return;
    };
    // One that loads NVML's.
    let source = "#include <stdlib.h>\n__attribute__((destructor)) void end(void) { abort(); }\n";
    sandbox.file("lib/front.c", source, 0o644);
    let script =
        "cd ../lib && cc -shared -fPIC -Wl,--no-as-needed -o front.so front.c libnvidia-ml.so.1";
    sandbox.shell("sh", script).run().exits(0);
    sandbox.set_settings(&format!("library = {:?}", sandbox.path("lib/front.so")));
    sandbox.line("--no-reserve");
    let ran = sandbox.words("cudawrap -- sim-cuda").run();
    ran.exits(0).says(&[]);
}
