//! However a wrapped program is called, the right program runs with the right arguments.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod arguments;
mod callers;
mod clearing;
mod hints;
mod own_files;
mod pages;
mod program_search;
mod users_and_namespaces;
mod ways_to_start;
