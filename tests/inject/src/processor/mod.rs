//! What differs between processors: leaving a stopped system call out, what it gives, and the calls
//! that newer processors never had, since a later one does the same. One file for each processor.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as this;
#[cfg(target_arch = "x86_64")]
use x86_64 as this;

pub(crate) use this::{OLDER_PATHS, give, leave_out};

/// The call by which this processor's C library does what the name says.
pub mod calls {
    pub use super::this::{ACCESS, DUP2, MKDIR, POLL, READLINK, RENAME};

    /// Those that only this processor's dynamic loader makes.
    pub use super::this::OF_LOADER;
}
