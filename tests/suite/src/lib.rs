//! Tests of the commands as users meet them: each file of `tests/` is one theme, each test is named after the guarantee it holds.
//! They start the built programs in a sandbox of `harness`, so `cargo build --workspace` comes first.
