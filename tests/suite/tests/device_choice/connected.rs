//! Several whole GPUs are those that are connected best, of those that are free; sets that are alike come
//! equally often, and a policy says otherwise.

use std::collections::BTreeSet;

use harness::Sandbox;

/// Eight GPUs, connected so.
fn node(links: &str) -> Sandbox {
    Sandbox::new(&format!(
        "driver = '550.54.15'\nlinks = '{links}'\n[[gpu]]\nmodel = 'H100-80GB'\ncount = 8\n"
    ))
}

/// The NVML indices of what a call prints.
fn picked(sandbox: &Sandbox, arguments: &str) -> Vec<usize> {
    let line = sandbox.line(arguments);
    let uuids = sandbox.uuids();
    let index = |one: &str| uuids.iter().position(|uuid| uuid == one).unwrap();
    line.split(',').map(index).collect()
}

#[test]
fn a_set_lies_in_one_socket_and_has_whole_pairs() {
    for links in ["switch", "pcie", "pairs"] {
        let sandbox = node(links);
        let mut seen = BTreeSet::new();
        for _ in 0..12 {
            let set = picked(&sandbox, "-n 4 --no-reserve");
            let halves: BTreeSet<usize> = set.iter().map(|gpu| gpu / 4).collect();
            assert_eq!(halves.len(), 1, "{links}: {set:?}");
            seen.extend(halves);
        }
        assert_eq!(seen.len(), 2, "{links}: each half comes");
    }
    let pairs = node("pairs");
    for _ in 0..8 {
        let set = picked(&pairs, "-n 2 --no-reserve");
        assert_eq!(set[0] / 2, set[1] / 2, "{set:?}");
    }
}

/// Each of two has its links to one that the site leaves out: they are no better than any two.
#[test]
fn links_to_what_is_left_out_connect_nothing() {
    let sandbox = node("pairs");
    let uuids = sandbox.uuids();
    sandbox.set_settings(&format!("excluded = ['{}', '{}']\n", uuids[1], uuids[3]));
    for _ in 0..12 {
        let set = picked(&sandbox, "-n 2 --no-reserve");
        assert_eq!(set[0] / 2, set[1] / 2, "{set:?}");
    }
}

/// One of each of three pairs is leased, and a program without a lease runs on one of the fourth.
#[test]
fn what_is_in_use_is_no_part_of_the_best_set() {
    let sandbox = node("pairs");
    let uuids = sandbox.uuids();
    for gpu in [0, 2] {
        sandbox.line(&format!("{gpu} --for=600"));
    }
    let busy = sandbox.words("sim-cuda --run forever").visible(&uuids[5]);
    let _busy = busy.spawn();
    sandbox.until_running(1);
    for _ in 0..6 {
        assert_eq!(picked(&sandbox, "-n 2 --no-reserve"), [6, 7]);
    }
    assert_eq!(picked(&sandbox, "-n 2 --for=600"), [6, 7]);
    // What is left are three of different pairs; two of them are in one socket.
    assert_eq!(picked(&sandbox, "-n 2 --for=600"), [1, 3]);
    let last = sandbox.ask("-n 2");
    last.exits(1);
}

#[test]
fn a_policy_says_otherwise_and_without_word_of_links_any_will_do() {
    let sandbox = node("pcie");
    sandbox.line("0 --for=600");
    assert_eq!(
        picked(&sandbox, "-n 4 --policy first --no-reserve"),
        [1, 2, 3, 4]
    );
    sandbox.faults("[[rule]]\nfunction = 'nvmlDeviceGetTopologyCommonAncestor'\nreturns = 999\n");
    assert_eq!(picked(&sandbox, "-n 6 --no-reserve").len(), 6);
    assert_eq!(picked(&sandbox, "-n 7 --no-reserve"), [1, 2, 3, 4, 5, 6, 7]);
}
