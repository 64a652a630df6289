//! A lease lasts until the last process that inherited it exits: forks, daemons, shells
//! that close descriptors, programs that start others. It is lost only if every
//! descriptor is closed, as the README says.

use std::sync::atomic::{AtomicUsize, Ordering};

use getgpu_tests::wrapped::python;
use getgpu_tests::{all_at_once, listing};
use harness::{Sandbox, size, skip, wait};

/// In bash: READY says that it has come to the state that matters, GO waits for the end.
#[rustfmt::skip]
const SHELLS: [(&str, &str); 7] = [
    ("a child that goes on", "(READY; GO) & exit 0"),
    ("a daemon", "setsid bash -c 'exec </dev/null >/dev/null 2>&1; READY; GO' & exit 0"),
    ("a grandchild in another directory", "( ( cd /; READY; GO ) & ); exit 0"),
    ("a shell that uses descriptor 3", "exec 3>/dev/null; READY; GO"),
    ("a shell that closes all low ones",
        "for n in $(seq 3 99); do eval \"exec $n>&-\"; done; READY; GO"),
    ("a pipe of two", "(READY; GO) | cat"),
    ("another program by exec", "exec sh -c 'READY; GO'"),
];

/// What every starter below starts.
const INNER: &str = "READY; GO";

/// In Python, before READY and GO; and whether the lease is held then.
#[rustfmt::skip]
const PYTHON: [(&str, &str, bool); 5] = [
    ("a program that closes all descriptors", "os.closerange(3, 4096)", false),
    ("a program that closes all low ones", "os.closerange(3, 800)", true),
    ("a program that closes all high ones", "os.closerange(100, 4096)", true),
    ("a child without descriptors whose parent has exited",
        "if os.fork(): os._exit(0)\nos.closerange(3, 4096)", false),
    ("a daemon of two forks", "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)",
        true),
];

/// Programs that start others, some of which close descriptors first.
#[rustfmt::skip]
const STARTERS: [&[&str]; 15] = [
    &["nohup"], &["setsid", "-w"], &["timeout", "60"], &["nice"], &["stdbuf", "-oL"],
    &["taskset", "1"], &["setpriv", "--no-new-privs"], &["env"],
    &["su", "-s", "/bin/sh", "nobody", "-c"], &["runuser", "-u", "nobody", "--"],
    &["sudo", "-n", "-u", "nobody"], &["script", "-qec"], &["tcsh", "-f", "-c"],
    &["zsh", "-f", "-c"], &["perl", "-e", "system(@ARGV)", "--"],
];

/// Runs `words` under cudawrap, looks whether the lease is there when it says that it is
/// ready, ends it, and waits until nothing is left.
fn live(what: &str, words: &[String], held: bool) {
    let sandbox = Sandbox::new("mig4");
    let (ready, go) = (sandbox.path("work/ready"), sandbox.path("work/go"));
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    // In this order: what is put in for READY, a random path, may well contain GO.
    let read = |word: &String| word.replace("GO", &format!("read x <{}", go.display()));
    let words = words.iter().map(read);
    let words = words.map(|word| word.replace("READY", &format!("echo >{}", ready.display())));
    // Whatever the umask: nobody's programs read it too.
    std::fs::set_permissions(&go, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let command = sandbox.words("cudawrap --").arg0("cudawrap");
    let program = command.args(words).spawn();
    let came = wait::holds_within(wait::LONG, || ready.exists());
    assert!(came, "{what}: not ready: {}", program.stderr());
    if held {
        assert!(sandbox.locked(), "{what}: lost");
    } else {
        let closed = format!("{what}: the kernel has closed them");
        wait::until(&closed, || !sandbox.locked());
    }
    std::fs::write(&go, "x\n").unwrap();
    wait::until(&format!("{what}: free again"), || !sandbox.locked());
}

#[test]
fn a_lease_ends_with_the_last_process_that_has_it() {
    let mut lives: Vec<(String, Vec<String>, bool)> = Vec::new();
    for (what, script) in SHELLS {
        let words = ["bash", "-c", script].map(str::to_owned).to_vec();
        lives.push((what.to_owned(), words, true));
    }
    let root = nix::unistd::geteuid().is_root();
    for starter in STARTERS {
        let user = ["su", "runuser", "sudo"].contains(&starter[0]);
        if skip::tool(starter[0]).is_none() || (user && !root) {
            skip::say(&format!("{} is not installed, or needs root", starter[0]));
            continue;
        }
        let mut words: Vec<String> = starter.iter().map(|word| (*word).to_owned()).collect();
        // Some take a line for a shell, the others words.
        match starter[0] {
            "su" | "script" => words.push(INNER.to_owned()),
            "tcsh" | "zsh" => words.push(format!("sh -c '{INNER}'; true")),
            _ => words.extend(["sh", "-c", INNER].map(str::to_owned)),
        }
        lives.push((starter[0].to_owned(), words, true));
    }
    if let Some(python) = python() {
        for (what, lines, held) in PYTHON {
            let text = format!("import os\n{lines}\nos.system('READY; GO')");
            let words = vec![python.clone(), "-c".to_owned(), text];
            lives.push((what.to_owned(), words, held));
        }
    }
    let (times, done) = (size(1, 50), AtomicUsize::new(0));
    all_at_once(lives.chunks(lives.len().div_ceil(4)), |some| {
        for (what, words, held) in some {
            for _ in 0..times {
                live(what, words, *held);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    println!(
        "{} ways of life, {} lives: each lease ended when it should",
        lives.len(),
        done.load(Ordering::Relaxed)
    );
    assert_eq!(done.into_inner(), lives.len() * times);
}

/// The process that leased the device has exited, or its first thread has: the list names one that
/// has its descriptors.
#[test]
fn the_list_names_what_has_a_lease_now() {
    let child = "cudawrap -- sh -c 'sim-cuda --until-file go & exit'";
    let threads = "cudawrap -- python3 -c \"
import ctypes, os, threading, time
def wait():
    while not os.path.exists('go'): time.sleep(0.05)
    os._exit(0)
threading.Thread(target=wait).start()
open('ready', 'w').close()
ctypes.CDLL(None).pthread_exit(None)\"";
    for (script, program) in [(child, "sim-cuda"), (threads, "python3")] {
        if skip::lacks(&[skip::Need::Tool("python3"), skip::Need::HostPids]) {
            return;
        }
        let sandbox = Sandbox::with("h200x1", "max_per_user = 1");
        let out = std::fs::File::create(sandbox.path("out")).unwrap();
        let command = sandbox.shell("bash", script);
        let command = command.stdout(out.try_clone().unwrap()).stderr(out);
        let running = getgpu_tests::as_other_user(command).spawn();
        let uuid = sandbox.uuids()[0].clone();
        let seen = || {
            let listed = listing::json(&sandbox);
            listing::device(&listed, &uuid)["holders"][0].clone()
        };
        wait::until("it is listed", || seen()["program"] == program);
        // A zombie shows the name of its program, too.
        if program == "python3" {
            sandbox.until_file("work/ready");
        }
        assert_eq!(seen()["program"], program);
        let over = getgpu_tests::somebody(&sandbox, &[]).run();
        over.refuses(1, "you hold 1 of at most 1");
        sandbox.file("work/go", "", 0o644);
        running.wait();
        wait::until("it is free", || !sandbox.locked());
    }
}

/// Another user may not read who has the descriptors: NVML shows who uses the device.
#[test]
fn the_list_names_what_nvml_shows_to_another_user() {
    if skip::lacks(&[skip::Need::Root, skip::Need::HostPids]) {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let script = "cudawrap -- sh -c 'sim-cuda --until-file go & exit'";
    let out = std::fs::File::create(sandbox.path("out")).unwrap();
    let command = sandbox.shell("bash", script);
    let command = command.stdout(out.try_clone().unwrap()).stderr(out);
    command.uid(getgpu_tests::OTHER).spawn().wait().exits(0);
    sandbox.until_running(1);
    let listed = sandbox.ask_as(1002, "--list --json");
    let listed = serde_json::from_str(&listed.stdout).unwrap();
    let holder = &listing::device(&listed, &sandbox.uuids()[0])["holders"][0];
    assert_eq!(
        (&holder["kind"], &holder["program"]),
        (&"lease".into(), &"sim-cuda".into())
    );
    sandbox.file("work/go", "", 0o644);
    wait::until("it is free", || !sandbox.locked());
}
