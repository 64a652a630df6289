//! The end of a call that could not run its program: the line, the hint, and the documented status.

use getgpu_common::diag::Diag;
use getgpu_common::error::Failure;
use getgpu_common::exit;

/// Says what went wrong and gives the exit status.
pub fn end(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::cudawrap(failure.kind)
}
