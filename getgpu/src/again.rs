//! The device of a caller's last command: its reservation lingers, and the next getgpu of the same caller takes it over.
//! Only if it is what is asked for now, and nobody else uses it meanwhile.

use getgpu_common::choice::pick::Guard;
use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Inventory};
use getgpu_common::lock::own::{self, HolderLine};
use getgpu_common::lock::{Level, Span, Taken, UNITS};
use getgpu_common::request::Request;
use getgpu_common::share;

use crate::call::{Answer, Asker, Call};
use crate::caller::Process;
use crate::reuse;

impl Call<'_> {
    /// This caller's reservation whose programs are over, if it fits the request and nobody else uses the devices.
    pub fn taken_over(
        &self,
        client: &mut Asker,
        request: &Request,
        caller: &Process,
        known: Option<&Inventory>,
    ) -> Result<Option<Answer>, Failure> {
        let lines = reuse::of_caller(&self.place, caller)?;
        if lines.is_empty() {
            return Ok(None);
        }
        let scanned;
        let inventory = match known {
            Some(known) => Some(known),
            None if request.filter.is_open() && request.filter.share.is_none() => None,
            None => {
                scanned = client.scan(request.detail())?;
                Some(&scanned)
            }
        };
        let fitting = |line: &HolderLine| self.fits(line, request, inventory) && reuse::lingers(&self.place, line);
        let Some(line) = lines.into_iter().find(fitting) else { return Ok(None) };
        for uuid in &line.devices {
            if !self.shared(&line, uuid)? && !client.usage_of(uuid)?.is_ok_and(|u| u.activity == Activity::Idle) {
                return Ok(None);
            }
        }
        let Some(lock) = reuse::take_over(&self.place, &line)? else { return Ok(None) };
        let value = self.value(line.devices.iter(), inventory);
        self.diag.note(&format!("{value}: taken over from this caller's last reservation"));
        let units: Vec<_> = line.devices.iter().map(|uuid| own::reserved_units(&self.place, &line, uuid)).collect();
        let part = share::smallest(&units);
        Ok(Some(Answer { uuids: line.devices, value, lock: Some(lock), part, guard: Guard::default() }))
    }

    /// As many devices, as much of each, and each of them in the pool.
    fn fits(&self, line: &HolderLine, request: &Request, inventory: Option<&Inventory>) -> bool {
        let units = |uuid: &Uuid| own::reserved_units(&self.place, line, uuid).count();
        let each = |uuid: &Uuid| match inventory {
            None => request.filter.fits_uuid(uuid) && units(uuid) == UNITS,
            Some(inventory) => {
                request.filter.pool(inventory).find(|device| device.uuid == *uuid).is_some_and(|device| {
                    let wanted = request.filter.share.map_or(Some(UNITS), |share| share.units(device.memory));
                    wanted == Some(units(uuid))
                })
            }
        };
        line.devices.len() == request.count && line.devices.iter().all(each)
    }

    /// Whether others have shares of the device, so that its being busy says nothing.
    fn shared(&self, line: &HolderLine, uuid: &Uuid) -> Result<bool, Failure> {
        let settled = Taken::look(&self.place.open()?, Level::Outer, Span::of(uuid))?.settled;
        Ok(settled.count() > own::reserved_units(&self.place, line, uuid).count())
    }
}
