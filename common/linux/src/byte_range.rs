//! Ranges of bytes of the lock file, which are never empty: a length of 0 would mean "to
//! the end of the file" to the kernel. Below lock and procfs, since both speak of them.

/// One or more bytes of the lock file. It cannot be empty: fcntl(2) takes a length of 0
/// for "to the end of the file", and one such lock would keep every device of the node
/// from everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset in the file, in bytes.
    start: i64,
    /// How many bytes.
    len: i64,
}

impl Range {
    /// `len` bytes from `start` on; `None` if that is no byte at all.
    pub const fn new(start: i64, len: i64) -> Option<Self> {
        if len > 0 && start.checked_add(len).is_some() {
            Some(Self { start, len })
        } else {
            None
        }
    }

    /// The bytes from `start` up to `end`, which is not one of them; `None` if that is no
    /// byte at all.
    pub const fn between(start: i64, end: i64) -> Option<Self> {
        match end.checked_sub(start) {
            Some(len) => Self::new(start, len),
            None => None,
        }
    }

    /// The one byte at this offset.
    pub const fn byte(at: i64) -> Self {
        Self { start: at, len: 1 }
    }

    /// The first byte.
    pub const fn start(self) -> i64 {
        self.start
    }

    /// How many bytes: 1 or more.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(self) -> i64 {
        self.len
    }

    /// The byte behind the last one.
    pub const fn end(self) -> i64 {
        self.start + self.len
    }

    /// The bytes of both.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::between(self.start.max(other.start), self.end().min(other.end()))
    }

    /// The same number of bytes, `by` bytes further on.
    pub const fn moved(self, by: i64) -> Option<Self> {
        match self.start.checked_add(by) {
            Some(start) => Self::new(start, self.len),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    fn range(start: i64, len: i64) -> Range {
        Range::new(start, len).unwrap()
    }

    #[test]
    fn no_range_is_empty_or_reaches_past_the_last_offset() {
        assert_eq!((range(5, 1).len(), range(5, 3).end()), (1, 8));
        for (start, len) in [(5, 0), (5, -1), (i64::MAX, 1), (1, i64::MAX)] {
            assert_eq!(Range::new(start, len), None, "{start} {len}");
        }
        assert_eq!(Range::between(5, 8), Some(range(5, 3)));
        for (start, end) in [(5, 5), (6, 5), (i64::MIN, i64::MAX)] {
            assert_eq!(Range::between(start, end), None, "{start} {end}");
        }
        assert_eq!(Range::byte(i64::MAX - 1).end(), i64::MAX);
    }

    #[test]
    fn only_bytes_of_both_are_in_an_intersection() {
        let with = |start, len| range(10, 10).intersection(range(start, len));
        assert_eq!([with(0, 10), with(20, 5)], [None, None], "they only touch");
        assert_eq!(with(0, 11), Some(Range::byte(10)));
        assert_eq!(with(19, 9), Some(Range::byte(19)));
        assert_eq!(
            [with(12, 3), with(0, 99)],
            [Some(range(12, 3)), Some(range(10, 10))]
        );
    }

    #[test]
    fn a_moved_range_is_as_long_or_none() {
        assert_eq!(range(10, 3).moved(-10), Some(range(0, 3)));
        assert_eq!(range(10, 3).moved(1 << 34), Some(range(10 + (1 << 34), 3)));
        for by in [i64::MAX, i64::MAX - 12] {
            assert_eq!(range(10, 3).moved(by), None, "{by}");
        }
    }
}
