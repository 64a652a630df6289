//! What `cargo run -p xtask` writes, man pages and completions, and what is written by hand
//! beside the tables: the schema, messages, and the words of settings.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod completions;
mod drift;
mod json_fields;
mod messages;
mod named_tests;
mod pages;
mod setting_words;
