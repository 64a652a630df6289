//! Reading NVML's process entries at the stride that the driver wrote them with. Drivers
//! 535.43 to 535.86 write 32 bytes where every other writes 24; reading at the wrong
//! stride invents processes.

/// Bytes per entry of the widest layout.
pub(super) const WIDEST: usize = 32;
/// What buffers are filled with: an entry that was never written has a pid that no
/// process has.
pub(super) const FILL: u64 = 0xA5A5_A5A5_A5A5_A5A5;
/// PID_MAX_LIMIT of linux/threads.h.
const PID_MAX: u32 = 1 << 22;
/// NVML_VALUE_NOT_AVAILABLE
const NOT_AVAILABLE: u64 = u64::MAX;

/// How entries are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// nvmlProcessInfo_v1_t: pid, memory; 16 bytes.
    First,
    /// nvmlProcessInfo_v2_t: with instance ids; 24 bytes.
    Present,
    /// With protected memory; 32 bytes.
    Wide,
}

impl Layout {
    const fn words(self) -> usize {
        match self {
            Self::First => 2,
            Self::Present => 3,
            Self::Wide => 4,
        }
    }
}

/// A process as NVML lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessEntry {
    pub(super) pid: u32,
    /// Device memory in bytes, where known.
    pub(super) memory: Option<u64>,
    /// GPU instance and compute instance, where it has them.
    pub(super) instance: Option<(u32, u32)>,
}

/// Whether a process can have this pid. In another pid namespace NVML may list a process
/// as 0: then an unknown process uses the device.
pub(super) fn is_pid(pid: u32) -> bool {
    (1..=PID_MAX).contains(&pid)
}

/// The first `count` entries of a buffer, those with an impossible pid too.
pub(super) fn decode(buffer: &[u64], count: usize, layout: Layout) -> Vec<ProcessEntry> {
    let entries = buffer.chunks_exact(layout.words()).take(count);
    entries
        .map(|words| ProcessEntry {
            pid: halves(words[0]).0,
            memory: (words[1] != NOT_AVAILABLE && words[1] != FILL).then_some(words[1]),
            instance: words
                .get(2)
                .filter(|ids| **ids != FILL)
                .map(|ids| halves(*ids))
                .filter(|(gi, ci)| *gi != u32::MAX && *ci != u32::MAX),
        })
        .collect()
}

/// The two 32-bit numbers of a word, in memory order.
pub(super) fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_at_its_stride() {
        let entry = |pid, memory, instance| ProcessEntry {
            pid,
            memory,
            instance,
        };
        let ids = u64::from(7u32) | (u64::from(1u32) << 32);
        #[rustfmt::skip]
        let wide = [
            11, 500, ids, 0, 12, NOT_AVAILABLE, u64::MAX, 0, FILL, FILL, FILL, FILL,
        ];
        let mut found = decode(&wide, 3, Layout::Wide);
        let unwritten = found.pop().unwrap();
        assert!(!is_pid(unwritten.pid), "an entry that was never written");
        assert_eq!((unwritten.memory, unwritten.instance), (None, None));
        let (first, second) = (entry(11, Some(500), Some((7, 1))), entry(12, None, None));
        assert_eq!(found, [first, second]);
        let present = decode(&[11, 500, ids, 12, 600, ids], 2, Layout::Present);
        assert!(present.iter().map(|entry| entry.pid).eq([11, 12]));
        let oldest = decode(&[11, 500, 12, 600], 2, Layout::First);
        assert_eq!(oldest[1].memory, Some(600));
    }
}
