//! Which device is best for a rank of a parallel program: the one whose GPU is near the
//! CPUs that the rank may run on, then the one of the rank's block.

use crate::cpus::{CpuSet, overlap};
use crate::inventory::Device;

/// How far a device is from the one that is best for a rank: first by the CPUs near its
/// GPU that the rank may not use, then by whether it is the one of the rank's block.
pub type Distance = (i64, bool);

/// Where a rank of a parallel program is best placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nearest {
    /// The CPUs that it may run on.
    pub cpus: CpuSet,
    /// The device of its block, by its place in the pool.
    pub block: Option<usize>,
}

impl Nearest {
    /// How far a device is, which is at this place of the pool.
    pub fn distance(&self, device: &Device, position: usize) -> Distance {
        let near = device
            .cpus
            .as_ref()
            .map_or(0, |cpus| overlap(cpus, &self.cpus));
        (
            -i64::try_from(near).unwrap_or(i64::MAX),
            self.block != Some(position),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::Uuid;

    #[test]
    fn cpus_come_before_the_block() {
        let uuid = Uuid::parse("GPU-0d1e2f30-1111-5222-8333-444455556666").unwrap();
        let near = |cpus: &[usize]| Device {
            cpus: Some(cpus.iter().copied().collect()),
            ..Device::by_uuid(uuid.clone())
        };
        let nearest = Nearest {
            cpus: [0, 1, 2].into_iter().collect(),
            block: Some(3),
        };
        let distance = |device: &Device, place| nearest.distance(device, place);
        let (all, one, none) = (near(&[0, 1, 2, 9]), near(&[2]), near(&[9]));
        // The best first.
        #[rustfmt::skip]
        let rising = [
            distance(&all, 3), distance(&all, 0), distance(&one, 3), distance(&none, 3),
            distance(&none, 0),
        ];
        assert!(
            rising.is_sorted_by(|better, worse| better < worse),
            "{rising:?}"
        );
        assert_eq!(
            distance(&Device::by_uuid(uuid.clone()), 3),
            distance(&none, 3),
            "not known is as not near"
        );
    }
}
