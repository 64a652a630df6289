//! The documented exit statuses of the three programs (man page section EXIT STATUS). A
//! failure carries its [`crate::error::Kind`]; each program maps that to a number here
//! alone.

use crate::error::Kind;

/// Done, or the program's own status.
pub const OK: i32 = 0;
/// cudawrap's status when no device is free now (`EX_TEMPFAIL` of sysexits.h: retrying
/// helps).
pub(crate) const CUDAWRAP_NONE_FREE: i32 = 75;
/// cudawrap's status for its own failures, as env(1) and timeout(1) have it.
pub const CUDAWRAP_FAILED: i32 = 125;
/// The program was found and cannot be run.
pub(crate) const CANNOT_RUN: i32 = 126;
/// The program was not found.
pub(crate) const NOT_FOUND: i32 = 127;

/// getgpu: 1 retry helps, 2 usage or settings, 3 retrying cannot cure it, 4 no lock place
/// or no holder.
pub fn getgpu(kind: Kind) -> i32 {
    match kind {
        Kind::NoneFree | Kind::Refused => 1,
        Kind::Usage => 2,
        Kind::NoDriver | Kind::NoUsableGpu | Kind::NoGrant | Kind::NoDevice | Kind::Nvml => 3,
        Kind::LockPlace => 4,
        Kind::CannotRun => CANNOT_RUN,
        Kind::NotFound => NOT_FOUND,
    }
}

/// cudawrap: 75 none free, 126 and 127 for the program, 125 for everything else.
pub fn cudawrap(kind: Kind) -> i32 {
    match kind {
        Kind::NoneFree => CUDAWRAP_NONE_FREE,
        Kind::CannotRun => CANNOT_RUN,
        Kind::NotFound => NOT_FOUND,
        _ => CUDAWRAP_FAILED,
    }
}

/// create-cudawrap: 2 usage or settings, 1 refused or failed.
pub fn create_cudawrap(kind: Kind) -> i32 {
    if kind == Kind::Usage { 2 } else { 1 }
}
