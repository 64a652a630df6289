//! The order in which the devices of the pool are tried: by size where sizes matter, then
//! by policy, else at random. Pure. Shares go to the least loaded device, the lowest
//! index on ties, unless a policy says otherwise.

use rand::RngExt;

use getgpu_model::{Device, Distance, MigProfile};
use getgpu_settings::Policy;

/// A device that may be tried, and what is in use around it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub device: &'a Device,
    /// Its place in the pool.
    pub(crate) position: usize,
    /// Units of it that are taken; read for shares only, else 0.
    pub(crate) load: i64,
    /// Units of all devices on its GPU that are taken; 0 where the policy does not go by them.
    pub(crate) gpu_load: i64,
    /// How far it is from the one that is best for a rank; the same for all where it does
    /// not matter.
    pub(crate) distance: Distance,
}

/// What decides the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preference {
    pub policy: Option<Policy>,
    /// A part of a device is wanted.
    pub share: bool,
    /// The smallest that fits goes first.
    pub(crate) by_size: bool,
}

impl Preference {
    /// Whether [`Candidate::gpu_load`] decides, which is read only then, as [`Candidate::load`] is for
    /// shares, and 0 otherwise. Every policy says so for itself.
    pub(crate) const fn by_gpu_load(self) -> bool {
        match self.policy {
            None | Some(Policy::Random | Policy::First | Policy::Last) => false,
            Some(Policy::Spread | Policy::Pack) => true,
        }
    }

    /// Puts candidates into the order in which they are tried.
    pub(crate) fn order(self, candidates: &mut [Candidate<'_>], rng: &mut impl rand::Rng) {
        let sizes = if self.by_size {
            sizes(candidates)
        } else {
            Vec::new()
        };
        // Every key is worked out before the sort, so that it is one and the same at every
        // comparison.
        let keyed = candidates.iter().enumerate().map(|(i, candidate)| {
            let size = sizes.get(i).copied().unwrap_or_default();
            let chance = rng.random::<i32>().into();
            (size, self.key(candidate, chance), candidate.clone())
        });
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_by_key(|(size, key, _)| (*size, *key));
        for (position, (_, _, candidate)) in candidates.iter_mut().zip(keyed) {
            *position = candidate;
        }
    }

    /// Among candidates of one size; the lowest goes first.
    fn key(self, c: &Candidate<'_>, chance: i64) -> (Distance, [i64; 3]) {
        let position = i64::try_from(c.position).unwrap_or(i64::MAX);
        let order = match (self.policy, self.share) {
            (None, true) => [c.load, position, 0],
            (None | Some(Policy::Random), _) => [chance, 0, 0],
            (Some(Policy::First), _) => [position, 0, 0],
            (Some(Policy::Last), _) => [-position, 0, 0],
            (Some(Policy::Spread), true) => [c.gpu_load, c.load, position],
            (Some(Policy::Spread), false) => [c.gpu_load, chance, 0],
            (Some(Policy::Pack), true) => [-c.gpu_load, -c.load, position],
            (Some(Policy::Pack), false) => [-c.gpu_load, chance, 0],
        };
        // Ranks follow a policy too if one is set.
        let distance = match self.policy {
            None => c.distance,
            Some(_) => Distance::default(),
        };
        (distance, order)
    }
}

/// The size of each candidate: by memory, where equal profiles differ by some MiB
/// and count as equal, then by compute slices.
fn sizes(candidates: &[Candidate<'_>]) -> Vec<(Option<usize>, u32)> {
    let mut totals: Vec<u64> = candidates.iter().map(memory).collect();
    totals.sort_unstable();
    let mut firsts: Vec<u64> = Vec::new();
    for total in totals {
        let is_larger = |first: &u64| total > first.saturating_add(first / 50);
        if firsts.last().is_none_or(is_larger) {
            firsts.push(total);
        }
    }
    let key = |c: &Candidate<'_>| {
        let size = firsts.iter().rposition(|first| *first <= memory(c));
        (size, slices(c.device))
    };
    candidates.iter().map(key).collect()
}

fn memory(candidate: &Candidate<'_>) -> u64 {
    candidate.device.memory.unwrap_or(u64::MAX)
}

/// The compute slices of a profile (`2g.10gb`, `1c.3g.20gb`); a whole GPU has more than
/// any.
fn slices(device: &Device) -> u32 {
    let profile = device.profile.as_deref().and_then(MigProfile::parse);
    profile.map_or(u32::MAX, |profile| profile.slices)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
