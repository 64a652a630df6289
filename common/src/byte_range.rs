//! Ranges of bytes of the lock file, which are never empty: a length of 0 would mean "to
//! the end of the file" to the kernel. Below lock and procfs, since both speak of them.

/// One or more bytes of the lock file. It cannot be empty: fcntl(2) takes a length of 0
/// for "to the end of the file", and one such lock would keep every device of the node
/// from everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    start: i64,
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

    pub const fn byte(at: i64) -> Self {
        Self { start: at, len: 1 }
    }

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
