//! Drawing slots of a node at random without knowing what is in them: every (GPU, slot)
//! pair equally likely, none twice. The caller rejects what is empty or taken and draws
//! again, so every free device is equally likely, and a pick on an idle node touches one
//! GPU only.

use std::collections::HashSet;

use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};

use getgpu_model::Gpu;
use getgpu_settings::Type;

/// MIG devices that a GPU can have: 7 on every GPU with MIG so far but the A30 with 4.
const USUAL_SLOTS: u32 = 7;
/// Rejected draws after which a look at everything is cheaper.
const MOST_DRAWS: usize = 16;

/// A place on the node that may hold a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// NVML index of the GPU.
    pub(crate) gpu: u32,
    /// MIG index on it; 0 stands for the GPU itself where it is not in MIG mode.
    pub(crate) index: u32,
}

/// A generator seeded by the kernel for one choice (getrandom(2)); without random bytes,
/// by the clock and the process id, since that is no reason to hand out nothing.
pub(crate) fn generator() -> StdRng {
    StdRng::try_from_rng(&mut SysRng).unwrap_or_else(|_| {
        let now = getgpu_linux::sys::boot_time().as_nanos() as u64;
        StdRng::seed_from_u64(now ^ u64::from(std::process::id()).rotate_left(40))
    })
}

/// A sequence of draws.
#[derive(Debug)]
pub(crate) struct SlotSampler {
    gpus: u32,
    slots: u32,
    drawn: HashSet<Slot>,
}

impl SlotSampler {
    /// Draws among the slots of `gpus` GPUs.
    pub fn new(gpus: u32, kind: Type) -> Self {
        Self {
            gpus,
            slots: if kind == Type::Gpu { 1 } else { USUAL_SLOTS },
            drawn: HashSet::new(),
        }
    }

    /// The next slot; none when a look at everything is better.
    pub(crate) fn draw(&mut self, rng: &mut impl rand::Rng) -> Option<Slot> {
        let all = self.gpus as usize * self.slots as usize;
        if self.drawn.len() >= MOST_DRAWS.min(all) {
            return None;
        }
        loop {
            let slot = Slot {
                gpu: rng.random_range(0..self.gpus),
                index: rng.random_range(0..self.slots),
            };
            if self.drawn.insert(slot) {
                return Some(slot);
            }
        }
    }

    /// What the drawn slot is on a GPU that turned out so: a MIG index, the GPU itself,
    /// or nothing. `Err` when this GPU has more slots than are drawn from, which would
    /// not be fair.
    pub(crate) fn on(&self, slot: Slot, gpu: &Gpu) -> Result<Option<DrawnPlace>, Unfair> {
        match gpu.mig {
            false => Ok((slot.index == 0).then_some(None)),
            true if gpu.slots > self.slots => Err(Unfair),
            true => Ok((slot.index < gpu.slots).then_some(Some(slot.index))),
        }
    }
}

/// A GPU with more slots than drawing assumes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfair;

/// Where on its GPU a device may be: a MIG index, none for the whole GPU.
pub type DrawnPlace = Option<u32>;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn gpu(mig: bool, slots: u32) -> Gpu {
        Gpu {
            mig,
            slots,
            ..Gpu::unasked(0)
        }
    }

    #[test]
    fn no_slot_twice_and_an_end() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        for (gpus, kind, most) in [
            (1, Type::Auto, 7),
            (8, Type::Auto, 16),
            (4, Type::Gpu, 4),
            (64, Type::Gpu, 16),
        ] {
            let mut draws = SlotSampler::new(gpus, kind);
            let drawn: Vec<_> = std::iter::from_fn(|| draws.draw(&mut rng)).collect();
            assert_eq!(drawn.len(), most);
            assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), most);
        }
    }

    #[test]
    fn slots_of_gpus() {
        let draws = SlotSampler::new(2, Type::Any);
        let slot = |index| Slot { gpu: 1, index };
        assert_eq!(draws.on(slot(3), &gpu(true, 7)), Ok(Some(Some(3))));
        assert_eq!(draws.on(slot(4), &gpu(true, 4)), Ok(None));
        assert_eq!(draws.on(slot(0), &gpu(false, 0)), Ok(Some(None)));
        assert_eq!(draws.on(slot(1), &gpu(false, 0)), Ok(None));
        assert_eq!(draws.on(slot(0), &gpu(true, 8)), Err(Unfair));
    }
}
