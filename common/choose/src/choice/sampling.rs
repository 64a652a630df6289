//! Drawing slots of a node at random without knowing what is in them: every (GPU, slot)
//! pair equally likely, none twice. The caller rejects what is empty or taken and draws
//! again, so every free device is equally likely, and a pick on an idle node touches one
//! GPU only.

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, seq::index};

use getgpu_model::Gpu;
use getgpu_settings::Type;

/// MIG devices that a GPU can have: 7 on every GPU with MIG so far but the A30 with 4.
pub(crate) const USUAL_SLOTS: u32 = 7;
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

/// Slots of `gpus` GPUs to try; where none of them has a device, a look at everything is better.
pub(crate) fn draws(gpus: u32, kind: Type, rng: &mut impl Rng) -> impl Iterator<Item = Slot> {
    let slots = if kind == Type::Gpu {
        1
    } else {
        USUAL_SLOTS as usize
    };
    let all = gpus as usize * slots;
    let drawn = index::sample(rng, all, MOST_DRAWS.min(all)).into_iter();
    drawn.map(move |at| Slot {
        gpu: (at / slots) as u32,
        index: (at % slots) as u32,
    })
}

impl Slot {
    /// Where this is on a GPU that turned out so: at a MIG index, none for the GPU itself; or nowhere.
    pub(crate) fn on(self, gpu: &Gpu) -> Option<Option<u32>> {
        match gpu.mig {
            false => (self.index == 0).then_some(None),
            true => (self.index < gpu.slots).then_some(Some(self.index)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
            (0, Type::Auto, 0),
            (1, Type::Auto, 7),
            (8, Type::Auto, 16),
            (4, Type::Gpu, 4),
            (64, Type::Gpu, 16),
        ] {
            let drawn: Vec<_> = draws(gpus, kind, &mut rng).collect();
            assert_eq!(drawn.len(), most);
            assert!(drawn.iter().all(|slot| slot.gpu < gpus));
            assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), most);
        }
    }

    #[test]
    fn slots_of_gpus() {
        let slot = |index| Slot { gpu: 1, index };
        assert_eq!(slot(3).on(&gpu(true, 7)), Some(Some(3)));
        assert_eq!(slot(4).on(&gpu(true, 4)), None);
        assert_eq!(slot(0).on(&gpu(false, 0)), Some(None));
        assert_eq!(slot(1).on(&gpu(false, 0)), None);
    }
}
