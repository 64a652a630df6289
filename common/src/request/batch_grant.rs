//! Which devices a batch system has given to a job, where CUDA_VISIBLE_DEVICES does not say
//! so or says what cannot be. What batch systems tell is a count, and numbers that count
//! whatever the site calls a GPU; both are used only where they can mean one thing. Pure.

use std::collections::BTreeSet;

use crate::batch::BatchGpus;
use crate::ident::Uuid;
use crate::inventory::{Device, Inventory};

/// The devices of the job, or `None` if nothing says for certain which these are.
///
/// The device cgroup comes first: where some nodes cannot be opened, those that can be
/// opened are the job's, unless they are more than it was given. Then a count of all that
/// this process sees. Numbers count last, and only whole GPUs: Slurm numbers its gres,
/// which are MIG devices on some nodes (slurm.conf(5), AutoDetect=nvml), and not NVML's
/// GPUs.
pub fn granted(gpus: &BatchGpus, inventory: &Inventory) -> Option<Vec<Uuid>> {
    let (open, closed): (Vec<&Device>, Vec<&Device>) =
        inventory.devices.iter().partition(|device| device.usable);
    if open.is_empty() {
        return None;
    }
    let is_constrained = !closed.is_empty() || inventory.gpus.iter().any(|gpu| !gpu.usable);
    let parents: BTreeSet<u32> = open.iter().map(|device| device.gpu).collect();
    let is_all = match gpus.count {
        // Of a task that has fewer than its job: GPUs that are cut count as one each.
        Some(count) if is_constrained => open.len() <= count || parents.len() <= count,
        // What does not answer may be the job's or not.
        Some(count) => open.len() == count && inventory.silent.is_empty(),
        None => is_constrained,
    };
    if is_all {
        return Some(open.into_iter().map(|device| device.uuid.clone()).collect());
    }
    numbered(gpus, inventory)
}

/// What a task was given whose variable names devices that its cgroup closes: those that
/// its cgroup leaves, if they are exactly as many. Slurm names the first device of the job
/// to all its tasks where it binds them (`--gpus-per-task=1` with AutoDetect=nvml).
pub fn open_instead(named: &[Device], inventory: &Inventory) -> Option<Vec<Uuid>> {
    let open = inventory.devices.iter().filter(|device| device.usable);
    let open: Vec<Uuid> = open.map(|device| device.uuid.clone()).collect();
    let is_closed = !named.is_empty() && named.iter().all(|device| !device.usable);
    (is_closed && open.len() == named.len()).then_some(open)
}

/// The GPUs that the numbers name: on a node without MIG devices, where each number is one
/// of NVML's and there are as many of them as the job was given.
fn numbered(gpus: &BatchGpus, inventory: &Inventory) -> Option<Vec<Uuid>> {
    let counts_gpus = inventory.gpus.iter().all(|gpu| !gpu.mig);
    let agrees = gpus.count.is_none_or(|count| count == gpus.numbers.len());
    if gpus.numbers.is_empty() || !counts_gpus || !agrees {
        return None;
    }
    // One that does not answer takes no job, and the others are the job's all the same.
    let answer = |number: &&u32| inventory.silent_gpu(**number).is_none();
    let named = gpus.numbers.iter().filter(answer).map(|number| {
        let of_number = |device: &&Device| device.gpu == *number && device.usable;
        let device = inventory.devices.iter().find(of_number)?;
        Some(device.uuid.clone())
    });
    let named: Vec<Uuid> = named.collect::<Option<_>>()?;
    (!named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Gpu;

    /// A node of GPUs with so many MIG devices each, none for a whole GPU, of which those at
    /// `open` can be opened.
    fn node(gpus: &[Option<u32>], open: &[usize]) -> Inventory {
        let mut inventory = Inventory::default();
        for (index, slots) in (0..).zip(gpus) {
            inventory.gpus.push(Gpu {
                index,
                uuid: None,
                name: None,
                pci_bus_id: None,
                mig: slots.is_some(),
                slots: slots.unwrap_or(0),
                usable: true,
                detail: None,
            });
            for slot in 0..slots.unwrap_or(1) {
                let at = inventory.devices.len();
                let kind = if slots.is_some() { "MIG" } else { "GPU" };
                let text = format!("{kind}-00000000-0000-0000-0000-{at:012}");
                inventory.devices.push(Device {
                    gpu: index,
                    slot: slots.map(|_| slot),
                    usable: open.contains(&at),
                    ..Device::by_uuid(Uuid::parse(&text).unwrap())
                });
            }
        }
        inventory
    }

    /// The places of devices that a job is found to have.
    fn found(
        gpus: &[Option<u32>],
        open: &[usize],
        numbers: &[u32],
        count: Option<usize>,
    ) -> Option<Vec<usize>> {
        let inventory = node(gpus, open);
        let said = BatchGpus {
            numbers: numbers.to_vec(),
            count,
            listed: !numbers.is_empty(),
        };
        let place = |uuid: &Uuid| {
            let mut devices = inventory.devices.iter();
            devices.position(|device| device.uuid == *uuid).unwrap()
        };
        Some(granted(&said, &inventory)?.iter().map(place).collect())
    }

    #[test]
    #[rustfmt::skip]
    fn whole_gpus_are_known_by_cgroup_or_count_or_numbers() {
        let whole = [None; 4];
        let all = [0, 1, 2, 3];
        let some = |places: &[usize]| Some(places.to_vec());
        for (what, open, numbers, count, expected) in [
            ("numbers and count agree", &all[..], &[2, 3][..], Some(2), some(&[2, 3])),
            ("numbers without a count", &all, &[1], None, some(&[1])),
            ("more numbers than GPUs given", &all, &[1, 2], Some(1), None),
            ("a number that is no GPU", &all, &[3, 4], Some(2), None),
            ("all GPUs", &all, &[], Some(4), some(&all)),
            ("some GPUs, and no word which", &all, &[], Some(2), None),
            ("the cgroup leaves two of two", &[2, 3], &[0, 1], Some(2), some(&[2, 3])),
            ("a task has fewer than its job", &[3], &[0], Some(4), some(&[3])),
            ("a container of three, a job of two", &[1, 2, 3], &[1, 2], Some(2), some(&[1, 2])),
            ("the same, and a number outside", &[1, 2, 3], &[0, 1], Some(2), None),
            ("the cgroup alone", &[1], &[], None, some(&[1])),
            ("nothing can be opened", &[], &[0], Some(1), None),
        ] {
            assert_eq!(found(&whole, open, numbers, count), expected, "{what}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn numbers_say_nothing_where_there_are_mig_devices() {
        let mig = [Some(2); 4];
        let all: Vec<usize> = (0..8).collect();
        let some = |places: &[usize]| Some(places.to_vec());
        for (what, open, numbers, count, expected) in [
            ("numbers of gres", &all[..], &[2, 3][..], Some(2), None),
            ("numbers of gres, without a count", &all, &[2, 3], None, None),
            ("all GPUs or half of the devices", &all, &[0, 1, 2, 3], Some(4), None),
            ("all devices", &all, &[], Some(8), some(&all)),
            ("devices that the cgroup leaves", &[2, 5], &[2, 5], Some(2), some(&[2, 5])),
            ("a cut GPU counts as one", &[0, 1], &[0], Some(1), some(&[0, 1])),
        ] {
            assert_eq!(found(&mig, open, numbers, count), expected, "{what}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_task_has_what_its_cgroup_leaves_if_its_variable_names_what_it_closes() {
        let some = |places: &[usize]| Some(places.to_vec());
        for (named, open, expected) in [
            (&[0][..], &[3][..], some(&[3])), (&[0, 1], &[2, 3], some(&[2, 3])),
            (&[0], &[0], None), (&[0, 1], &[1, 2], None), (&[0], &[2, 3], None),
            (&[0, 1], &[3], None), (&[0], &[], None), (&[], &[], None),
        ] {
            let inventory = node(&[Some(2); 2], open);
            let of = |at: &usize| inventory.devices[*at].clone();
            let named: Vec<Device> = named.iter().map(of).collect();
            let expected = expected.map(|places| places.iter().map(|at| of(at).uuid).collect());
            assert_eq!(open_instead(&named, &inventory), expected, "{open:?}");
        }
    }
}
