//! The gate: one call at a time takes several devices, or a part of one. Two calls that each hold a
//! half of what the other one wants would both fail.

use getgpu_lock::{LockFile, OfdLock, layout};
use getgpu_model::Failure;
use std::time::Duration;

/// How long a call waits at the gate. One that is stopped behind it delays the others by this time.
const LIMIT: Duration = Duration::from_secs(2);

/// The place behind the gate, until it is dropped.
pub type Gate = OfdLock;

/// Waits for the gate; none if another call has stood behind it for two seconds.
///
/// # Errors
///
/// The lock file cannot be opened or locked.
pub fn enter(lock_file: &LockFile) -> Result<Option<Gate>, Failure> {
    let gate = lock_file.open()?;
    let held = gate.write_within(layout::several(), LIMIT)?;
    Ok(held.then_some(gate))
}
