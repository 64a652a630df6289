//! The CPUs near a GPU, in the bit set that NVML gives out.
//! Bits that do not fit the caller's set are left out, as the driver does.

use std::ffi::c_ulong;

/// The first `size` words of the set of these CPUs.
pub(crate) fn words(cpus: &[usize], size: usize) -> Vec<c_ulong> {
    let bits = c_ulong::BITS as usize;
    let mut words = vec![0; size];
    for cpu in cpus {
        if let Some(word) = words.get_mut(cpu / bits) {
            *word |= 1 << (cpu % bits);
        }
    }
    words
}
