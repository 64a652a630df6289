//! What can go wrong with the lock, as the user reads it: each row has the status, the line and
//! the hint of one failure.

use std::path::Display;

use getgpu_model::causes;

causes! {
    /// Why nothing is taken or asked at the lock.
    pub(crate) enum LockCause<'a> {
        Unusable { path: Display<'a>, why: LockFileFault, remedy: &'a str } => LockPlace:
            "lock {path}: {why}", "{remedy}";
        NotMade { path: Display<'a>, why: String } => LockPlace: "lock {path}: cannot be made: {why}";
        /// It stays open whether the host has a lock, so that a private one must not be used.
        Unseen { path: Display<'a>, why: String } => LockPlace: "{path}: {why}";
        /// fcntl(2): ENOLCK, EIO and the like.
        Fcntl { why: String } => LockPlace: "locking: {why}";
        LostClaim => LockPlace: "the lock was lost while the claim was being confirmed";
        /// A reservation inside a device that is claimed again meanwhile.
        ClaimedAround => NoneFree:
            "another call claims the device that this one was to be reserved inside of", "ask again";
    }

    /// What is wrong with the lock file.
    pub(crate) enum LockFileFault {
        NotOpened { why: String } => "cannot be opened: {why}";
        NotLookedAt { why: String } => "cannot be looked at: {why}";
        Distrusted { why: String } => "{why}";
        DirectoryReplaced => "its directory was replaced while it was opened";
        NotFifo => "it is not a FIFO";
        Foreign { uid: u32 } => "it belongs to uid {uid}, which is neither root nor you";
        Replaced => "it was replaced while in use";
    }
}
