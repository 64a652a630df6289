//! The device of an INDEX: reserved if it is free, and printed in any case. With `--hold`
//! a device that cannot be reserved is a failure.

use getgpu_common::choice::cap::Admission;
use getgpu_common::choice::chooser::{Chooser, Guard};
use getgpu_common::choice::rejection_report::{self, Offer};
use getgpu_common::error::{Failure, Kind};
use getgpu_common::inventory::{Device, Inventory};
use getgpu_common::lock::{Claim, Side};
use getgpu_common::ownership::Decision;
use getgpu_common::request::{Request, WITHOUT_GRANT};

use crate::answer::{Answer, Chosen, Claimed};
use crate::explain;
use crate::invocation::{Asker, Invocation};
use crate::options::Keep;

impl Invocation<'_> {
    /// The device of this index, in use or not; claimed if it is free. If it is all that
    /// the grant names and `owned` already, it is printed again, as without an INDEX.
    pub fn indexed(
        &self,
        client: &mut Asker,
        request: &mut Request,
        inventory: &Inventory,
        index: usize,
        owned: Decision,
    ) -> Result<Chosen, Failure> {
        let device = of_index(request, inventory, index)?;
        let value = self.value(std::iter::once(&device.uuid), Some(inventory))?;
        if let Decision::All(cover) = &owned {
            return Ok(Chosen::Confirmed(self.again(cover, value)?));
        }
        request.cover = owned.cover();
        let uuids = vec![device.uuid.clone()];
        let why = match self.claim_device(client, request, inventory, device)? {
            Attempt::Claimed(claim, guard) => {
                return Ok(Chosen::Claimed(Claimed {
                    uuids,
                    value,
                    claims: vec![claim],
                    guard,
                }));
            }
            Attempt::PassedOver(why) => why,
        };
        self.accept_unreserved(&why)?;
        Ok(Chosen::Confirmed(Answer {
            repeated: false,
            larger_grant: Vec::new(),
            uuids,
            value,
            lock: None,
            part: 1.0,
            guard: Guard::default(),
        }))
    }

    /// A device that was named is printed although it cannot be reserved, but never held.
    fn accept_unreserved(&self, why: &str) -> Result<(), Failure> {
        match self.options.keep {
            Keep::Hold(_) => {
                let failure = Failure::new(Kind::NoneFree, format!("not held: {why}"));
                Err(failure.hint(
                    "getgpu --hold without INDEX holds a free device; getgpu --list shows them",
                ))
            }
            Keep::No => Ok(()),
            Keep::ForProgram => {
                self.diag.warn(&format!("not reserved: {why}"));
                Ok(())
            }
        }
    }

    /// Claims this device if it is free.
    fn claim_device(
        &self,
        client: &mut Asker,
        request: &Request,
        inventory: &Inventory,
        device: &Device,
    ) -> Result<Attempt, Failure> {
        let probe = self.lock_file.open()?;
        let mut chooser = Chooser {
            client,
            lock_file: &self.lock_file,
            side: Side::Reservation,
            request,
            skip: &|other| other != device,
        };
        let guard = match chooser.within_cap(&probe, inventory)? {
            Admission::Within(guard) => guard,
            Admission::Over(over) => {
                let why = format!("{}: {}", device.uuid, over.message);
                return Ok(Attempt::PassedOver(why));
            }
        };
        match chooser.try_device(&probe, device)? {
            Offer::Available(claim) => {
                let claims = std::iter::once(&claim);
                let guard = guard.sign_claims(&self.lock_file, Side::Reservation, claims)?;
                Ok(Attempt::Claimed(claim, guard))
            }
            Offer::Rejected(why) => Ok(Attempt::PassedOver(explain::passed_over(
                device,
                Some(&why),
                &self.lock_file,
                &probe,
            ))),
        }
    }
}

/// What came of a device that was named.
enum Attempt {
    Claimed(Claim, Guard),
    /// It is not free; why, for people.
    PassedOver(String),
}

/// The device of this index.
fn of_index<'a>(
    request: &Request,
    inventory: &'a Inventory,
    index: usize,
) -> Result<&'a Device, Failure> {
    let indexed = request.filter.indexed(inventory);
    if indexed.is_empty() {
        return Err(rejection_report::empty_pool(
            &request.filter,
            inventory,
            &request.filter.sort(inventory),
        ));
    }
    match indexed.get(index) {
        Some((device, None)) => Ok(device),
        Some((device, Some(outside))) => {
            let why = request.filter.reason(*outside);
            let text = format!("device {index}: {}: {why}", device.uuid);
            Err(Failure::new(Kind::Usage, text).hint("getgpu --list shows which are not excluded"))
        }
        None => Err(no_such_index(index, indexed.len(), request)),
    }
}

fn no_such_index(index: usize, devices: usize, request: &Request) -> Failure {
    let there = match devices {
        1 => "there is 1 device, 0".to_owned(),
        many => format!("there are {many} devices, 0 to {}", many - 1),
    };
    let (within, hint) = match request.filter.grant {
        Some(_) => (
            ", within CUDA_VISIBLE_DEVICES",
            request.remedy(WITHOUT_GRANT),
        ),
        None => (
            "",
            "getgpu --list; to wait for a free device: getgpu --wait",
        ),
    };
    Failure::new(Kind::Usage, format!("no device {index}: {there}{within}")).hint(hint)
}
