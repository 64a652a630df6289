//! The choice of one call: the device of an INDEX, or free devices by the policy. It only
//! claims: `invocation` confirms the claims after NVML has been closed.

use getgpu_common::choice::chooser::{Chooser, Guard, Picked};
use getgpu_common::choice::rejection_report::Rejected;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Device, Inventory, usable_together};
use getgpu_common::lock::{OfdLock, Side};
use getgpu_common::ownership::Decision;
use getgpu_common::request::Request;
use getgpu_common::select::{Observer, Queueing, Selected, Selection};
use getgpu_common::settings::Wait;

use crate::answer::{Chosen, Claimed};
use crate::explain;
use crate::invocation::{Asker, Invocation, open};
use crate::options::{Action, Format};

const HINT: &str = "an empty CUDA_VISIBLE_DEVICES hides all GPUs and many programs silently fall back to the CPU: use cudawrap -- PROGRAM, or getgpu --wait";

impl Invocation<'_> {
    /// Chooses.
    pub fn choose(&self, client: &mut Asker, request: &mut Request) -> Result<Chosen, Failure> {
        let mut known = request.resolve_grant(client)?;
        let index_wanted = matches!(self.options.action, Action::Print(Some(_)));
        // Of several devices it has to be known whether a program can use them together.
        let all = index_wanted
            || self.options.explain
            || request.count > 1
            || self.options.format == Format::Index;
        if known.is_none() && all {
            known = Some(client.scan(request.detail())?);
        }
        let owned = request.owned(&self.lock_file, known.as_ref());
        if let Action::Print(Some(index)) = self.options.action {
            return self.indexed(client, request, &known.unwrap_or_default(), index, owned);
        }
        if let Decision::All(cover) = &owned {
            let value = self.value(cover.devices.iter().map(|(uuid, _)| uuid), known.as_ref())?;
            return Ok(Chosen::Confirmed(self.again(cover, value)?));
        }
        request.cover = owned.cover();
        self.free(client, request, known)
    }

    fn free(
        &self,
        client: &mut Asker,
        request: &Request,
        known: Option<Inventory>,
    ) -> Result<Chosen, Failure> {
        let waits = self.settings.longest_wait() != Wait::No;
        let selection = Selection {
            client,
            lock_file: &self.lock_file,
            side: Side::Reservation,
            request,
            waits,
        };
        let mut explained = Explained {
            call: self,
            request,
            explain: self.options.explain,
        };
        match selection.run(known.clone(), &mut explained)? {
            Selected::Picked(picked, guard) => Ok(Chosen::Claimed(self.claimed(
                picked,
                guard,
                known.as_ref(),
            )?)),
            Selected::Failed(failure) => Err(failure),
            Selected::Queue(queueing) => Ok(Chosen::InQueue(queueing)),
        }
    }

    /// Waits for what is not free now; the request comes back with what this call owns by
    /// then.
    pub fn wait_in_queue(
        &self,
        request: Request,
        queueing: Queueing,
    ) -> Result<(Claimed, Request), Failure> {
        let known = queueing.inventory.clone();
        let (picked, guard, request) = queueing.wait(
            &self.lock_file,
            Side::Reservation,
            request,
            (self.settings, self.environment),
            &mut || open(self.settings),
            self.diag,
        )?;
        let claimed = self.claimed(picked, guard, Some(&known))?;
        Ok((claimed, request))
    }

    fn claimed(
        &self,
        picked: Vec<Picked>,
        guard: Guard,
        inventory: Option<&Inventory>,
    ) -> Result<Claimed, Failure> {
        let value = self.value(picked.iter().map(|picked| &picked.device.uuid), inventory)?;
        let mig = picked
            .iter()
            .filter(|picked| picked.device.slot.is_some())
            .count();
        if mig > 1 && inventory.is_some_and(Inventory::first_mig_only) {
            self.diag.warn("with this driver (before 570) a CUDA program sees only the first of several MIG devices");
        }
        let together = usable_together(picked.iter().map(|picked| &picked.device));
        if together < picked.len() && inventory.is_some_and(Inventory::one_per_gpu_instance) {
            self.diag.warn(&format!(
                "a CUDA program sees only {together} of these {} devices: one compute instance of each GPU instance",
                picked.len()
            ));
        }
        let (uuids, claims) = picked
            .into_iter()
            .map(|picked| (picked.device.uuid, picked.claim))
            .unzip();
        Ok(Claimed {
            uuids,
            value,
            claims,
            guard,
        })
    }

    fn lines(&self, lines: &[String]) {
        for line in lines {
            self.diag.line("", line);
        }
    }

    /// What is printed for devices: their UUIDs, or with `--format index` CUDA indices among
    /// the GPUs that this process can open. A reservation or a lease of this caller may be of
    /// MIG devices, which have none: a UUID in the place of an index would be taken for one.
    pub fn value<'u>(
        &self,
        uuids: impl Iterator<Item = &'u Uuid>,
        inventory: Option<&Inventory>,
    ) -> Result<String, Failure> {
        let gpus = inventory
            .map(|inventory| inventory.gpus.as_slice())
            .unwrap_or_default();
        let each = uuids.map(|uuid| {
            if self.options.format != Format::Index {
                return Ok(uuid.to_string());
            }
            let mut usable = gpus.iter().filter(|gpu| gpu.usable);
            let place = usable.position(|gpu| gpu.uuid.as_ref() == Some(uuid));
            place.map(|place| place.to_string()).ok_or_else(|| {
                let text = format!("--format index: {uuid}: only a whole GPU has a CUDA index");
                Failure::new(Kind::NoDevice, text)
                    .hint("--format uuid, the default, fits all devices")
            })
        });
        each.collect::<Result<Vec<_>, _>>().map(|all| all.join(","))
    }
}

/// Says with `--explain` why devices were not taken.
struct Explained<'a> {
    call: &'a Invocation<'a>,
    request: &'a Request,
    explain: bool,
}

impl Observer<Asker> for Explained<'_> {
    fn known(&mut self, inventory: &Inventory, _pool: &[&Device]) -> Result<(), Failure> {
        if self.explain {
            let sorted = self.request.filter.sort(inventory);
            self.call
                .lines(&explain::outside(&self.request.filter, inventory, &sorted));
        }
        Ok(())
    }

    fn picked(
        &mut self,
        chooser: &mut Chooser<'_, Asker>,
        picked: &[Picked],
        known: Option<&Inventory>,
    ) -> Result<(), Failure> {
        let (true, Some(inventory)) = (self.explain, known) else {
            return Ok(());
        };
        let (lock_file, probe) = (&self.call.lock_file, self.call.lock_file.open()?);
        let taken = |device: &Device| {
            picked
                .iter()
                .any(|picked| picked.device.uuid == device.uuid)
        };
        for other in self
            .request
            .filter
            .pool(inventory)
            .filter(|other| !taken(other))
        {
            let why = chooser.look(&probe, other)?;
            self.call
                .lines(&[explain::passed_over(other, why.as_ref(), lock_file, &probe)]);
        }
        Ok(())
    }

    fn rejected(&mut self, rejected: &[(Device, Rejected)], probe: &OfdLock) {
        if self.explain {
            let line = |(device, why): &(Device, Rejected)| {
                explain::passed_over(device, Some(why), &self.call.lock_file, probe)
            };
            self.call
                .lines(&rejected.iter().map(line).collect::<Vec<_>>());
        }
    }

    fn waits(&mut self, _pool: &[&Device], _inventory: &Inventory) -> Result<(), Failure> {
        Ok(())
    }

    fn hint(&self, _queue: bool) -> &'static str {
        HINT
    }
}
