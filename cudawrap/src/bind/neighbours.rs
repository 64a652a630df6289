//! Which of the cores near a device are the device's own, where other devices are near to
//! them too: they are divided, so that programs on neighbouring devices do not meet on
//! one core while another is idle. Pure.

use getgpu_model::{CpuSet, Uuid, overlap};

/// Cores that are near to the same devices.
struct Group<'a> {
    /// Places in the list of neighbours.
    devices: Vec<usize>,
    cores: Vec<&'a CpuSet>,
}

impl Group<'_> {
    /// The first core of the device that comes as number `turn` among those of the group.
    fn first(&self, turn: usize) -> usize {
        turn * self.cores.len() / self.devices.len().max(1)
    }

    fn turn(&self, device: usize) -> usize {
        let known = self.devices.iter().position(|other| *other == device);
        known.unwrap_or(0)
    }

    /// The part of the group that is the device's; empty where there are fewer cores than
    /// devices.
    fn part(&self, device: usize) -> &[&CpuSet] {
        if self.cores.len() < self.devices.len() {
            return &[];
        }
        let turn = self.turn(device);
        &self.cores[self.first(turn)..self.first(turn + 1)]
    }
}

/// The part of `cores`, all near to the device `own`, that is the device's, and whether no
/// neighbour has one of these. `neighbours`: the devices that programs may run on, each with the
/// CPUs near it; cores that are near to the same of them are divided in the order of the list.
pub fn divide(cores: &[CpuSet], own: &Uuid, neighbours: &[(Uuid, CpuSet)]) -> (Vec<CpuSet>, bool) {
    let Some(device) = neighbours.iter().position(|(uuid, _)| uuid == own) else {
        return (cores.to_vec(), neighbours.is_empty());
    };
    let groups = groups(cores, own, neighbours);
    let parts = groups.iter().flat_map(|group| group.part(device));
    let parts: Vec<CpuSet> = parts.map(|core| (*core).clone()).collect();
    if !parts.is_empty() {
        return (parts, true);
    }
    // Fewer cores than devices: some have one together.
    let shared = groups
        .first()
        .map(|group| group.cores[group.first(group.turn(device))].clone());
    (shared.into_iter().collect(), false)
}

/// Cores by the devices that they are near to, in the order of the cores.
fn groups<'a>(cores: &'a [CpuSet], own: &Uuid, neighbours: &[(Uuid, CpuSet)]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for core in cores {
        let devices = neighbours.iter().enumerate();
        let near = devices.filter(|(_, (uuid, cpus))| uuid == own || overlap(core, cpus) > 0);
        let devices: Vec<usize> = near.map(|(place, _)| place).collect();
        match groups.iter_mut().find(|group| group.devices == devices) {
            Some(group) => group.cores.push(core),
            None => groups.push(Group {
                devices,
                cores: vec![core],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(n: usize) -> Uuid {
        Uuid::parse(&format!("GPU-{n:08x}-1111-5222-8333-444455556666")).unwrap()
    }

    fn cores(count: usize) -> Vec<CpuSet> {
        (0..count)
            .map(|core| [core].into_iter().collect())
            .collect()
    }

    fn node(cpus: &[&str]) -> Vec<(Uuid, CpuSet)> {
        cpus.iter()
            .enumerate()
            .map(|(n, cpus)| (uuid(n), cpus.parse().unwrap()))
            .collect()
    }

    /// What each device has, as text; `+` where others have it too.
    fn parts(count: usize, cpus: &[&str]) -> Vec<String> {
        let node = node(cpus);
        let part = |(uuid, near): &(Uuid, CpuSet)| {
            let near: Vec<CpuSet> = cores(count)
                .into_iter()
                .filter(|core| overlap(core, near) > 0)
                .collect();
            let (own, is_alone) = divide(&near, uuid, &node);
            let all = own
                .iter()
                .fold(CpuSet::default(), |all, core| all.union(core));
            format!("{all}{}", if is_alone { "" } else { "+" })
        };
        node.iter().map(part).collect()
    }

    #[test]
    fn neighbours_divide_what_is_near_to_both() {
        #[rustfmt::skip]
        let cases = [
            (8, &["0-3", "4-7"][..], &["0-3", "4-7"][..]), (8, &["0-7", "0-7"], &["0-3", "4-7"]),
            (7, &["0-6", "0-6", "0-6"], &["0-1", "2-3", "4-6"]),
            // Only what is near to both is divided; too little is not divided.
            (8, &["0-5", "4-7"], &["0-4", "5-7"]), (3, &["0-1", "1-2"], &["0", "2"]),
            (2, &["0-1"; 3], &["0+", "0+", "1+"]),
        ];
        for (count, cpus, expected) in cases {
            assert_eq!(parts(count, cpus), expected, "{count} {cpus:?}");
        }
    }

    #[test]
    fn everybody_has_a_core_and_nobody_anothers() {
        for (count, devices) in (1..20).flat_map(|count| (1..10).map(move |n| (count, n))) {
            let all = format!("0-{}", count - 1);
            let node = node(&vec![all.as_str(); devices]);
            let own = node
                .iter()
                .map(|(uuid, _)| divide(&cores(count), uuid, &node));
            let own: Vec<_> = own.collect();
            let what = format!("{count} cores, {devices} devices");
            let given: usize = own.iter().map(|(cores, _)| cores.len()).sum();
            assert_eq!(given, count.max(devices), "{what}");
            for (own, is_alone) in own {
                assert!(!own.is_empty() && is_alone == (count >= devices), "{what}");
            }
        }
    }

    #[test]
    fn a_device_that_is_not_listed_has_all_that_is_near() {
        let (two, listed) = (cores(2), node(&["0-1"]));
        assert_eq!(divide(&two, &uuid(9), &[]), (cores(2), true));
        assert_eq!(divide(&two, &uuid(9), &listed), (cores(2), false));
        assert_eq!(divide(&[], &uuid(0), &listed), (vec![], false));
    }
}
