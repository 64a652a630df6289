//! Signals that are held back from this thread for a moment, such as while a decision that
//! others wait for is made (pthread_sigmask(3)).

use nix::sys::signal::{SigSet, SigmaskHow};

/// Puts the mask of signals back when it is dropped.
#[derive(Debug)]
pub struct BlockedSignals(SigSet);

impl BlockedSignals {
    /// Holds these signals back; none if that is refused.
    pub fn of(signals: &SigSet) -> Option<Self> {
        let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        before.ok().map(Self)
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}
