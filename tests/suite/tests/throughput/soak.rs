//! Long runs, only when asked for: `make soak`, ordinary traffic under one disturbance
//! after the other, and `make storms`, one storm after the other.

use getgpu_tests::soak::{number, soak};
use getgpu_tests::storm::{Ways, storm};

#[test]
#[ignore = "takes as long as it is told to"]
fn a_soak_leaves_nothing_behind_and_nothing_grows() {
    let _turn = harness::turn();
    soak();
}

/// STORMS (1,000) from seed STORM_SEED (100) on, of 400 launches each, on small and large
/// nodes in turn. Ends at the first that fails; its seed is the last that was printed.
#[test]
#[ignore = "takes as long as it is told to"]
fn storms_one_after_the_other_leave_nothing_behind() {
    let _turn = harness::turn();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let children = || {
        let path = format!("/proc/self/task/{}/children", nix::unistd::gettid());
        std::fs::read_to_string(path).unwrap()
    };
    // What the first sandbox starts stays.
    drop(harness::temporary());
    let before = (open(), children());
    let (count, from) = (number("STORMS", 1000), number("STORM_SEED", 100));
    for seed in from..from + count {
        println!("storm {} of {count}, seed {seed}", seed - from + 1);
        let (node, ways, least) = match seed % 5 {
            0 | 2 => ("a100x1", Ways::Ours, 100),
            1 | 3 => ("a100x8", Ways::Ours, 600),
            _ => ("a100x8", Ways::Unwrapped, 600),
        };
        storm(node, ways, 400, least, seed);
        // Locks, holders and processes of its sandbox are looked at by each storm itself.
        assert_eq!((open(), children()), before, "seed {seed}");
    }
}
