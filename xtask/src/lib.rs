//! What is made from the flag tables and the table of settings: man pages and
//! completions, checked in under man/ and completions/. `programs` reaches the tables,
//! `pages` fills in the hand-written pages, `completions` asks clap. `address` writes one line
//! of files that are written by hand.

pub mod address;
pub mod completions;
pub mod messages;
pub mod pages;
pub mod programs;
pub mod rooms;
pub mod size;

use std::path::{Path, PathBuf};

/// One file that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Where, from the top of the repository.
    pub path: PathBuf,
    pub text: String,
}

/// Every file that is made.
pub fn all() -> Vec<Made> {
    let mut made = pages::all();
    made.extend(completions::all());
    made
}

/// The top of the repository.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}
