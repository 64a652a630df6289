//! Where chance comes from: a generator seeded by the kernel. A kernel that gives no
//! random bytes is no reason to hand out nothing: then the clock and the process id have
//! to do.

use rand::SeedableRng;
use rand::rngs::{StdRng, SysRng};

/// A generator of its own for one choice (getrandom(2)).
pub fn generator() -> StdRng {
    StdRng::try_from_rng(&mut SysRng).unwrap_or_else(|_| {
        let now = crate::sys::boot_time().as_nanos() as u64;
        StdRng::seed_from_u64(now ^ u64::from(std::process::id()).rotate_left(40))
    })
}
