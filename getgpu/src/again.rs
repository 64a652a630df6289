//! What turns out to be ours: the device of a caller's last command, whose reservation lingers and which its next getgpu takes over, if it is
//! what is asked for now and nobody else uses it meanwhile; and a grant that another of us is just reserving.

use std::time::{Duration, Instant};

use getgpu_common::choice::pick::Guard;
use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Inventory};
use getgpu_common::lock::own::{self, Cover, HolderLine};
use getgpu_common::lock::{Level, Span, Taken, UNITS};
use getgpu_common::request::Request;
use getgpu_common::share;

use crate::call::{Answer, Asker, Call};
use crate::caller::Process;
use crate::reuse;

/// How long a grant that somebody has is looked at again, and how often.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

impl Call<'_> {
    /// Whether a grant of as many devices as are wanted, which somebody had, is ours a moment later: of tasks that were granted one device
    /// and ask for it at one instant one is just reserving it. NVML is not open meanwhile.
    pub fn ours_by_now(&self, request: &Request) -> bool {
        let Some(grant) = request.filter.grant.as_deref() else { return false };
        if request.cover.is_some() || grant.len() != request.count {
            return false;
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if Cover::of(&self.place, grant).is_some() {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

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
