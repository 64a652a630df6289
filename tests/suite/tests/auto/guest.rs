//! libcudawrap.so is a guest in a stranger's program: the program finds no child, no
//! signal, no thread and no descriptor but the lease's, whatever state it is in and however
//! often, or by how many threads, the driver asks.

use std::collections::BTreeSet;
use std::fs;

use getgpu_tests::hooked::{VARIABLE, all_said, bytes, cuda, holder, hook, said, tells};
use getgpu_tests::listing;
use getgpu_tests::mps::words;
use harness::skip::{self, Need};
use harness::{Sandbox, Signal, wait};

#[test]
fn the_library_exports_one_function() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("nm")], "none", "") else {
        return;
    };
    let line = "nm -D --defined-only @/lib/getgpu/libcudawrap.so";
    let outcome = sandbox.words(line).run();
    let lines = outcome.stdout.lines();
    let names = lines.filter_map(|line| line.split(' ').nth(2));
    assert!(names.eq(["InitializeInjection"]), "{outcome:#?}");
}

#[test]
fn the_program_finds_nothing_but_the_lease() {
    let sandbox = Sandbox::new("mig4");
    let words =
        "sigchld mask descriptors hook descriptors mask signals wait-any hook descriptors signals";
    let outcome = cuda(&sandbox, words).run();
    outcome.exits(0).says(&[]);
    assert_eq!(all_said(&outcome, "hook"), ["1 errno kept"; 2]);
    assert_eq!(all_said(&outcome, "signals"), ["0 reaped 0"; 2]);
    assert_eq!(said(&outcome, "wait-any"), "ECHILD: No child processes");
    let masks = all_said(&outcome, "mask");
    assert_eq!(masks[0], masks[1], "signals and threads");
    let shown = all_said(&outcome, "descriptors");
    let lock = sandbox.lock().display().to_string();
    let left = shown[1].split(' ').filter(|one| !one.ends_with(&lock));
    assert!(left.eq(shown[0].split(' ')), "{shown:?}");
    assert_eq!(shown[1].matches(&lock).count(), 2, "{shown:?}");
    assert_eq!(shown[1], shown[2], "asked twice");
}

#[test]
fn threads_that_ask_at_once_get_one_device() {
    let sandbox = Sandbox::new("mig4");
    let lock = sandbox.lock().display().to_string();
    let words = "threads=16 init visible uuid context descriptors";
    for _ in 0..10 {
        let outcome = cuda(&sandbox, words).run();
        outcome.exits(0).says(&[]);
        tells(&outcome, &[("threads", "0"), ("context", "0")]);
        assert_eq!(bytes(said(&outcome, "visible")), said(&outcome, "uuid"));
        assert_eq!(said(&outcome, "descriptors").matches(&lock).count(), 2);
    }
}

#[test]
fn forks_get_their_own_device_before_the_first_call_then_share() {
    let sandbox = Sandbox::new("mig4");
    let words = "fork init visible until=go join init visible context";
    let outcome = cuda(&sandbox, words).spawn();
    let has_device = || outcome.stdout().contains("visible MIG");
    wait::until("the child has its device", has_device);
    // The parent waits for the child, which still has the first one.
    let one = cuda(&sandbox, "init visible context").run();
    let own = format!("visible {}", said(&one, "visible"));
    assert_ne!(own, outcome.stdout().lines().nth(1).unwrap());
    fs::write(sandbox.path("work/go"), "").unwrap();
    outcome.wait().exits(0);
    // What is forked behind it holds the lease on when the parent has exited.
    let lock = sandbox.lock().display().to_string();
    let words = "init visible fork visible descriptors ready=forked hold leave";
    let parent = cuda(&sandbox, words).spawn();
    sandbox.until_file("work/forked");
    let outcome = parent.wait();
    assert_eq!(sandbox.line("--count-free"), "3");
    let seen: BTreeSet<&str> = all_said(&outcome, "visible").into_iter().collect();
    assert_eq!(seen.len(), 1);
    assert_eq!(said(&outcome, "descriptors").matches(&lock).count(), 2);
    for pid in sandbox.processes() {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
    sandbox.assert_clean();
    // A program that it executes finds the variable and the lease.
    let words = "init visible spawn=printenv descriptors";
    let outcome = cuda(&sandbox, words).run();
    let entry = format!("CUDA_VISIBLE_DEVICES={}", said(&outcome, "visible"));
    outcome.shows(&entry);
    assert!(!said(&outcome, "descriptors").contains("run/lock (close-on-exec)"));
}

#[test]
fn a_program_in_a_poor_state_gets_its_device_or_a_line() {
    let sandbox = Sandbox::new("mig4");
    // Standard streams closed, and everything else.
    for first in ["0", "3"] {
        let words = format!("close={first} init ready=there hold");
        let program = cuda(&sandbox, &words).spawn();
        sandbox.until_file("work/there");
        assert_eq!(sandbox.line("--count-free"), "3", "close={first}");
        let leads = |fd: &i32| fs::read_link(format!("/proc/{}/fd/{fd}", program.pid()));
        let is_lock = |fd: &i32| leads(fd).is_ok_and(|target| target == sandbox.lock());
        let open = |range: std::ops::Range<i32>| range.filter(is_lock).count();
        assert_eq!((open(0..3), open(3..4096)), (0, 2), "close={first}");
        program.kill();
        fs::remove_file(sandbox.path("work/there")).unwrap();
    }
    // With few descriptors left: one of the lease is enough, and with none there is none.
    let mut results = BTreeSet::new();
    for most in 4..16 {
        let words = format!("library=@/lib/libcuda.so.1 version nofile={most} hook visible");
        let outcome = cuda(&sandbox, &words).run();
        outcome.exits(0);
        let none = said(&outcome, "visible") == "empty";
        let told = outcome.stderr.contains("CUDA finds no device");
        assert_eq!(none, told, "{most}: {outcome:#?}");
        results.insert(none);
    }
    // Both ends were tried.
    assert_eq!(results, BTreeSet::from([false, true]));
    // Little memory.
    for kib in [60_000, 40_000, 30_000, 20_000] {
        let words = format!("version memory={} hook visible", kib * 1024);
        let outcome = cuda(&sandbox, &words).run();
        let ended = outcome.code() == Some(0) && said(&outcome, "hook").starts_with('1');
        assert!(ended, "{kib} KiB: {outcome:#?}");
    }
    sandbox.assert_clean();
}

#[test]
fn unloading_and_preloading_change_nothing() {
    let sandbox = Sandbox::new("mig4");
    let lock = sandbox.lock().display().to_string();
    let words = "init unload hook visible descriptors context";
    let outcome = cuda(&sandbox, words).run();
    outcome.exits(0).says(&[]);
    assert_eq!(said(&outcome, "descriptors").matches(&lock).count(), 2);
    let preloaded = cuda(&sandbox, "visible init visible wait-any");
    let outcome = preloaded.env("LD_PRELOAD", hook(&sandbox)).run();
    outcome.exits(0).says(&[]);
    let seen = all_said(&outcome, "visible");
    assert_eq!((seen[0], seen.len()), ("unset", 2), "{outcome:#?}");
    assert!(sandbox.uuids().contains(&seen[1].into()), "{outcome:#?}");
}

#[test]
fn the_helper_has_no_descriptor_and_no_library_of_the_program() {
    let sandbox = Sandbox::new("h200x1");
    let _holder = holder(&sandbox);
    let marked = sandbox.file("work/marked", "", 0o644);
    let script = format!("exec 7<{0} 20<{0}; exec cuda init", marked.display());
    let shell = sandbox.shell("bash", &script);
    let shell = shell
        .env(VARIABLE, hook(&sandbox))
        .env("LD_PRELOAD", hook(&sandbox));
    let program = shell.env("CUDAWRAP_WAIT", "forever").spawn();
    wait::until("it is in the queue", || listing::waiting(&sandbox) == 1);
    let mut helpers = sandbox.processes();
    let is_helper = |pid: &i32| words(*pid, "cmdline").contains(&"--lease-worker".into());
    helpers.retain(is_helper);
    let [helper] = helpers.as_slice() else {
        panic!("{helpers:?}")
    };
    let stat = fs::read_to_string(format!("/proc/{helper}/stat")).unwrap();
    let fields = stat.rsplit(") ").next().unwrap();
    let intermediate = fields.split(' ').nth(1).unwrap().to_owned();
    for pid in [&helper.to_string(), &intermediate] {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let mut targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        assert!(targets.all(|target| target != marked), "{pid}");
    }
    let environment = words(*helper, "environ").concat();
    assert!(!environment.contains(VARIABLE) && !environment.contains("LD_PRELOAD"));
    // It is the program that is waited for and killed, and the rest goes with it.
    program.kill();
    wait::until("the helpers are gone", || sandbox.processes().len() == 1);
}

#[test]
fn a_static_program_that_loads_the_driver_gets_its_device() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("cc")], "mig4", "") else {
        return;
    };
    let source = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void *hook = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    void *library = dlopen("libc.so.6", RTLD_NOW);
    if (!hook || !library) return 9;
    int (*initialize)(void) = (int (*)(void))dlsym(hook, "InitializeInjection");
    char *(*theirs)(const char *) = (char *(*)(const char *))dlsym(library, "getenv");
    printf("hook %d\n", initialize());
    printf("visible %s\n", theirs("CUDA_VISIBLE_DEVICES"));
    return 0;
}
"#;
    sandbox.file("work/static.c", source, 0o644);
    let built = sandbox.words("cc -static -w -o static static.c").run();
    if built.code() != Some(0) {
        return skip::say("no static C library here");
    }
    let program = sandbox.words("@/work/static");
    let outcome = program.env(VARIABLE, hook(&sandbox)).run();
    if outcome.code() == Some(9) {
        return skip::say("a static program cannot load libraries here");
    }
    // The library lives in a second C library, as the driver does, which reads the
    // variable there.
    assert_eq!(said(&outcome, "hook"), "1", "{outcome:#?}");
    let visible = said(&outcome, "visible").to_owned();
    assert!(sandbox.uuids().contains(&visible), "{outcome:#?}");
}
