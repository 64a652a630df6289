//! Which devices a batch system has given to a job, where CUDA_VISIBLE_DEVICES does not say
//! so or says what cannot be. What batch systems tell is a count, and numbers that count
//! whatever the site calls a GPU; both are used only where they can mean one thing. Pure.

use getgpu_model::{BatchGpus, Device, Inventory, Uuid};
use getgpu_settings::allowed::DeviceList;

/// The devices of the job, or `None` if nothing says for certain which these are. `site` is
/// the site's list, which counts outside jobs.
///
/// Those that this process may open are the job's if they are as many as it was given: all
/// of the node, or what the device cgroup leaves. Without a count a device cgroup alone has
/// to do. Numbers count last, and only whole GPUs: Slurm numbers its gres, which are MIG
/// devices on some nodes (slurm.conf(5), AutoDetect=nvml), and not NVML's GPUs.
pub(crate) fn granted(
    gpus: &BatchGpus,
    inventory: &Inventory,
    site: Option<&DeviceList>,
) -> Option<Vec<Uuid>> {
    let open = match gpus.count {
        Some(count) => as_many(count, inventory, site),
        None if is_constrained(inventory) => Some(managed(inventory, site)),
        None => None,
    };
    open.filter(|open| !open.is_empty())
        .map(|open| uuids(&open))
        .or_else(|| numbered(gpus, inventory))
}

/// What a task was given whose variable names `count` devices, of which one at least is closed to it
/// or not listed at all: those that its cgroup leaves, if they are exactly as many and none is the
/// site's own. Slurm names the first device of the job to all its tasks where it binds them
/// (`--gpus-per-task=1` with AutoDetect=nvml), and NVML does not list what the cgroup closes.
pub(crate) fn open_instead(
    count: usize,
    inventory: &Inventory,
    site: Option<&DeviceList>,
) -> Option<Vec<Uuid>> {
    let open = as_many(count, inventory, site)?;
    let is_sites = |device: &&Device| site.is_some_and(|list| list.names(device));
    let is_of_job = !open.is_empty() && !open.iter().any(is_sites);
    is_of_job.then(|| uuids(&open))
}

/// The devices that this process may open, if they are as many as the batch system says: a
/// device cgroup closes those that it manages and has not granted, and leaves the node's
/// others open. Which these are, the site's list tells. A GPU that is silent may be one of
/// them.
fn as_many<'i>(
    count: usize,
    inventory: &'i Inventory,
    site: Option<&DeviceList>,
) -> Option<Vec<&'i Device>> {
    let silent = silent_and_open(inventory)?;
    [managed(inventory, site), managed(inventory, None)]
        .into_iter()
        .find(|open| open.len() + silent == count)
}

/// The devices that this process may open, but for those on the site's list. If all are on
/// it, it does not tell them apart.
fn managed<'i>(inventory: &'i Inventory, site: Option<&DeviceList>) -> Vec<&'i Device> {
    let open = inventory.devices.iter().filter(|device| device.usable);
    let (listed, others): (Vec<&Device>, Vec<&Device>) =
        open.partition(|device| site.is_some_and(|list| list.names(device)));
    if others.is_empty() { listed } else { others }
}

/// How many devices do not answer and may be this process's to open; `None`: it cannot be
/// known, since a GPU that is silent may be cut into several.
fn silent_and_open(inventory: &Inventory) -> Option<usize> {
    let gpu = |index| inventory.gpus.iter().find(|gpu| gpu.index == index);
    let may_open = inventory
        .silent
        .iter()
        .filter(|silent| gpu(silent.gpu).is_none_or(|gpu| gpu.usable));
    let is_cut = inventory.gpus.iter().any(|gpu| gpu.mig);
    let counted = may_open.map(|silent| (silent.slot.is_some() || !is_cut).then_some(1));
    counted.sum()
}

fn is_constrained(inventory: &Inventory) -> bool {
    let closed = inventory.devices.iter().any(|device| !device.usable);
    closed || inventory.gpus.iter().any(|gpu| !gpu.usable)
}

fn uuids(devices: &[&Device]) -> Vec<Uuid> {
    devices.iter().map(|device| device.uuid.clone()).collect()
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
    use getgpu_model::Gpu;

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
        Some(
            granted(&said, &inventory, None)?
                .iter()
                .map(place)
                .collect(),
        )
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
            ("fewer than the job was given", &[3], &[0], Some(4), None),
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
            ("a GPU that is granted as one and cut", &[0, 1], &[0], Some(1), None),
            ("one of the job's, and one outside Slurm", &[0, 7], &[], Some(1), None),
        ] {
            assert_eq!(found(&mig, open, numbers, count), expected, "{what}");
        }
    }

    /// Places 4 to 7 are devices that Slurm does not manage, which its cgroups leave open.
    #[test]
    #[rustfmt::skip]
    fn the_sites_list_tells_which_devices_are_outside_slurm() {
        let some = |places: &[usize]| Some(places.to_vec());
        for (what, open, count, expected) in [
            ("two, and the four outside", &[1, 2, 4, 5, 6, 7][..], Some(2), some(&[1, 2])),
            ("no count", &[1, 4, 5, 6, 7], None, some(&[1])),
            ("as many as with one outside", &[1, 4], Some(2), some(&[1, 4])),
            ("all of Slurm's", &[0, 1, 2, 3, 4, 5, 6, 7], Some(4), some(&[0, 1, 2, 3])),
            ("one that does not agree", &[1, 4, 5], Some(2), None),
            ("only one outside", &[4], Some(1), some(&[4])),
        ] {
            let inventory = node(&[Some(2); 4], open);
            let listed: Vec<String> = (4..8).map(|at| inventory.devices[at].uuid.to_string()).collect();
            let site = DeviceList::from(listed.iter().map(String::as_str));
            let gpus = BatchGpus { count, ..BatchGpus::default() };
            let expected = expected.map(|places| places.iter().map(|at| inventory.devices[*at].uuid.clone()).collect());
            assert_eq!(granted(&gpus, &inventory, Some(&site)), expected, "{what}");
            // Where another device is named, none of the site's own is given instead.
            let instead = open_instead(count.unwrap_or(1), &inventory, Some(&site));
            assert_eq!(instead, expected.filter(|_| !what.contains("one outside")), "{what}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_task_has_what_its_cgroup_leaves_if_it_is_as_many_as_its_variable_names() {
        let some = |places: &[usize]| Some(places.to_vec());
        for (count, open, expected) in [
            (1, &[3][..], some(&[3])), (2, &[2, 3], some(&[2, 3])), (2, &[1, 2], some(&[1, 2])),
            (1, &[2, 3], None), (2, &[3], None), (1, &[], None), (0, &[], None),
        ] {
            let inventory = node(&[Some(2); 2], open);
            let expected = expected.map(|places| {
                places.iter().map(|at| inventory.devices[*at].uuid.clone()).collect()
            });
            assert_eq!(open_instead(count, &inventory, None), expected, "{open:?}");
        }
    }
}
