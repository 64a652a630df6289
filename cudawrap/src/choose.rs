//! Choosing: free devices of the pool, at once or after waiting in the queue, or those
//! that the grant names, if it names as many as are wanted. The helper asks NVML; it
//! exits before a claim is confirmed.

use getgpu_common::choice::chooser::{Chooser, Guard, Picked};
use getgpu_common::choice::rejection_report::Rejected;
use getgpu_common::cpus::CpuSet;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Device, Inventory, usable_together};
use getgpu_common::lock::{OfdLock, Side};
use getgpu_common::nvml_client::Client;
use getgpu_common::request::Request;
use getgpu_common::select::{Observer, Queueing, Selected, Selection};
use getgpu_common::settings::Wait;
use getgpu_common::share::Share;
use getgpu_common::visible::Visible;

use crate::call::Call;
use crate::helper::{self, Helper};
use crate::ranks::apply_rank;

/// What a choice turned out to be.
pub enum Choice {
    /// Free devices, claimed. The guard is kept until they are signed.
    Free(Vec<Picked>, Guard, Box<Request>),
    /// The grant names just these devices: there is nothing to choose.
    Only(Vec<Device>, Box<Request>),
}

/// What came of looking once.
enum Look {
    Done(Choice),
    /// Nothing is free: why, and, for those who wait, the node and the request.
    Failed(Failure),
    InQueue(Queueing, Box<Request>),
}

impl Call<'_> {
    /// The devices that a program is to have that was started by cudawrap's own name.
    pub fn choose(&self, request: Request) -> Result<Choice, Failure> {
        // A grant of one MIG device, given by its full UUID: nothing to choose, so neither
        // NVML nor reservations are asked.
        match self.by_uuid(&request).filter(|device| device.uuid.is_mig()) {
            Some(device) => Ok(self.only(device, request)),
            None => self.free(request),
        }
    }

    /// The device that CUDA_VISIBLE_DEVICES names for a linked program, if that can be
    /// told.
    pub fn named(&self, request: Request) -> Option<Choice> {
        let device = self
            .by_uuid(&request)
            .or_else(|| self.resolve(request.clone()));
        // For MPS alone the memory need not be known.
        let by_size = self.settings.share.is_some_and(Share::needs_memory);
        let uuid = request.visible.single_uuid().filter(|_| !by_size).cloned();
        let device = device.or_else(|| uuid.map(Device::by_uuid))?;
        Some(self.only(device, request))
    }

    /// The one device that the grant names by its full UUID, where nothing else has to be
    /// known of it.
    fn by_uuid(&self, request: &Request) -> Option<Device> {
        let share = self.settings.share;
        let sized = share.is_some_and(|share| share.needs_memory() || self.settings.mps);
        let uuid = request.visible.single_uuid();
        let uuid = uuid.filter(|_| request.count == 1 && !sized);
        uuid.cloned().map(Device::by_uuid)
    }

    fn only(&self, device: Device, mut request: Request) -> Choice {
        apply_rank::alone(self, &mut request, &device.uuid);
        Choice::Only(vec![device], Box::new(request))
    }

    /// Free devices of the request's pool, waited for if that is wanted.
    pub fn free(&self, request: Request) -> Result<Choice, Failure> {
        match helper::ask(self.settings, |client| self.look(client, request))? {
            Look::Done(choice) => Ok(choice),
            Look::Failed(failure) => Err(failure),
            Look::InQueue(queueing, request) => {
                let (picked, guard, request) = queueing.wait(
                    self.lock_file,
                    Side::Lease,
                    *request,
                    (self.settings, self.environment),
                    &mut || helper::open(self.settings),
                    self.diag,
                )?;
                Ok(Choice::Free(picked, guard, Box::new(request)))
            }
        }
    }

    fn look(&self, client: &mut Client<Helper>, mut request: Request) -> Result<Look, Failure> {
        let known = self.placed(client, &mut request)?;
        request.cover = request.owned(self.lock_file, known.as_ref()).cover();
        if let (Some(grant), Some(inventory)) = (&request.filter.grant, &known)
            && grant.len() == request.count
            && request.visible != Visible::Unset
        {
            let devices: Vec<Device> = inventory
                .devices
                .iter()
                .filter(|device| grant.contains(&device.uuid))
                .cloned()
                .collect();
            check_together(&devices, Some(inventory))?;
            return Ok(Look::Done(Choice::Only(devices, Box::new(request))));
        }
        let waits = self.wait() != Wait::No;
        let selection = Selection {
            client,
            lock_file: self.lock_file,
            side: Side::Lease,
            request: &request,
            waits,
        };
        Ok(
            match selection.run(
                known,
                &mut Together {
                    count: request.count,
                },
            )? {
                Selected::Picked(picked, guard) => {
                    Look::Done(Choice::Free(picked, guard, Box::new(request)))
                }
                Selected::Failed(failure) => Look::Failed(failure),
                Selected::Queue(queueing) => Look::InQueue(queueing, Box::new(request)),
            },
        )
    }

    /// The devices of a grant, and for ranks those that they choose from, with the CPUs
    /// near them.
    fn placed(
        &self,
        client: &mut Client<Helper>,
        request: &mut Request,
    ) -> Result<Option<Inventory>, Failure> {
        let known = request.resolve_grant(client)?;
        if !apply_rank::matters(self) && !self.settings.bind {
            return Ok(known);
        }
        let mut inventory = match known {
            Some(inventory) => inventory,
            None => client.scan(request.detail())?,
        };
        if self.settings.bind {
            let allowed = |device: &&mut Device| request.filter.allows(device);
            client.near(inventory.devices.iter_mut().filter(allowed))?;
            request.neighbours = neighbours(request, &inventory);
        } else if self.rank.is_some() && request.policy.is_none() {
            let pool = uuids(request.filter.pool(&inventory));
            let in_pool = |device: &&mut Device| pool.contains(&device.uuid);
            client.near(inventory.devices.iter_mut().filter(in_pool))?;
        }
        if !apply_rank::matters(self) {
            return Ok(Some(inventory));
        }
        apply_rank::place(self, request, &inventory)?;
        Ok(Some(inventory))
    }

    /// The one device that an index, a short or an old form names; none if it fails or
    /// two fit.
    fn resolve(&self, mut request: Request) -> Option<Device> {
        let named = helper::ask(self.settings, |client| {
            let inventory = request.resolve_grant(client)?.unwrap_or_default();
            let grant = request.filter.grant.unwrap_or_default();
            let named = inventory
                .devices
                .into_iter()
                .filter(|device| grant.contains(&device.uuid));
            let mut named: Vec<Device> = named.collect();
            if self.settings.bind {
                client.near(&mut named)?;
            }
            Ok(named)
        });
        match named.ok()?.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }
}

/// The devices whose CPUs are divided among programs, with those CPUs, in the order of
/// the grant where there is one; none where a job was granted one device.
fn neighbours(request: &Request, inventory: &Inventory) -> Vec<(Uuid, CpuSet)> {
    let grant = request.filter.grant.as_ref();
    if grant.is_some_and(|grant| grant.len() == 1) {
        return Vec::new();
    }
    let allowed = inventory
        .devices
        .iter()
        .filter(|device| request.filter.allows(device));
    let near = |device: &Device| Some((device.uuid.clone(), device.cpus.clone()?));
    let mut neighbours: Vec<(Uuid, CpuSet)> = allowed.filter_map(near).collect();
    if let Some(grant) = grant {
        neighbours.sort_by_key(|(uuid, _)| grant.iter().position(|granted| granted == uuid));
    }
    neighbours
}

/// Sees to it that one program can use all the devices that it gets.
struct Together {
    count: usize,
}

impl Observer<Client<Helper>> for Together {
    fn known(&mut self, inventory: &Inventory, pool: &[&Device]) -> Result<(), Failure> {
        // The choice itself reports a pool that is too small.
        if self.count < 2 || pool.len() < self.count {
            return Ok(());
        }
        check_instances(
            self.count,
            usable_together(pool.iter().copied()),
            Some(inventory),
        )
    }

    fn picked(
        &mut self,
        _chooser: &mut Chooser<'_, Client<Helper>>,
        picked: &[Picked],
        known: Option<&Inventory>,
    ) -> Result<(), Failure> {
        let devices: Vec<Device> = picked.iter().map(|picked| picked.device.clone()).collect();
        check_together(&devices, known)
    }

    fn rejected(&mut self, _rejected: &[(Device, Rejected)], _probe: &OfdLock) {}

    fn waits(&mut self, pool: &[&Device], inventory: &Inventory) -> Result<(), Failure> {
        if !inventory.first_mig_only() {
            return Ok(());
        }
        let most: Vec<Device> = pool
            .iter()
            .take(self.count)
            .map(|device| (*device).clone())
            .collect();
        check_together(&most, Some(inventory))
    }

    fn hint(&self, queue: bool) -> &'static str {
        if queue {
            "--wait joins the queue"
        } else {
            "getgpu --list shows who holds what; --wait joins the queue"
        }
    }
}

/// Whether one program can use these devices together: it sees only the first of several
/// MIG devices before driver 570, and one compute instance of each GPU instance from then
/// on. The others would be leased for nothing.
fn check_together(devices: &[Device], inventory: Option<&Inventory>) -> Result<(), Failure> {
    let mig = devices
        .iter()
        .filter(|device| device.slot.is_some())
        .count();
    if mig > 1 && inventory.is_some_and(Inventory::first_mig_only) {
        let text = format!(
            "{mig} MIG devices: with this driver (before 570) a program sees only the first of them"
        );
        return Err(Failure::new(Kind::Nvml, text).hint("start one program on each"));
    }
    check_instances(devices.len(), usable_together(devices), inventory)
}

fn check_instances(
    wanted: usize,
    together: usize,
    inventory: Option<&Inventory>,
) -> Result<(), Failure> {
    if together >= wanted || !inventory.is_some_and(Inventory::one_per_gpu_instance) {
        return Ok(());
    }
    let text = format!(
        "{wanted} devices: a program sees only one compute instance of each GPU instance, here {together} of them"
    );
    Err(Failure::new(Kind::Nvml, text).hint("start one program on each"))
}

pub fn uuids<'d>(devices: impl IntoIterator<Item = &'d Device>) -> Vec<Uuid> {
    let uuids = devices.into_iter().map(|device| device.uuid.clone());
    uuids.collect()
}
