//! Whole programs that nobody wrapped: Python's ways to start processes, the ranks of real
//! MPI launchers, and NVIDIA's own libcuda, which calls libcudawrap.so before it opens a
//! device.

use getgpu_tests::hooked::{VARIABLE, cuda, hook, said};
use getgpu_tests::mps::Node;
use getgpu_tests::real::{self, Driver};
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn a_share_makes_the_program_a_client_of_mps() {
    Node::each(|node| {
        let sandbox = &node.sandbox;
        let client = |name: &str| {
            let words = format!("init env=CUDA_MPS_PIPE_DIRECTORY context ready={name} hold");
            let client = cuda(sandbox, &words).env("CUDAWRAP_SHARE", "1/2");
            let client = client.env("CUDAWRAP_MPS", "1");
            client.env("SIM_CUDA_MAX", "2").spawn()
        };
        let clients = ["one", "two"].map(|name| {
            let client = client(name);
            sandbox.until_file(&format!("work/{name}"));
            client
        });
        for client in &clients {
            let text = client.stdout();
            let there = ["context 0", &node.uuid].map(|part| text.contains(part));
            assert_eq!(there, [true; 2], "{text}");
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
    // What is told the probe has no blanks; a checkout may be in a directory whose name has some.
    let linked = sandbox.path("work/driver");
    let library = driver.library("libcuda.so.1");
    std::os::unix::fs::symlink(library.parent().unwrap(), &linked).unwrap();
    let library = format!("library={}", linked.join("libcuda.so.1").display());
    let words = format!("{library} init visible init descriptors wait-any");
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
    let line = format!("strace -o trace -e trace=openat,open,readlink cuda {library} init");
    sandbox.words(&line).env(VARIABLE, hook(&sandbox)).run();
    let text = std::fs::read_to_string(sandbox.path("work/trace")).unwrap();
    let place = |what: &str| text.lines().position(|line| line.contains(what));
    let (called, opened) = (place("libcudawrap.so").unwrap(), place("/dev/nvidia"));
    assert!(opened.is_none_or(|opened| called < opened), "{text}");
    println!(
        "{}: libcudawrap.so is loaded at line {called}, a device node opened at line {opened:?} of {}",
        driver.version,
        text.lines().count()
    );
}
