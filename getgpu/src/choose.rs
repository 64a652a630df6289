//! The choice of one call: a reservation of this caller that lingers, the device of an index, or a random free one.
//! Claims only; what is chosen here is settled by `call` when NVML has let go.

use getgpu_common::census::{self, Census, Rejected};
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Detail, Device, Inventory};
use getgpu_common::lock::Side;
use getgpu_common::pick::{Chooser, Outcome, Picked};
use getgpu_common::request::Request;
use getgpu_common::visible::Visible;

use crate::call::{Answer, Asker, Call, Chosen};
use crate::caller::Process;
use crate::options::{Action, Format, Keep};
use crate::{explain, reuse};

impl Call<'_> {
    /// Chooses.
    pub fn choose(&self, client: &mut Asker, request: &mut Request, caller: &Process) -> Result<Chosen, Failure> {
        let mut known = request.resolve_grant(client)?;
        let index_wanted = matches!(self.options.action, Action::Print(Some(_)));
        if known.is_none() && (index_wanted || self.options.explain || self.options.format == Format::Index) {
            known = Some(client.scan(Detail::Place)?);
        }
        if let Some([only]) = request.filter.grant.as_deref() {
            if !index_wanted && reuse::covered(&self.place, std::slice::from_ref(only)) {
                let value = self.value(only, known.as_ref());
                return Ok(Chosen::Settled(self.again(only.clone(), value)?));
            }
        }
        if let Action::Print(Some(index)) = self.options.action {
            return self.indexed(client, request, known.unwrap_or_default(), index);
        }
        if request.visible == Visible::Unset && self.options.keep != Keep::No {
            if let Some(answer) = self.taken_over(client, request, caller, known.as_ref())? {
                return Ok(Chosen::Settled(answer));
            }
        }
        self.random(client, request, known)
    }

    /// This caller's reservation whose programs are over, if it fits the request and nobody else uses the device.
    fn taken_over(
        &self,
        client: &mut Asker,
        request: &Request,
        caller: &Process,
        known: Option<&Inventory>,
    ) -> Result<Option<Answer>, Failure> {
        let Some(line) = reuse::lingering(&self.place, caller)? else { return Ok(None) };
        let [uuid] = line.devices.as_slice() else { return Ok(None) };
        let scanned;
        let inventory = match known {
            Some(known) => Some(known),
            None if request.filter.is_open() => None,
            None => {
                scanned = client.scan(Detail::Place)?;
                Some(&scanned)
            }
        };
        let fits = match inventory {
            Some(inventory) => {
                let sorted = request.filter.sort(inventory);
                inventory.devices.iter().zip(sorted).any(|(device, out)| device.uuid == *uuid && out.is_none())
            }
            None => request.filter.fits_uuid(uuid),
        };
        let idle = fits && client.usage_of(uuid)?.is_ok_and(|usage| usage.activity == Activity::Idle);
        if !idle {
            return Ok(None);
        }
        let Some(lock) = reuse::take_over(&self.place, &line)? else { return Ok(None) };
        self.diag.note(&format!("{uuid}: taken over from this caller's last reservation"));
        Ok(Some(Answer { uuid: uuid.clone(), value: self.value(uuid, inventory), lock: Some(lock) }))
    }

    /// The device of this index, in use or not; claimed if it is free.
    fn indexed(
        &self,
        client: &mut Asker,
        request: &Request,
        inventory: Inventory,
        index: usize,
    ) -> Result<Chosen, Failure> {
        let pool: Vec<&Device> = request.filter.pool(&inventory).collect();
        if pool.is_empty() {
            return Err(census::empty_pool(&inventory, &request.filter.sort(&inventory)));
        }
        let Some(device) = pool.get(index).copied() else {
            let there = if pool.len() == 1 {
                "there is 1 device, 0".to_owned()
            } else {
                format!("there are {} devices, 0 to {}", pool.len(), pool.len() - 1)
            };
            return Err(Failure::new(Kind::Usage, format!("no device {index}: {there}"))
                .hint("getgpu --list; to wait for a free device: getgpu --help"));
        };
        let value = self.value(&device.uuid, Some(&inventory));
        let probe = self.place.open()?;
        let mut chooser = Chooser { client, place: &self.place, side: Side::Reservation, filter: &request.filter };
        match chooser.try_device(&probe, device)? {
            Ok(claim) => Ok(Chosen::Claimed { uuid: device.uuid.clone(), value, claim }),
            Err(why) => {
                self.diag.note(&format!("{}: not reserved: {why:?}", device.uuid));
                Ok(Chosen::Settled(Answer { uuid: device.uuid.clone(), value, lock: None }))
            }
        }
    }

    fn random(&self, client: &mut Asker, request: &Request, known: Option<Inventory>) -> Result<Chosen, Failure> {
        if let (true, Some(inventory)) = (self.options.explain, &known) {
            let sorted = request.filter.sort(inventory);
            self.lines(&explain::outside(&request.filter, inventory, &sorted));
        }
        let inventory = known.clone();
        let mut chooser = Chooser { client, place: &self.place, side: Side::Reservation, filter: &request.filter };
        match chooser.choose(known)? {
            Outcome::Picked(Picked { device, claim }) => {
                if let (true, Some(inventory)) = (self.options.explain, &inventory) {
                    let probe = self.place.open()?;
                    for other in request.filter.pool(inventory).filter(|other| other.uuid != device.uuid) {
                        let why = chooser.look(&probe, other)?;
                        self.lines(&[explain::passed_over(other, why.as_ref(), &self.place, &probe)]);
                    }
                }
                let value = self.value(&device.uuid, inventory.as_ref());
                Ok(Chosen::Claimed { uuid: device.uuid, value, claim })
            }
            Outcome::NoneFree(rejected) => {
                let probe = self.place.open()?;
                if self.options.explain {
                    let line = |(device, why): &(Device, Rejected)| {
                        explain::passed_over(device, Some(why), &self.place, &probe)
                    };
                    self.lines(&rejected.iter().map(line).collect::<Vec<_>>());
                }
                Err(Census::take(&rejected, &probe).failure().hint(
                    "an empty CUDA_VISIBLE_DEVICES hides all GPUs and many programs go on on the CPU: use cudawrap -- PROGRAM",
                ))
            }
        }
    }

    fn lines(&self, lines: &[String]) {
        for line in lines {
            self.diag.line("", line);
        }
    }

    /// What is printed for a device: its UUID, or its CUDA index among the GPUs that this process can open.
    fn value(&self, uuid: &Uuid, inventory: Option<&Inventory>) -> String {
        if self.options.format != Format::Index {
            return uuid.to_string();
        }
        let gpus = inventory.map(|inventory| inventory.gpus.as_slice()).unwrap_or_default();
        let place = gpus.iter().filter(|gpu| gpu.usable).position(|gpu| gpu.uuid.as_ref() == Some(uuid));
        place.map_or_else(|| uuid.to_string(), |place| place.to_string())
    }
}
