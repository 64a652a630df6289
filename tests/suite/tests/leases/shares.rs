//! Exactly k programs of 1/k fit on a device, and a share and a whole device exclude each
//! other. The judge is the simulated programs' own log: `--max K` makes a program report
//! that it met K others.

use std::time::Duration;

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{all_at_once, listing};
use harness::{Running, Sandbox, wait};

pub(crate) fn sharer(sandbox: &Sandbox, share: &str, most: u32) -> Running {
    let program = format!("sim-cuda --run forever --max {most}");
    let command = sandbox.words(&format!("cudawrap --share {share} -- {program}"));
    command.limit(Duration::from_secs(600)).spawn()
}

#[test]
fn exactly_k_programs_of_one_kth_fit_for_every_k() {
    // Two nodes at a time, since most of it is starting processes.
    all_at_once([0, 1], |half| {
        let sandbox = Sandbox::new("h200x1");
        // In full size every k, which takes a minute.
        let some = [2, 3, 4, 5, 7, 8, 13, 16, 31, 64];
        let all: Vec<u32> = (2..=64).chain([100]).collect();
        let ks = if harness::full() { &all[..] } else { &some };
        for k in ks.iter().filter(|k| *k % 2 == half) {
            let share = format!("--share 1/{k}");
            for _ in 0..*k {
                sandbox.line(&format!("{share} --for=600"));
            }
            let refused = sandbox.ask(&share);
            refused.refuses(1, "1 of 1 in use (reserved 1)");
            assert_eq!(sandbox.line(&format!("--count-free {share}")), "0");
            let release = sandbox.words("getgpu --release-all");
            release.limit(Duration::from_secs(60)).run().exits(0);
        }
        sandbox.assert_clean();
    });
}

#[test]
fn whole_and_parts_exclude_each_other() {
    let sandbox = Sandbox::new("h200x1");
    let half = sharer(&sandbox, "1/2", 2);
    sandbox.until_running(1);
    let line = "no free device: 1 of 1 in use";
    for plain in ["", "--share=1", "--share 2/3"] {
        let refused = sandbox.ask(&format!("{plain} --no-reserve"));
        refused.refuses(1, line);
    }
    sandbox.refuses(&[("cudawrap -- true", 75, line)]);
    let other = sharer(&sandbox, "50%", 2);
    sandbox.until_running(2);
    half.kill();
    sandbox.line("--no-reserve --share 0.5");
    sandbox.ask("--no-reserve").exits(1);
    other.kill();
    let whole = sandbox.leased().spawn();
    sandbox.until_running(1);
    sandbox.ask("--no-reserve --share 1/848").refuses(1, line);
    drop(whole);
    sandbox.assert_exclusive();
}

#[test]
fn a_share_by_size_is_a_part_of_each_device() {
    let sandbox = Sandbox::new("h200x1-mig");
    // 16 GiB each: three times 5 G, not four.
    for _ in 0..21 {
        sandbox.line("--share 5G --for=600");
    }
    sandbox.ask("--share 5G").exits(1);
    let listing = listing::json(&sandbox);
    let used = listing["devices"][0]["share_used"].as_f64().unwrap();
    assert!((used - 15.0 / 16.0).abs() < 0.001, "{listing}");
}

#[test]
fn a_share_larger_than_the_device_takes_nothing_of_any_other() {
    let sandbox = Sandbox::new("a100x8");
    let grant = sandbox.uuids()[0].clone();
    wrap(&sandbox, "work", "app", "sim-cuda");
    sandbox.ask_within(&grant, "--share 600G").exits(3);
    let granted = |line: &str| sandbox.words(line).visible(&grant).run();
    let named = granted("cudawrap --share 600G -- true");
    named.refuses(125, "cudawrap: --share 600G: ");
    let linked = granted("CUDAWRAP_SHARE=600G @/work/app");
    linked.exits(0).shows(&format!("RUN {grant} "));
    // The same inside a lease, which has a part of nothing else.
    let inside = sandbox.words("cudawrap -- cudawrap --share 600G -- true");
    inside.run().exits(125);
    sandbox.assert_clean();
}

/// Those who share a device make it busy, so NVML is not asked.
#[test]
fn a_shared_device_is_not_asked_about() {
    let sandbox = Sandbox::new("h200x1");
    let _first = sharer(&sandbox, "1/2", 2);
    sandbox.until_running(1);
    sandbox.log_calls();
    sandbox.words("cudawrap --share 1/2 -- true").run().exits(0);
    let calls = sandbox.calls();
    let asked = calls.iter().any(|call| call.function.contains("Processes"));
    assert!(!asked, "{calls:#?}");
}

/// Two reservations on one device name it alike: whose a program is, its caller tells.
#[test]
fn a_program_of_another_reservation_on_the_device_keeps_none_but_its_own() {
    let sandbox = Sandbox::new("h200x1");
    let empty = "getgpu --share 1/2 --for 300ms; true";
    sandbox.shell("dash", empty).run().exits(0);
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2) sim-cuda --run forever; true";
    let _program = sandbox.shell("dash", script).spawn();
    sandbox.until_running(1);
    wait::until("the reservation without a program has ended", || {
        sandbox.line("--count-free --share 1/2") == "1"
    });
    assert_eq!(sandbox.running(), 1);
}
