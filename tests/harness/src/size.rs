//! How much a test does: a part in `make check`, all of it in `make torture`.
//! The environment variable `TORTURE=full` asks for all.

/// Whether all is asked for.
pub fn full() -> bool {
    std::env::var_os("TORTURE").is_some_and(|value| value == "full")
}

/// How many, how often: `reduced` in the ordinary run, `all` where all is asked for.
pub fn size(reduced: usize, all: usize) -> usize {
    if full() { all } else { reduced }
}
