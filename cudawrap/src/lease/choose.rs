//! Choosing: free devices of the pool, at once or after waiting in the queue, or those
//! that the grant names, if it names as many as are wanted. The helper asks NVML; it
//! exits before a claim is confirmed.

use std::rc::Rc;

use getgpu_ask::Node;
use getgpu_choose::{Asked, Decision, Granted, Outside, Owned, Taken};
use getgpu_lock::Side;
use getgpu_model::{Detail, Device, Failure, Inventory, Uuid, Visible};
use getgpu_queue::{At, Nameless, Observer, Obstacle, Outage, Selected, Selection, Served};
use getgpu_settings::DeviceNames;

use crate::bind::CpuNeighbours;
use crate::call::CudawrapCall;
use crate::causes::StartCause;
use crate::ranks::{Rank, apply_rank, waiting};
use crate::visible;

/// The options that leave only some devices to choose from.
const CHOOSING: [&str; 5] = ["type", "profile", "model", "min_memory", "gpu"];

/// The devices for a program, and what was found out on the way to them.
pub struct Choice {
    pub devices: Vec<Device>,
    /// Free ones, claimed; none: the devices are just those that the grant names, and there was
    /// nothing to choose.
    pub taken: Option<Taken>,
    pub request: Rc<Granted>,
    /// The devices that the program is to see behind its own, if it is to see more than that.
    pub others: Vec<Uuid>,
    /// Among which the CPUs near its devices are divided.
    pub neighbours: CpuNeighbours,
    /// The node, where the program is to have indices.
    pub node: Option<Rc<Inventory>>,
}

/// The one device that the grant names by its full UUID, where nothing else has to be
/// known of it.
pub fn by_uuid(call: &CudawrapCall<'_>, asked: &Asked) -> Option<Device> {
    let share = call.settings.share;
    let is_sized = asked.least_detail() >= Detail::Size;
    let sized = share.is_some_and(|share| share.needs_memory() || is_sized);
    let uuid = asked.grant().visible.single_uuid();
    // A batch system that binds tasks names one device to all of them: only NVML tells
    // which of them this task may open.
    let is_bound = call.environment.batch_job && call.has_siblings();
    let narrows = CHOOSING.iter().any(|option| call.is_typed(option));
    let uuid = uuid.filter(|_| {
        asked.count() == 1
            && !sized
            && call.settings.names == DeviceNames::Uuid
            && !is_bound
            && !narrows
    });
    uuid.cloned().map(Device::by_uuid)
}

pub fn only(
    call: &CudawrapCall<'_>,
    device: Device,
    granted: Granted,
    node: Option<Rc<Inventory>>,
) -> Result<Choice, Failure> {
    let request = Rc::new(apply_rank::share_single_device(call, granted, &device)?);
    tell_of_excluded(call, &request, &device);
    Ok(Choice {
        devices: vec![device],
        taken: None,
        request,
        others: Vec::new(),
        neighbours: cpu_neighbours(call),
        node: node.filter(|_| call.settings.names == DeviceNames::Index),
    })
}

fn cpu_neighbours(call: &CudawrapCall<'_>) -> CpuNeighbours {
    call.rank.map(Rank::cpu_neighbours).unwrap_or_default()
}

/// Says that a device is excluded which a batch system granted alone; one rank speaks for
/// all.
fn tell_of_excluded(call: &CudawrapCall<'_>, request: &Granted, device: &Device) {
    let line = request.excluded_grant(device);
    if let Some(line) = line.filter(|_| call.speaks_for_all()) {
        call.diag.remark(&line);
    }
}

/// Free devices of the request's pool, waited for if that is wanted; or the devices of the
/// grant, if it has as many as are wanted.
pub fn free<'s>(
    call: &CudawrapCall<'s>,
    asked: Asked,
    mut node: Node<'s>,
) -> Result<Choice, Failure> {
    let mut neighbours = cpu_neighbours(call);
    let mut outage = Outage::new(call.settings, call.diag);
    let looked = loop {
        let looked = look(call, &asked, &mut node, &mut neighbours);
        if let Some(looked) = outage.outlasted(&mut node, looked) {
            break looked;
        }
    };
    let Looked {
        request,
        others,
        selected,
    } = looked?;
    let taken = match selected {
        None => None,
        Some(Selected::Taken(taken)) => Some(taken),
        Some(Selected::Queue(queueing)) => {
            let Served::Taken(taken) = queueing.wait(&mut node, &mut Nameless)?;
            Some(taken)
        }
    };
    let known = node.known();
    let inventory = known.clone().unwrap_or_default();
    let devices: Vec<Device> = match &taken {
        Some(taken) => taken.devices().cloned().collect(),
        None => granted(&request, &inventory),
    };
    if taken.is_none() {
        check_open(call, &devices)?;
    }
    // Of all that a grant has, the program makes what it can.
    if taken.is_some() || !request.count_all {
        inventory.check_together(devices.len(), devices.iter())?;
    }
    if let ([only], None) = (devices.as_slice(), &taken) {
        tell_of_excluded(call, &request, only);
    }
    Ok(Choice {
        devices,
        taken,
        request,
        others,
        neighbours,
        node: known.filter(|_| call.settings.names == DeviceNames::Index),
    })
}

/// What came of one look.
struct Looked<'a> {
    request: Rc<Granted>,
    /// What the program is to see behind its own devices.
    others: Vec<Uuid>,
    /// None: the devices are just those that the grant names.
    selected: Option<Selected<'a>>,
}

/// Looks once at what is granted, and what of it can be had.
fn look<'s>(
    call: &CudawrapCall<'s>,
    asked: &Asked,
    node: &mut Node<'_>,
    neighbours: &mut CpuNeighbours,
) -> Result<Looked<'s>, Failure> {
    let (request, others) = place(call, node, asked.clone(), neighbours)?;
    let request = Rc::new(request);
    let known = node.known();
    let owned = request.owned(call.lock_file, known.as_deref());
    let is_all = matches!(owned, Decision::All(_));
    let owned = Owned::inside(&request, owned.cover());
    let grant = request.filter.grant.as_ref();
    let is_only = grant.is_some_and(|grant| is_all || request.is_number(grant.len()))
        && request.grant.visible != Visible::Unset;
    if let Some(inventory) = known.filter(|_| is_only)
        && !leaves_out(call, &request, &inventory)
    {
        return Ok(Looked {
            request,
            others,
            selected: None,
        });
    }
    let mut together = Together {
        call,
        request: &owned,
        pool: 0,
    };
    let at = At {
        lock_file: call.lock_file,
        side: Side::Lease,
        environment: call.environment,
        diag: call.diag,
    };
    let selection = Selection {
        node,
        at,
        request: &owned,
    };
    let selected = Some(selection.run(&mut together)?);
    Ok(Looked {
        request,
        others,
        selected,
    })
}

/// Whether an option that was typed leaves out a device of the grant, of which all are wanted.
fn leaves_out(call: &CudawrapCall<'_>, request: &Granted, inventory: &Inventory) -> bool {
    let grant = request.filter.grant.as_deref().unwrap_or_default();
    let is_typed = |option: &&str| CHOOSING.contains(option) && call.is_typed(option);
    let why = request.filter.classify(inventory);
    inventory.devices.iter().zip(why).any(|(device, why)| {
        let settings = why.map(Outside::settings).unwrap_or_default();
        grant.contains(&device.uuid) && settings.iter().any(is_typed)
    })
}

/// Whether a task may open the devices that a batch system has named to it. Others are
/// refused by CUDA itself.
fn check_open(call: &CudawrapCall<'_>, devices: &[Device]) -> Result<(), Failure> {
    let closed = devices.iter().find(|device| !device.usable);
    match closed.filter(|_| call.environment.batch_job) {
        None => Ok(()),
        Some(device) => Err(StartCause::NodesClosed { uuid: &device.uuid }.into()),
    }
}

/// The devices of the grant, in its order.
pub(super) fn granted(request: &Granted, inventory: &Inventory) -> Vec<Device> {
    let grant = request.filter.grant.as_deref().unwrap_or_default();
    let devices = inventory.devices.iter();
    let granted = devices.filter(|device| grant.contains(&device.uuid));
    let mut granted: Vec<Device> = granted.cloned().collect();
    granted.sort_by_key(|device| request.filter.place_in_grant(&device.uuid));
    granted
}

/// What is granted, for ranks in their places among the devices that they choose from, with the CPUs
/// near these; and the devices that the program is to see behind its own.
fn place(
    call: &CudawrapCall<'_>,
    node: &mut Node<'_>,
    asked: Asked,
    neighbours: &mut CpuNeighbours,
) -> Result<(Granted, Vec<Uuid>), Failure> {
    let granted = asked.granted(node)?;
    granted.grant.tell_correction(call.diag);
    if call.settings.names == DeviceNames::Index {
        node.inventory(granted.look())?;
    }
    if call.settings.bind {
        neighbours.note(node, &granted)?;
    } else if call.rank.is_some() && granted.policy.is_none() {
        let inventory = node.inventory(granted.look())?;
        let pool = uuids(granted.filter.pool(&inventory));
        node.note_cpus(granted.look(), |device| pool.contains(&device.uuid))?;
    }
    if call.rank.is_none() && !visible::shows_others(call.settings) {
        return Ok((granted, Vec::new()));
    }
    let inventory = node.inventory(granted.look())?;
    visible::check(call.settings, &granted)?;
    let listed = listed(&granted, &inventory);
    let granted = apply_rank::place(call, granted, &inventory, &listed, neighbours)?;
    let local = call.rank.map_or(0, |rank| rank.local);
    Ok(visible::others(call.settings, granted, listed, local))
}

/// The devices of the pool, in the order of the grant where there is one.
fn listed(request: &Granted, inventory: &Inventory) -> Vec<Uuid> {
    let mut pool = uuids(request.filter.pool(inventory));
    pool.sort_by_key(|uuid| request.filter.place_in_grant(uuid));
    pool
}

/// Sees to it that one program can use all the devices that it gets.
struct Together<'a> {
    call: &'a CudawrapCall<'a>,
    request: &'a Owned,
    /// The devices that may be chosen from, once they are known.
    pool: usize,
}

impl Observer for Together<'_> {
    fn known(&mut self, inventory: &Inventory, pool: &[&Device]) -> Result<(), Failure> {
        self.pool = pool.len();
        let count = self.request.count;
        // The choice itself reports a pool that is too small.
        if count < 2 || pool.len() < count {
            return Ok(());
        }
        inventory.check_together(count, pool.iter().copied())
    }

    fn hint(&self, obstacle: Obstacle) -> String {
        if let Some(hint) = waiting::hint_for_ranks(self.call, self.pool, self.request) {
            return hint;
        }
        let wait = self.call.how_to_wait();
        match obstacle {
            Obstacle::Queue => wait.into(),
            Obstacle::NoneFree => {
                let around = self.request.way_around();
                format!("getgpu --list shows who holds what; {wait}{around}")
            }
        }
    }
}

pub fn uuids<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Vec<Uuid> {
    let uuids = devices.into_iter().map(|device| device.uuid.clone());
    uuids.collect()
}
