//! One choice in the making: what was picked so far, and what was rejected and why. It
//! asks neither the lock nor NVML.

use std::collections::HashMap;

use super::offer::Rejected;
use crate::take::Part;
use getgpu_model::{Device, LinkMap};

/// One choice in the making.
pub(super) struct Round<'d> {
    pub(super) pool: &'d [(usize, &'d Device)],
    /// Whether a program could not use two devices of one GPU instance.
    pub(super) apart: bool,
    pub(super) gpu_loads: HashMap<u32, i64>,
    pub(super) rejected: HashMap<usize, Rejected>,
    pub(super) picked: Vec<(usize, Part)>,
    /// How its GPUs are connected, where that decides.
    pub(super) links: Option<LinkMap>,
}

impl Round<'_> {
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
        let reason = |(position, device): &(usize, &Device)| {
            let why = self.rejected.remove(position);
            ((*device).clone(), why.unwrap_or_else(|| rest.clone()))
        };
        self.pool.iter().map(reason).collect()
    }
}
