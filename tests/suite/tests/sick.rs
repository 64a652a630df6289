//! Drivers beyond sick: a process that not even SIGKILL ends, a node of absurd size, one
//! UUID twice, a library slower than patience. An answer in time, the right status, and
//! no lock that waits with the driver.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::Duration;

use getgpu_tests::{PLAIN, until_none_is_free};
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
            skip::say(&format!(
                "no file system can be mounted and frozen here: {}",
                made.stderr.trim()
            ));
            return None;
        }
        symlink(
            format!("{place}/calls.log"),
            sandbox.folder().root().join("calls.log"),
        )
        .unwrap();
        Some(Self { sandbox, place })
    }

    fn freeze(&self, word: &str) {
        self.sandbox
            .command("fsfreeze")
            .args([word, &self.place])
            .run()
            .exits(0);
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
    let state =
        |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    sandbox
        .processes()
        .iter()
        .filter(|pid| state(pid).contains(") D "))
        .count()
}

#[test]
fn a_driver_in_which_processes_cannot_even_be_killed() {
    if skip::lacks(&[
        Need::Root,
        Need::Tool("mkfs.ext4"),
        Need::Tool("fsfreeze"),
        Need::Tool("mount"),
    ]) {
        return;
    }
    let sandbox = Sandbox::builder("mig4")
        .settings("nvml_timeout = 1")
        .build();
    let Some(ice) = Frozen::new(&sandbox) else {
        return;
    };
    ice.freeze("-f");
    let late = Duration::from_millis(1700);
    let outcome = sandbox.getgpu(PLAIN).run();
    outcome.refuses("getgpu", 3, "NVML did not answer within 1 s");
    assert!(outcome.elapsed < late, "{:?}", outcome.elapsed);
    wait::until("its process is stuck in the kernel", || stuck(&sandbox) > 0);
    let marker = sandbox.path("work/ran");
    let touch = ["--", "touch", marker.to_str().unwrap()];
    let outcome = sandbox.command("cudawrap").args(touch).run();
    outcome.refuses("cudawrap", 125, "NVML did not answer within 1 s");
    assert!(outcome.elapsed < late, "{:?}", outcome.elapsed);
    assert!(!marker.exists());
    let waited = sandbox.getgpu(["--wait=30"]).run();
    waited.refuses("getgpu", 3, "NVML did not answer within 1 s");
    // What hangs there keeps nothing: a device that the variable names needs no NVML.
    sandbox.assert_clean(Duration::from_millis(200));
    sandbox
        .command("cudawrap")
        .args(touch)
        .visible(&sandbox.uuids()[0])
        .run()
        .exits(0);
    ice.freeze("-u");
    wait::until("what hung is over", || sandbox.processes().is_empty());
    sandbox.getgpu(["--no-reserve"]).run().line();
}

#[test]
fn a_million_gpus_are_a_library_gone_wrong() {
    let count = size(20_000, 1_000_000);
    let node = format!("driver = '550.54.15'\n[[gpu]]\nmodel = 'T4'\ncount = {count}\n");
    let sandbox = Sandbox::builder(&node)
        .settings("nvml_timeout = 20")
        .build();
    let outcome = sandbox.getgpu(["--no-reserve"]).run();
    assert!(
        outcome.elapsed < Duration::from_secs(22),
        "{:?}",
        outcome.elapsed
    );
    if outcome.code() != Some(0) {
        outcome.refuses("getgpu", 3, "");
    }
    let outcome = sandbox.getgpu(["--count-free"]).run();
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
    assert_eq!(
        given.iter().collect::<BTreeSet<_>>().len(),
        given.len(),
        "{given:?}"
    );
    sandbox.getgpu(["--release-all"]).run().exits(0);
    let outcome = sandbox.getgpu(["-n", "2"]).run();
    assert_ne!(outcome.code(), Some(0), "one device twice: {outcome:#?}");
}

#[test]
fn a_second_for_every_call_is_slow_and_nothing_else() {
    let sandbox = Sandbox::builder("mig4")
        .settings("nvml_timeout = 60")
        .build();
    sandbox.faults(&format!(
        "latency = {{ call_us = {} }}",
        size(100_000, 1_000_000)
    ));
    let outcome = sandbox
        .getgpu(["--for", "60"])
        .limit(Duration::from_secs(60))
        .run();
    let uuid = outcome.line();
    let listing = sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .visible(&uuid)
        .run();
    listing.exits(0);
    sandbox.set_settings("nvml_timeout = 1");
    sandbox.faults("latency = { call_us = 1000000 }");
    let outcome = sandbox.getgpu(PLAIN).run();
    outcome.refuses("getgpu", 3, "NVML did not answer within 1 s");
    assert!(
        outcome.elapsed < Duration::from_millis(1700),
        "{:?}",
        outcome.elapsed
    );
}

/// A library in a container sees no process of the host: the memory is the witness.
#[test]
fn a_library_that_is_blind_across_namespaces_is_not_believed() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let _programs = sandbox.occupy(&uuids[..3], "");
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    sandbox.faults("foreign_pidns_blind = true");
    let inside = "mount -t proc proc /proc; getgpu --no-reserve; getgpu --count-free";
    let outcome = sandbox
        .command("unshare")
        .args(["-mpf", "--kill-child", "sh", "-c", inside])
        .run();
    assert_eq!(
        outcome.exits(0).stdout,
        format!("{}\n1\n", uuids[3]),
        "{outcome:#?}"
    );
}

/// On a large GPU a bare context is below one per cent of the memory, and in a container
/// nothing else is seen of it.
#[test]
fn a_bare_context_on_a_large_gpu_is_seen_from_a_container() {
    let sandbox = Sandbox::new("h200x1");
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    sandbox.faults("foreign_pidns_blind = true");
    let inside = |command: &str| {
        let script = format!("mount -t proc proc /proc; {command}");
        sandbox
            .command("unshare")
            .args(["-mpf", "--kill-child", "sh", "-c", &script])
            .run()
    };
    inside("getgpu --no-reserve").line();
    let _program = sandbox.occupy(&sandbox.uuids(), &format!("--memory {}", 600 << 20));
    let outcome = inside("getgpu --no-reserve");
    outcome.refuses("getgpu", 1, "1 of 1 in use (unknown to NVML 1)");
    let ran = inside("cudawrap -- echo ran");
    ran.exits(75).prints("");
    // A site that knows better says so.
    sandbox.set_settings("idle_memory = '700M'");
    inside("getgpu --no-reserve").line();
}

/// DGX Spark, Jetson Thor: NVML reports no memory, and the lists of processes are right.
#[test]
fn an_integrated_gpu_is_judged_by_its_processes() {
    let sandbox =
        Sandbox::new("driver = '580.95.05'\n[[gpu]]\nmodel = 'GB10'\nintegrated = true\n");
    let uuid = sandbox.uuids()[0].clone();
    assert_eq!(sandbox.getgpu(["--no-reserve"]).run().line(), uuid);
    let linked = sandbox.path("bin/simulate");
    symlink(sandbox.path("bin/cudawrap"), &linked).unwrap();
    symlink(
        sandbox.path("bin/sim-cuda"),
        sandbox.path("bin/CUDAWRAP_simulate"),
    )
    .unwrap();
    let outcome = sandbox.command(&linked).run();
    assert!(
        outcome.exits(0).stdout.starts_with(&format!("RUN {uuid} ")),
        "{outcome:#?}"
    );
    outcome.says(&[]);
    for arguments in [["--min-memory", "1G"], ["--share", "10G"]] {
        let line =
            "no device of the request exists here: 1 of unknown memory: NVML does not report any";
        sandbox.getgpu(arguments).run().refuses("getgpu", 3, line);
        sandbox
            .command("cudawrap")
            .args(arguments)
            .args(["--", "true"])
            .run()
            .refuses("cudawrap", 125, line);
    }
    // A fraction needs no figure.
    assert_eq!(
        sandbox
            .getgpu(["--no-reserve", "--share", "1/2"])
            .run()
            .line(),
        uuid
    );
    let _program = sandbox.occupy(&[uuid], "");
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
    if !skip::lacks(&[Need::Mounts]) {
        // Without the host's processes there is no witness at all.
        sandbox.faults("foreign_pidns_blind = true");
        let script = "mount -t proc proc /proc; getgpu --no-reserve";
        let outcome = sandbox
            .command("unshare")
            .args(["-mpf", "--kill-child", "sh", "-c", script])
            .run();
        outcome.refuses("getgpu", 1, "1 of 1 in use (unknown to NVML 1)");
    }
}

/// GH200: the system uses the GPU's memory, so memory in use is nobody's.
#[test]
fn gpu_memory_that_is_a_numa_node_makes_no_device_busy() {
    let gpu = "driver = '570.86.15'\n[[gpu]]\nmodel = 'GH200-96GB'\nidle_mib = 20000\n";
    let plain = Sandbox::new(gpu);
    plain
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
    let sandbox = Sandbox::new(&format!("{gpu}numa_node = 1\n"));
    let uuid = sandbox.getgpu(["--no-reserve"]).run().line();
    // In a MIG device the memory is the parent's.
    let mig =
        "mig = true\ndevice = [{ gi = 1, profile = '3g.40gb', idle_mib = 20000 }]\nnuma_node = 1\n";
    let parts = Sandbox::new(&format!(
        "driver = '570.86.15'\n[[gpu]]\nmodel = 'GH200-96GB'\n{mig}"
    ));
    parts.getgpu(["--no-reserve"]).run().line();
    let _program = sandbox.occupy(&[uuid], "");
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
}

/// Some drivers list a process of another pid namespace with pid 0.
#[test]
fn a_process_without_a_pid_is_somebody() {
    let sandbox = Sandbox::new("mig4");
    for pid in ["0", "4194305", "4294967295"] {
        let entry = |uuid: &String| format!("[[process]]\ndevice = '{uuid}'\npid = {pid}\n");
        sandbox.faults(&sandbox.uuids().iter().map(entry).collect::<String>());
        sandbox
            .getgpu(PLAIN)
            .run()
            .refuses("getgpu", 1, "4 of 4 in use (unknown to NVML 4)");
    }
}

/// What an MPS server or a desktop uses itself is not work; what its clients use is.
#[test]
fn an_ignored_process_hides_a_gib_and_no_clients() {
    let sandbox = Sandbox::new("h200x1");
    let uuid = sandbox.uuids()[0].clone();
    symlink("/bin/sleep", sandbox.path("bin/nvidia-cuda-mps-server")).unwrap();
    let server = sandbox
        .command("nvidia-cuda-mps-server")
        .args(["600"])
        .spawn();
    let entry = |kind: &str, pid: u32, mib: u32| {
        format!(
            "[[process]]\ndevice = '{uuid}'\npid = {pid}\nkind = '{kind}'\nmemory_mib = {mib}\n"
        )
    };
    wait::until("the server has its name", || {
        std::fs::read_to_string(format!("/proc/{}/comm", server.pid()))
            .is_ok_and(|name| name.starts_with("nvidia-cuda"))
    });
    let pid = server.pid();
    sandbox.faults(&entry("compute", pid, 1000));
    sandbox.getgpu(["--no-reserve"]).run().line();
    sandbox.faults(&entry("compute", pid, 9000));
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
    // Drivers 470 to 495 have the list of clients by its second version only.
    for (driver, hidden) in [("550.54.15", &[][..]), ("470.256.02", harness::BEFORE_510)] {
        let node = format!("driver = '{driver}'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n");
        let old = Sandbox::builder(&node).hide(hidden).build();
        let clients =
            (entry("compute", pid, 60) + &entry("mps", 77, 60)).replace(&uuid, &old.uuids()[0]);
        old.faults(&clients);
        old.getgpu(["--explain", "--no-reserve"])
            .run()
            .exits(1)
            .mentions("busy: used by pid 77");
    }
}

/// All has been answered by then, so a crash behind it is nobody's.
#[test]
fn a_library_that_crashes_when_it_is_unloaded_has_answered() {
    if skip::lacks(&[skip::Need::Tool("cc")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let source =
        "#include <stdlib.h>\n__attribute__((destructor)) static void end(void) { abort(); }\n";
    let source = sandbox.file("crash/crash.c", source, 0o644);
    let (library, real) = (
        sandbox.path("crash/crash.so"),
        sandbox.path("lib/libnvidia-ml.so.1"),
    );
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"])
        .args([&library, &source, &real])
        .status()
        .unwrap();
    assert!(built.success());
    sandbox.set_settings(&format!("library = {library:?}"));
    sandbox.getgpu(["--no-reserve"]).run().line();
    sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda"])
        .run()
        .exits(0)
        .says(&[]);
}

/// Before Linux 5.9 there is no close_range(2): the helper closes by /proc what the
/// caller keeps open for its program.
#[test]
fn without_close_range_the_helper_has_nothing_of_the_callers() {
    if skip::lacks(&[skip::Need::Tool("cc")]) || !inject::SUPPORTED {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let source = format!(
        "#include <dirent.h>\n#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void look(void) {{\n\
         int n = 0; DIR *d = opendir(\"/proc/self/fd\"); while (d && readdir(d)) n++;\n\
         FILE *f = fopen(\"{}\", \"a\"); if (f) {{ fprintf(f, \"%d\\n\", n); fclose(f); }} }}\n",
        sandbox.text("work/open")
    );
    let source = sandbox.file("look/look.c", &source, 0o644);
    let (library, real) = (
        sandbox.path("look/look.so"),
        sandbox.path("lib/libnvidia-ml.so.1"),
    );
    let mut cc = std::process::Command::new("cc");
    assert!(
        cc.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"])
            .args([&library, &source, &real])
            .status()
            .unwrap()
            .success()
    );
    sandbox.set_settings(&format!("library = {library:?}"));
    let command = || {
        sandbox
            .shell(
                "bash",
                "exec 20</dev/null 21</dev/null 22</dev/null; exec cudawrap -- true",
            )
            .parts()
    };
    let (mut plain, ..) = command();
    let story = inject::follow(&mut plain, None, |_| false, |_| ());
    let close = story
        .calls
        .iter()
        .find(|call| call.number == nix::libc::SYS_close_range)
        .map(|call| call.point)
        .unwrap();
    let (mut old, ..) = command();
    let fate = inject::Blow::Fail(nix::errno::Errno::ENOSYS);
    let story = inject::follow(&mut old, Some((close, fate)), |_| false, |_| ());
    assert!(story.hit && story.status == 0, "{}", story.status);
    let counts = std::fs::read_to_string(sandbox.path("work/open")).unwrap();
    let counts: Vec<&str> = counts.lines().collect();
    assert!(counts.len() == 2 && counts[0] == counts[1], "{counts:?}");
}
