//! A limit of processor time (ulimit -t), which the holder inherits from its caller, ends no
//! reservation: the holder raises it, or goes on in a fork before it is used up.

use getgpu_tests::{as_other_user, free_again};
use harness::{Sandbox, skip, wait};

/// The caller has more programs in the background than are compared by their starts, and their
/// environments are large: each look reads them all.
#[test]
fn a_limit_of_processor_time_ends_no_reservation() {
    if skip::lacks(&[skip::Need::Tool("bash")]) {
        return;
    }
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'\nreserve_for = '10min'");
    let script = "ulimit -t 1; export A=$(head -c 120000 /dev/zero | tr '\\0' x); export B=$A C=$A D=$A; \
        for i in $(seq 20); do sleep 1000 & done; unset A B C D; d=$(getgpu); echo $d >printed; \
        read line <fifo; kill $(jobs -p)";
    let fifo = sandbox.path("work/fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    let shell = as_other_user(sandbox.shell("bash", script)).spawn();
    sandbox.until_file("work/printed");
    let first = sandbox.holders()[0].pid;
    wait::until("the holder is another process", || {
        let holders = sandbox.holders();
        assert!(sandbox.locked(), "it has ended");
        holders.iter().any(|holder| holder.pid != first)
    });
    let uuid = sandbox.uuids()[0].clone();
    let release = as_other_user(sandbox.getgpu(["--release", &uuid]));
    release.run().answers("");
    std::fs::write(&fifo, "\n").unwrap();
    shell.wait().exits(0);
    free_again(&sandbox);
}
