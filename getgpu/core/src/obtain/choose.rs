//! The choice of one call: the device of an INDEX, what the caller owns already, or free devices by
//! the policy. It only claims: `print` confirms the claims after NVML has been closed.

use getgpu_ask::Node;
use std::ops::ControlFlow;
use std::rc::Rc;

use getgpu_choose::{Chooser, Granted, Owned, Part, Rejected};
use getgpu_lock::{OfdLock, Side};
use getgpu_model::{Detail, Device, Failure, Inventory, visible::has_several_models};
use getgpu_queue::{At, Observer, Obstacle, Selection};

use crate::call::GetgpuCall;
use crate::obtain::answer::{self, Chosen};
use crate::obtain::explain;
use crate::obtain::indexed::indexed;
use crate::options::{Action, Format};

const HINT: &str = "an empty CUDA_VISIBLE_DEVICES hides all GPUs and many programs silently fall back to the CPU: use cudawrap -- PROGRAM, or getgpu --wait";

pub fn choose<'c>(
    call: &'c GetgpuCall<'_>,
    node: &mut Node<'_>,
    granted: &Rc<Granted>,
) -> Result<Chosen<'c>, Failure> {
    let options = call.options;
    if let Action::Print(Some(index)) = options.action {
        return indexed(call, node, granted, index);
    }
    // Of several devices it has to be known whether a program can use them together.
    if options.explain || granted.most > 1 || options.format == Format::Index {
        node.inventory(granted.look())?;
    }
    if options.format == Format::Index && !call.environment.order_by_pci {
        let named = node.inventory(Detail::Name)?;
        if has_several_models(&named.gpus) {
            call.diag.note("GPUs of different models on this node: an index is this GPU to a program only with CUDA_DEVICE_ORDER=PCI_BUS_ID");
        }
    }
    let known = node.known();
    let request = &match answer::again_or_inside(call, granted, known.as_deref())? {
        ControlFlow::Break(answer) => return Ok(Chosen::Ready(answer)),
        ControlFlow::Continue(request) => request,
    };
    if let (Some(only), Some(known)) = (&request.filter.granted_alone, &known) {
        let device = known.devices.iter().find(|device| device.uuid == *only);
        let line = device.and_then(|device| request.excluded_grant(device));
        line.iter().for_each(|line| call.diag.warn(line));
    }
    let at = At {
        lock_file: &call.lock_file,
        side: Side::Reservation,
        environment: call.environment,
        diag: call.diag,
    };
    let selection = Selection { node, at, request };
    let selected = selection.run(&mut Explained { call, request })?;
    Ok(Chosen::Unconfirmed(selected))
}

/// Says with `--explain` why devices were not taken.
struct Explained<'a> {
    call: &'a GetgpuCall<'a>,
    request: &'a Owned,
}

impl Explained<'_> {
    fn lines(&self, lines: impl IntoIterator<Item = String>) {
        if self.call.options.explain {
            for line in lines {
                self.call.diag.line("", &line);
            }
        }
    }
}

impl Observer for Explained<'_> {
    fn known(&mut self, inventory: &Inventory, _pool: &[&Device]) -> Result<(), Failure> {
        let sorted = self.request.filter.classify(inventory);
        self.lines(explain::outside(&self.request.filter, inventory, &sorted));
        Ok(())
    }

    fn picked(
        &mut self,
        chooser: &mut Chooser<'_, '_>,
        picked: &[Part],
        inventory: &Inventory,
    ) -> Result<(), Failure> {
        if !self.call.options.explain {
            return Ok(());
        }
        let (lock_file, probe) = (&self.call.lock_file, self.call.lock_file.open()?);
        for other in self.request.filter.pool(inventory) {
            if picked.iter().any(|picked| picked.device.uuid == other.uuid) {
                continue;
            }
            let why = chooser.check_unclaimed(&probe, other)?;
            self.lines([explain::passed_over(other, why.as_ref(), lock_file, &probe)]);
        }
        Ok(())
    }

    fn rejected(&mut self, rejected: &[(Device, Rejected)], probe: &OfdLock) {
        let lock_file = &self.call.lock_file;
        self.lines(
            rejected
                .iter()
                .map(|(device, why)| explain::passed_over(device, Some(why), lock_file, probe)),
        );
    }

    fn hint(&self, _obstacle: Obstacle) -> String {
        format!("{HINT}{}", self.request.way_around())
    }
}
