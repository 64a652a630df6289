//! What `cargo run -p xtask` writes: man pages and completions.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod completions;
mod drift;
mod json_fields;
mod messages;
mod pages;
