//! Bytes and numbers that mean nothing, the same ones for the same seed. Extremes are
//! frequent: all bits set, none, a text that does not end.

/// A source of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noise(u64);

impl Noise {
    /// Different for each call of a rule.
    pub(crate) const fn new(seed: u64, call: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(call))
    }

    /// The next number (splitmix64).
    pub(crate) const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        match self.number() % 5 {
            0 => bytes.fill(0xff),
            1 => bytes.fill(0),
            2 => bytes.fill(b'G'),
            _ => bytes.fill_with(|| self.number() as u8),
        }
    }

    /// A number of entries, where there is room for `room` of them.
    pub(crate) fn count(&mut self, room: u32) -> u32 {
        match self.number() % 6 {
            0 => 0,
            1 => room,
            2 => room / 2,
            3 => room.wrapping_add(1),
            4 => u32::MAX,
            _ => self.number() as u32,
        }
    }
}
