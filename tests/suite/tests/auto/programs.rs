//! Whole programs that nobody wrapped: Python's ways to start processes, the ranks of real
//! MPI launchers, and NVIDIA's own libcuda, which calls libcudawrap.so before it opens a
//! device.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_tests::hooked::{VARIABLE, cuda, hook, said};
use getgpu_tests::mps::Node;
use getgpu_tests::real::{self, Driver};
use harness::skip::{self, Need};
use harness::{Outcome, Sandbox};

/// A worker that takes a context through the driver and tells what it sees.
const WORKER: &str = "
import ctypes, multiprocessing, os, sys

def work(gate, answers):
    driver = ctypes.CDLL('libcuda.so.1')
    status, context = driver.cuInit(0), ctypes.c_void_p()
    status = status or driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    answers.put((status, (getenv(b'CUDA_VISIBLE_DEVICES') or b'unset').decode()))
    gate.wait()

if __name__ == '__main__':
    how = multiprocessing.get_context(sys.argv[1])
    gate, answers = how.Event(), how.Queue()
    workers = [how.Process(target=work, args=(gate, answers)) for _ in range(4)]
    for worker in workers: worker.start()
    found = [answers.get(timeout=60) for _ in workers]
    gate.set()
    for worker in workers: worker.join()
    for status, device in found: print('worker', status, device)
    print('visible', os.environ.get('CUDA_VISIBLE_DEVICES', 'unset'), [worker.exitcode for worker in workers])
";

/// Fails unless the lines that begin so name all devices of the node.
#[track_caller]
fn each_device_once(sandbox: &Sandbox, outcome: &Outcome, beginning: &str) {
    let lines = outcome.stdout.lines();
    let rest = lines.filter_map(|line| line.strip_prefix(beginning));
    let named: BTreeSet<&str> = rest.filter_map(|rest| rest.split(' ').next()).collect();
    let all = sandbox.uuids();
    assert_eq!(
        named,
        all.iter().map(String::as_str).collect(),
        "{outcome:#?}"
    );
}

#[test]
fn python_workers_of_every_kind_get_their_own_devices() {
    if skip::lacks(&[Need::Tool("/usr/bin/python3")]) {
        return;
    }
    for how in ["fork", "spawn", "forkserver"] {
        let sandbox = Sandbox::new("mig4");
        let script = sandbox.file("work/workers.py", WORKER, 0o644);
        let outcome = sandbox
            .command("/usr/bin/python3")
            .args([script.as_os_str(), how.as_ref()])
            .env(VARIABLE, hook(&sandbox))
            .limit(Duration::from_secs(120))
            .run();
        outcome.exits(0).says(&[]);
        each_device_once(&sandbox, &outcome, "worker 0 ");
        assert_eq!(said(&outcome, "visible"), "unset [0, 0, 0, 0]", "{how}");
        sandbox.assert_exclusive();
        sandbox.assert_clean(Duration::from_secs(3));
    }
}

#[test]
fn a_share_makes_the_program_a_client_of_mps() {
    Node::each(|node| {
        let sandbox = &node.sandbox;
        let client = |name: &str| {
            let ready = format!("ready={name}");
            #[rustfmt::skip]
            let words = [
                "init", "env=CUDA_MPS_PIPE_DIRECTORY", "context", &ready, "hold",
            ];
            cuda(sandbox, &words)
                .env("CUDAWRAP_SHARE", "1/2")
                .env("CUDAWRAP_MPS", "1")
                .env("SIM_CUDA_MAX", "2")
                .spawn()
        };
        let clients = ["one", "two"].map(|name| {
            let client = client(name);
            sandbox.until_file(&format!("work/{name}"));
            client
        });
        for client in &clients {
            let text = client.stdout();
            assert!(
                text.contains("context 0") && text.contains(&node.uuid),
                "{text}"
            );
        }
        for client in clients {
            client.kill();
        }
        node.until_gone();
    });
}

#[test]
fn nvidias_driver_calls_the_library_before_it_opens_a_device() {
    for driver in real::drivers() {
        calls_before_it_opens(&driver);
    }
}

fn calls_before_it_opens(driver: &Driver) {
    let sandbox = Sandbox::new("mig4");
    let library = format!("library={}", driver.library("libcuda.so.1").display());
    #[rustfmt::skip]
    let words = [&library, "init", "visible", "init", "descriptors", "wait-any"];
    let bare = cuda(&sandbox, &words).env_remove(VARIABLE).run();
    let outcome = cuda(&sandbox, &words).run();
    outcome.exits(0).says(&[]);
    // cuInit's status is its own.
    assert_eq!(said(&outcome, "init"), said(&bare, "init"));
    let visible = said(&outcome, "visible").to_owned();
    assert!(sandbox.uuids().contains(&visible), "{outcome:#?}");
    assert_eq!(said(&outcome, "descriptors").matches("run/lock").count(), 2);
    assert_eq!(said(&outcome, "wait-any"), said(&bare, "wait-any"));
    if skip::lacks(&[Need::Tool("strace")]) {
        return;
    }
    let trace = sandbox.path("work/trace");
    sandbox
        .command("strace")
        .args(["-o".as_ref(), trace.as_os_str()])
        .args(["-e", "trace=openat,open,readlink", "cuda", &library, "init"])
        .env(VARIABLE, hook(&sandbox))
        .run();
    let text = std::fs::read_to_string(&trace).unwrap();
    let place = |what: &str| text.lines().position(|line| line.contains(what));
    let (called, opened) = (place("libcudawrap.so").unwrap(), place("/dev/nvidia"));
    assert!(opened.is_none_or(|opened| called < opened), "{text}");
    println!(
        "{}: libcudawrap.so is loaded at line {called}, a device node opened at line {opened:?} of {}",
        driver.version,
        text.lines().count()
    );
}
