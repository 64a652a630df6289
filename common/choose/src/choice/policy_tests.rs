use std::collections::BTreeSet;

use super::*;
use getgpu_model::Uuid;
use rand::SeedableRng;

fn device(n: u32, gpu: u32, profile: &str, mib: u64) -> Device {
    let uuid = Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666"));
    Device {
        gpu,
        slot: Some(n),
        profile: Some(profile.into()),
        memory: Some(mib << 20),
        ..Device::by_uuid(uuid.unwrap())
    }
}

fn ordered(
    devices: &[Device],
    loads: &[(i64, i64)],
    policy: Option<Policy>,
    share: bool,
    by_size: bool,
    seed: u64,
) -> Vec<usize> {
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    let each = devices.iter().zip(loads).enumerate();
    let mut candidates: Vec<_> = each
        .map(|(position, (device, (load, gpu_load)))| Candidate {
            device,
            position,
            load: *load,
            gpu_load: *gpu_load,
            distance: Distance::default(),
        })
        .collect();
    let preference = Preference {
        policy,
        share,
        by_size,
    };
    preference.order(&mut candidates, &mut rng);
    candidates.iter().map(|c| c.position).collect()
}

fn four() -> Vec<Device> {
    (0..4).map(|n| device(n, n / 2, "1g.5gb", 4864)).collect()
}

#[test]
fn shares_go_to_the_least_loaded_and_then_to_the_lowest() {
    let loads = [(5, 0), (3, 0), (3, 0), (9, 0)];
    assert_eq!(ordered(&four(), &loads, None, true, false, 1), [1, 2, 0, 3]);
    let even = ordered(&four(), &[(0, 0); 4], None, true, false, 1);
    assert_eq!(even, [0, 1, 2, 3]);
}

#[test]
fn policies() {
    let loads = [(0, 1), (1, 1), (0, 3), (3, 3)];
    let first = |policy, share, seed| ordered(&four(), &loads, Some(policy), share, false, seed)[0];
    let all = |policy| ordered(&four(), &loads, Some(policy), false, false, 1);
    assert_eq!(all(Policy::First), [0, 1, 2, 3]);
    assert_eq!(all(Policy::Last), [3, 2, 1, 0]);
    // Ties at random.
    let firsts = |policy, share| -> BTreeSet<usize> {
        (0..80).map(|seed| first(policy, share, seed)).collect()
    };
    assert_eq!(firsts(Policy::Spread, false), [0, 1].into());
    assert_eq!(firsts(Policy::Pack, false), [2, 3].into());
    assert_eq!(firsts(Policy::Random, true), [0, 1, 2, 3].into());
    let shares = [Policy::Spread, Policy::Pack].map(|policy| first(policy, true, 1));
    assert_eq!(shares, [0, 3]);
}

/// A policy whose order changes with a load has to ask for it, or it would get zeros.
#[test]
fn a_policy_asks_for_the_loads_that_it_goes_by() {
    let policies = Policy::WORDS.iter().map(|word| word.parse().ok());
    for policy in policies.chain([None]) {
        for share in [false, true] {
            let order =
                |loads: [(i64, i64); 4], seed| ordered(&four(), &loads, policy, share, false, seed);
            let changes = |load: fn(i64) -> (i64, i64)| {
                let (rising, falling) = ([0, 1, 2, 3].map(load), [3, 2, 1, 0].map(load));
                (0..20).any(|seed| order(rising, seed) != order(falling, seed))
            };
            let preference = Preference {
                policy,
                share,
                by_size: false,
            };
            let case = format!("{policy:?}, share: {share}");
            assert_eq!(
                changes(|load| (0, load)),
                preference.by_gpu_load(),
                "{case}"
            );
            assert!(!changes(|load| (load, 0)) || share, "{case}");
        }
    }
}

#[test]
fn the_smallest_that_fits_goes_first_and_equal_profiles_tie() {
    let node = [
        device(0, 0, "3g.20gb", 20096),
        device(1, 0, "2g.10gb", 9984),
        device(2, 1, "1g.10gb", 9856),
        device(3, 1, "2g.10gb", 9856),
    ];
    let orders: BTreeSet<_> = (0..40)
        .map(|seed| ordered(&node, &[(0, 0); 4], None, false, true, seed))
        .collect();
    assert_eq!(orders, [vec![2, 1, 3, 0], vec![2, 3, 1, 0]].into());
}

/// Memory decides before compute slices, but for a fiftieth of it.
#[test]
fn memory_that_differs_by_a_fiftieth_is_equal() {
    let by_size = |node: &[Device]| ordered(node, &[(0, 0); 2], None, false, true, 1);
    let larger_with_fewer_slices = [
        device(0, 0, "1g.20gb", 19968),
        device(1, 0, "2g.10gb", 9856),
    ];
    assert_eq!(by_size(&larger_with_fewer_slices), [1, 0]);
    let equal = [device(0, 0, "2g.10gb", 50), device(1, 0, "1g.10gb", 51)];
    assert_eq!(by_size(&equal), [1, 0]);
}
