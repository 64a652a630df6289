//! Listing the node, GPU by GPU: first the names, and more only of GPUs on which this call may
//! choose a device. A GPU that does not answer keeps its place and stops no other.

use std::collections::BTreeMap;

use super::Client;
use super::wire::NvmlRequest;
use crate::causes::AskCause;
use getgpu_model::{Detail, Device, Failure, Gpu, GpuListing, Inventory};

/// Says whether programs may run on a device. The filter of a call's pool implements it, in a higher crate.
pub trait Allowing: std::fmt::Debug {
    /// Whether programs may run on this device.
    fn allows(&self, device: &Device) -> bool;
}

/// How much of the node a call has to know.
#[derive(Clone, Debug)]
pub struct Look<'f> {
    /// Of each device.
    pub detail: Detail,
    /// The NVML indices of the GPUs that devices are wanted of; empty: of all. The others are
    /// asked for nothing, unless these have no device.
    pub gpus: Vec<u32>,
    /// GPUs without a device that this allows are asked for names alone.
    pub filter: Option<&'f dyn Allowing>,
}

impl From<Detail> for Look<'_> {
    /// Everything, on all GPUs.
    fn from(detail: Detail) -> Self {
        Self {
            detail,
            gpus: Vec::new(),
            filter: None,
        }
    }
}

impl Look<'_> {
    /// The GPUs of which more has to be asked.
    pub(crate) fn lacks(&self, known: &Inventory) -> Vec<u32> {
        let gpus = known.gpus.iter().map(|gpu| gpu.index);
        gpus.filter(|gpu| self.is_lacking(known, *gpu)).collect()
    }

    fn is_lacking(&self, known: &Inventory, gpu: u32) -> bool {
        let mut devices = known.devices.iter().filter(|device| device.gpu == gpu);
        !known.knows(gpu, self.detail)
            && known.silent_gpu(gpu).is_none()
            && devices.any(|device| self.filter.is_none_or(|filter| filter.allows(device)))
    }
}

impl Client<'_> {
    /// The node, listed now.
    ///
    /// # Errors
    ///
    /// The session failed, or no GPU answers at all.
    pub(crate) fn scan(&mut self, look: &Look<'_>) -> Result<Inventory, Failure> {
        let mut inventory = self.names(look)?;
        self.complete(&mut inventory, look)?;
        Ok(inventory)
    }

    /// Asks for what an inventory lacks for this look.
    ///
    /// # Errors
    ///
    /// The session failed.
    pub(crate) fn complete(
        &mut self,
        known: &mut Inventory,
        look: &Look<'_>,
    ) -> Result<(), Failure> {
        if look.detail >= Detail::Size && known.driver.is_none() {
            known.driver = self.ask(&NvmlRequest::Driver)?.unwrap_or_default();
        }
        for gpu in look.lacks(known) {
            let detail = look.detail;
            match self.ask_gpu(gpu, &NvmlRequest::List { gpu, detail })? {
                Ok(listing) => known.replace(listing),
                Err(failure) => known.note_silent(gpu, failure.message),
            }
        }
        Ok(())
    }

    /// The names of GPUs and devices.
    fn names(&mut self, look: &Look<'_>) -> Result<Inventory, Failure> {
        let count = self.count()?;
        let (wanted, others): (Vec<u32>, Vec<u32>) =
            (0..count).partition(|gpu| look.gpus.is_empty() || look.gpus.contains(gpu));
        let mut listed = BTreeMap::new();
        let mut given_up = self.list_names(&wanted, look, &mut listed)?;
        // What there is instead is said where there is no such device.
        if listed.values().all(|listing| listing.devices.is_empty()) {
            given_up += self.list_names(&others, look, &mut listed)?;
        }
        if let Some(first) = listed.values().next()
            && given_up == listed.len()
        {
            let why = first.silent.first().map(ToString::to_string);
            let why = why.unwrap_or_default();
            return Err(AskCause::NoGpuAnswers { why }.into());
        }
        let mut inventory = Inventory::default();
        for gpu in 0..count {
            match listed.remove(&gpu) {
                Some(listing) => inventory.add(listing),
                None => inventory.gpus.push(Gpu::unasked(gpu)),
            }
        }
        Ok(inventory)
    }

    /// Lists these GPUs; gives how many of them did not answer.
    fn list_names(
        &mut self,
        gpus: &[u32],
        look: &Look<'_>,
        listed: &mut BTreeMap<u32, GpuListing>,
    ) -> Result<usize, Failure> {
        let detail = look.detail.min(Detail::Place);
        let mut given_up = 0;
        for gpu in gpus.iter().copied() {
            let told = self.ask_gpu(gpu, &NvmlRequest::List { gpu, detail })?;
            let listing = told.unwrap_or_else(|failure| {
                given_up += 1;
                GpuListing::silent(gpu, failure.message)
            });
            listed.insert(gpu, listing);
        }
        Ok(given_up)
    }
}
