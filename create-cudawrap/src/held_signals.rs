//! Signals that a person or a batch system sends wait while a plan is done or taken back:
//! it takes milliseconds, and must not stop half way.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Blocks these signals until it is dropped.
pub struct HeldSignals(Option<SigSet>);

impl HeldSignals {
    pub fn hold() -> Self {
        let set: SigSet = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ]
        .into_iter()
        .collect();
        Self(set.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // Fails for no mask that was in force before.
            let _ = before.thread_set_mask();
        }
    }
}
