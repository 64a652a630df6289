//! The name under which a waiter reserves. Of several calls with one name only one reserves, and the
//! others are served by the same reservation.

use std::convert::Infallible;

use getgpu_choose::Taken;
use getgpu_model::Failure;

/// A name for what a waiter reserves.
pub trait Name {
    /// A reservation under the name, which another call has made.
    type Same;
    /// Looks for it.
    ///
    /// # Errors
    ///
    /// The name is in use for another request.
    fn find(&mut self) -> Result<Option<Self::Same>, Failure> {
        Ok(None)
    }
    /// Waits for this call's turn at the name, and looks for it then. With the turn no other call
    /// reserves under the name.
    ///
    /// # Errors
    ///
    /// The name is in use for another request, or the lock file cannot be locked.
    fn enter(&mut self) -> Result<Option<Self::Same>, Failure> {
        Ok(None)
    }
    /// Gives the turn back.
    fn leave(&mut self) {}
}

/// No name: no other call reserves for this one.
pub struct Nameless;

impl Name for Nameless {
    type Same = Infallible;
}

/// What a wait has come to.
#[derive(Debug)]
pub enum Served<S> {
    /// Devices, unconfirmed.
    Taken(Taken),
    /// Another call's reservation under the name.
    Same(S),
}
