//! So many ranks on so many devices: evenly, in blocks, the first devices one more where
//! the counts are uneven. Pure arithmetic; who gets which device in the end is
//! decided by leases.

use getgpu_model::Share;

use super::rank::Rank;

/// The share of each rank where there are more ranks than devices, or more than devices with
/// `count` of them each: one of as many parts as the fullest device has ranks.
pub fn share(rank: &Rank, devices: usize, count: usize) -> Option<Share> {
    // Where the launcher has divided the devices already, this rank sees fewer than there
    // are.
    let devices = rank.devices.filter(|all| *all > devices).unwrap_or(devices);
    let parts = rank.size?.saturating_mul(count).div_ceil(devices.max(1));
    (parts > 1).then_some(Share::Fraction {
        of: 1,
        parts: parts as u64,
    })
}

/// The device that the rank tries first: ranks are in blocks, in the order of the devices.
pub fn block(rank: &Rank, devices: usize) -> Option<usize> {
    let size = rank
        .size
        .filter(|_| devices > 0 && rank.devices.is_none_or(|all| all <= devices))?;
    let (each, more) = (size / devices, size % devices);
    // The first `more` devices have one rank more than the others.
    let longer = more * (each + 1);
    Some(if rank.local < longer {
        rank.local / (each + 1)
    } else {
        more + (rank.local - longer) / each.max(1)
    })
}

/// Whether some devices get one rank more than others, and none gets no rank.
pub fn is_uneven(rank: &Rank, devices: usize) -> bool {
    rank.size
        .is_some_and(|size| devices > 0 && size > devices && !size.is_multiple_of(devices))
}

/// The line by which rank 0 reports uneven counts, for people who meant them to be even. Nothing
/// is said of ranks that have several devices each.
pub fn uneven(rank: &Rank, devices: usize, count: usize) -> Option<String> {
    let is_told = rank.first && count == 1 && rank.devices.is_none_or(|all| all <= devices);
    let size = rank.size.filter(|_| is_told)?;
    if devices == 0 || size.is_multiple_of(devices) || devices.is_multiple_of(size) {
        return None;
    }
    if size < devices {
        let unused = devices - size;
        return Some(format!(
            "{size} ranks on {devices} devices: {unused} {} not used",
            if unused == 1 { "is" } else { "are" }
        ));
    }
    let counts: Vec<String> = (0..devices)
        .map(|device| (size / devices + usize::from(device < size % devices)).to_string())
        .collect();
    Some(format!(
        "{size} ranks on {devices} devices: {} of them on each",
        counts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(local: usize, size: usize) -> Rank {
        Rank {
            local,
            size: Some(size),
            devices: None,
            first: local == 0,
        }
    }

    #[test]
    fn every_device_gets_its_block_and_no_more_than_its_parts() {
        for size in 1..40 {
            for devices in 1..10 {
                let blocks: Vec<usize> = (0..size)
                    .map(|local| block(&rank(local, size), devices).unwrap())
                    .collect();
                assert!(
                    blocks.is_sorted() && blocks.iter().all(|block| *block < devices),
                    "{size} {devices} {blocks:?}"
                );
                let counts: Vec<usize> = (0..devices)
                    .map(|device| blocks.iter().filter(|block| **block == device).count())
                    .collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(
                    most - least <= 1 && counts.is_sorted_by(|a, b| a >= b),
                    "{size} {devices} {counts:?}"
                );
                let parts = match share(&rank(0, size), devices, 1) {
                    Some(Share::Fraction { of: 1, parts }) => parts as usize,
                    None => 1,
                    other => panic!("{other:?}"),
                };
                assert_eq!(parts, *most, "{size} ranks on {devices}");
            }
        }
    }

    #[test]
    fn what_the_launcher_has_divided_is_not_divided_again() {
        let own = |size, all| Rank {
            devices: Some(all),
            ..rank(0, size)
        };
        // One device for each task, and two and four tasks for each GPU.
        for (size, all, parts) in [(4, 4, None), (8, 4, Some(2)), (4, 1, Some(4))] {
            let expected = parts.map(|parts| Share::Fraction { of: 1, parts });
            assert_eq!(share(&own(size, all), 1, 1), expected, "{size} {all}");
        }
        assert_eq!(block(&own(4, 4), 1), None);
        assert_eq!(uneven(&own(3, 4), 2, 1), None);
        assert!(uneven(&own(3, 2), 2, 1).is_some());
    }

    #[test]
    fn ranks_with_several_devices_share_them() {
        for (size, devices, count, parts) in
            [(2, 4, 2, None), (2, 3, 2, Some(2)), (4, 2, 2, Some(4))]
        {
            let expected = parts.map(|parts| Share::Fraction { of: 1, parts });
            assert_eq!(share(&rank(0, size), devices, count), expected);
        }
        // What no launcher sets is no panic.
        assert!(share(&rank(0, usize::MAX), 2, 2).is_some());
    }

    #[test]
    fn uneven_counts_are_said_once() {
        let uneven = |local, size, devices| uneven(&rank(local, size), devices, 1);
        let blocks = "6 ranks on 4 devices: 2, 2, 1, 1 of them on each";
        assert_eq!(uneven(0, 6, 4).as_deref(), Some(blocks));
        for (devices, unused) in [(4, "1 is"), (5, "2 are")] {
            let text = format!("3 ranks on {devices} devices: {unused} not used");
            assert_eq!(uneven(0, 3, devices), Some(text));
        }
        for (local, size, devices) in [
            (1, 6, 4),
            (0, 8, 4),
            (0, 4, 4),
            (0, 2, 4),
            (0, 1, 3),
            (0, 4, 0),
        ] {
            assert_eq!(
                uneven(local, size, devices),
                None,
                "{local} {size} {devices}"
            );
        }
        assert_eq!(super::uneven(&rank(0, 3), 4, 2), None);
        assert_eq!(block(&rank(0, 4), 0), None);
    }
}
