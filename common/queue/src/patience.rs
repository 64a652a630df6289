//! How long a waiter waits, and what it is told when that was in vain. Of a call that did not ask
//! to wait, only until reservations that linger have ended.

use std::time::Duration;

use getgpu_model::Failure;
use getgpu_settings::Wait;

/// How long a waiter waits.
#[derive(Clone, Debug)]
pub struct Patience {
    /// `None`: without end.
    pub(crate) limit: Option<Duration>,
    /// How often it waits on for reservations that linger when the limit has passed.
    pub(crate) extensions: u32,
    /// What a caller that did not ask to wait is told when the wait was in vain.
    pub(crate) failure: Option<Failure>,
}

impl From<Wait> for Patience {
    fn from(wait: Wait) -> Self {
        Self {
            limit: wait.0,
            extensions: 0,
            failure: None,
        }
    }
}
