//! What a waiter looks for: the questions that it asks of a search, whether that is among the
//! devices of the node or for those that a grant names.

use std::time::Duration;

use crate::Availability;
use crate::outlook::Outlook;
use getgpu_choose::ChoiceOutcome;
use getgpu_lock::OfdLock;
use getgpu_model::{Failure, Uuid};

/// What came of an attempt of a waiter, which looks for an `F`: else the devices that NVML shows in
/// use, or does not tell about.
pub type Tried<F> = ChoiceOutcome<F, Vec<Uuid>>;

/// A call that looks for a device.
pub trait Seeker {
    /// What the search is for.
    type Found;
    /// What has room on the lock now. Takes nothing and does not ask NVML.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    fn availability(&mut self, probe: &OfdLock) -> Result<Availability, Failure>;
    /// How many of them are needed.
    fn wanted(&self) -> usize;
    /// How many there are in all, free or not.
    fn total(&self) -> usize;
    /// Tries those that `may` allows, and asks NVML about them.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked, or what waiting cannot cure.
    fn attempt(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Self::Found>, Failure>;
    /// What ends the wait without an attempt; looked for before each step.
    ///
    /// # Errors
    ///
    /// It cannot be looked for, or the wait is in vain.
    fn settled(&mut self) -> Result<Option<Self::Found>, Failure> {
        Ok(None)
    }
    /// Whether the GPU of a device does not answer.
    fn is_silent(&self, _uuid: &Uuid) -> bool {
        false
    }
    /// Whether what is known of the node is so old that an attempt is due for that alone.
    fn stale(&self) -> bool {
        false
    }
    /// Why the node gives no device now, where it is worked on.
    fn trouble(&self) -> Option<String> {
        None
    }
    /// How long to wait on for devices that are about to become free; none if none are.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    fn extension(&mut self, _probe: &OfdLock) -> Result<Option<Duration>, Failure> {
        Ok(None)
    }
    /// Whether devices may ever be kept for it: others who ask for less would always be faster.
    fn keeps(&self) -> bool {
        false
    }
    /// The devices that are kept for this waiter; none where that is no use.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    fn keepable(&mut self, _probe: &OfdLock) -> Result<Vec<Uuid>, Failure> {
        Ok(Vec::new())
    }
    /// Looks until it knows whether what is kept for another waiter is to be left alone, for a
    /// waiter that looks seldom.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    fn look_at_keeper(&mut self, _probe: &OfdLock) -> Result<(), Failure> {
        Ok(())
    }
    /// Whether what is kept is kept for this waiter.
    fn take_kept(&mut self, _is_keeper: bool) {}
    /// When those that are held may become free.
    fn outlook(&self, probe: &OfdLock) -> Outlook;
    /// Why this user may not have more now, if the limit is in the way.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    fn over_limit(&mut self, probe: &OfdLock) -> Result<Option<Failure>, Failure>;
    /// The failure of having waited in vain.
    fn in_vain(&mut self, probe: &OfdLock, waited: Duration) -> Failure;
}
