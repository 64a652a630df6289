//! Tasks of the sandboxed Slurm and what they hold.

use std::collections::BTreeSet;

use harness::{Command, Sandbox};

/// Only who asks gets something.
pub(crate) const ASKED: &str = "tasks = 'asked'";

/// A user that a Debian without any others has.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) fn devices(sandbox: &Sandbox) -> BTreeSet<String> {
    let running = sandbox.folder().running().unwrap();
    running.into_iter().map(|record| record.uuid).collect()
}

/// As a user without a home of his own.
pub(crate) fn as_nobody(command: Command) -> Command {
    command.uid(NOBODY)
}
