//! One choice in the making: what was picked so far, and what was rejected and why. It
//! asks neither the lock nor NVML.

use std::collections::HashMap;

use super::offer::Rejected;
use super::policy::Candidate;
use crate::take::Part;
use getgpu_lock::Claim;
use getgpu_model::{Device, LinkMap};

/// One choice in the making.
pub(super) struct Round<'d> {
    pub(super) pool: &'d [&'d Device],
    /// Whether a program could not use two devices of one GPU instance.
    pub(super) apart: bool,
    pub(super) gpu_loads: HashMap<u32, i64>,
    pub(super) rejected: HashMap<usize, Rejected>,
    pub(super) picked: Vec<(usize, Part)>,
    /// How its GPUs are connected, where that decides.
    pub(super) links: Option<LinkMap>,
    /// How many were refused when a device was picked last.
    pub(super) refused_before: usize,
}

impl Round<'_> {
    /// Whether another look at what is left can bring more, now that one device was picked or none.
    pub(super) fn goes_on(&mut self, is_picked: bool) -> bool {
        let refused = self.rejected.len();
        let before = std::mem::replace(&mut self.refused_before, refused);
        match &self.links {
            None => is_picked,
            Some(_) if is_picked && refused == before => true,
            // Without one of them another set is connected best; where none of a set was refused for
            // good, any will do.
            Some(_) => {
                self.links.take_if(|_| !is_picked && refused == before);
                self.picked.clear();
                true
            }
        }
    }

    pub(super) fn pick(&mut self, candidate: &Candidate<'_>, claim: Claim) {
        let device = candidate.device;
        *self.gpu_loads.entry(device.gpu).or_default() += claim.units().count();
        let part = Part::claimed(device.clone(), claim);
        self.picked.push((candidate.position, part));
    }

    pub(super) fn has_seen(&self, position: usize) -> bool {
        self.rejected.contains_key(&position)
            || self.picked.iter().any(|(picked, _)| *picked == position)
    }

    /// Whether a device that is picked already is of the same GPU instance.
    pub(super) fn is_beside_picked(&self, device: &Device) -> bool {
        let (instance, mut picked) = (device.gpu_instance(), self.picked.iter());
        instance.is_some() && picked.any(|(_, one)| one.device.gpu_instance() == instance)
    }

    /// Why each device of the pool was not had. One that could be had, or was not even
    /// tried, is one of too few; alone it would have been tried.
    pub(super) fn reasons(mut self, count: usize) -> Vec<(Device, Rejected)> {
        let rest = if count > 1 {
            Rejected::Free
        } else {
            Rejected::Tentative
        };
        let reason = |(position, device): (usize, &&Device)| {
            let why = self.rejected.remove(&position);
            ((*device).clone(), why.unwrap_or_else(|| rest.clone()))
        };
        self.pool.iter().enumerate().map(reason).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(is_connected: bool) -> Round<'static> {
        Round {
            pool: &[],
            apart: false,
            gpu_loads: HashMap::new(),
            rejected: HashMap::new(),
            picked: Vec::new(),
            links: is_connected.then(LinkMap::default),
            refused_before: 0,
        }
    }

    #[test]
    fn a_look_that_brought_nothing_ends_the_round() {
        assert!(round(false).goes_on(true));
        assert!(!round(false).goes_on(false));
    }

    #[test]
    fn a_connected_set_that_lost_a_device_is_sought_anew() {
        let mut round = round(true);
        let device = Device::by_uuid(
            getgpu_model::Uuid::parse("GPU-00000001-1111-5222-8333-444455556666").unwrap(),
        );
        let part = Part {
            device,
            got: crate::take::Got::Joined(getgpu_model::Units::whole()),
        };
        round.picked.push((0, part));
        assert!(round.goes_on(true) && round.picked.len() == 1);
        round.rejected.insert(1, Rejected::Taken);
        assert!(round.goes_on(true), "another set may be connected best");
        assert!(round.picked.is_empty() && round.links.is_some());
        round.rejected.insert(2, Rejected::Taken);
        assert!(round.goes_on(false), "others are left");
        assert!(round.links.is_some());
        assert!(round.goes_on(false), "any set will do");
        assert!(round.links.is_none());
        assert!(!round.goes_on(false));
    }
}
