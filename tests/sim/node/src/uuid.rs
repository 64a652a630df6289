//! UUIDs made from where a device sits, so that the same slot has the same UUID in every
//! run, as on real GPUs. They have the look of NVIDIA's: version 5, lower case.

/// The UUID (without prefix) that belongs to this seed.
pub(crate) fn from_seed(seed: &str) -> String {
    let high = (hash(seed, 0xcbf2_9ce4_8422_2325) & !0xf000) | 0x5000;
    let low = (hash(seed, 0x6c62_272e_07bb_0142) & !(0b11 << 62)) | (0b10 << 62);
    let group = |bits: u64, shift: u32, mask: u64| (bits >> shift) & mask;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        group(high, 32, 0xffff_ffff),
        group(high, 16, 0xffff),
        group(high, 0, 0xffff),
        group(low, 48, 0xffff),
        group(low, 0, 0xffff_ffff_ffff)
    )
}

/// FNV-1a followed by splitmix64's finish: FNV alone leaves similar seeds with similar
/// first digits.
fn hash(seed: &str, basis: u64) -> u64 {
    let fnv = seed.bytes().fold(basis, |h, byte| {
        (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
