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

/// Random slots of `gpus` GPUs, each once. If none of them has a free device, listing the whole node is
/// cheaper than more draws.
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
    /// Whether the GPU has this slot. A GPU that is not in MIG mode has one.
    pub(crate) fn is_on(self, gpu: &Gpu) -> bool {
        self.index < if gpu.mig { gpu.slots } else { 1 }
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
        assert!(slot(3).is_on(&gpu(true, 7)));
        assert!(!slot(4).is_on(&gpu(true, 4)));
        assert!(slot(0).is_on(&gpu(false, 0)));
        assert!(!slot(1).is_on(&gpu(false, 7)));
    }
}
