//! Where the path of a lock came from, which decides who may own and make it.

/// Where a lock path came from; decides who may own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host's lock, or the one that the system settings name: root's.
    Host,
    /// GETGPU_LOCK: root's or the caller's.
    Environment,
    /// No lock of the host exists: the caller's own.
    Private,
}
