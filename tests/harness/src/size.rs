//! How much a test does: a reduced size, quick enough for every run, or the full size of
//! the test bar with `TORTURE=full`. `make torture` sets it; what a test checks is the
//! same in both, only how often it does so differs.

/// Whether the full size is wanted.
pub fn full() -> bool {
    std::env::var_os("TORTURE").is_some_and(|value| value == "full")
}

/// `reduced` in an ordinary run, `full` with `TORTURE=full`.
pub fn size(reduced: usize, full: usize) -> usize {
    if self::full() { full } else { reduced }
}
