//! The turn of those who wait for several devices, or for all of one that others share. For the
//! oldest of them that is the first of its queue, devices that it could use are kept as they become
//! free: others who ask for less would always be faster. One waiter at a time has this turn, so that
//! two cannot hold each a half of what the other wants; with its process all of it ends.

use getgpu_lock::LockFile;
use getgpu_lock::kept::{Count, Marks};
use getgpu_model::{Failure, Uuid};

use super::Ticket;

/// The place in the line for several devices, and what is kept.
#[derive(Debug)]
pub struct KeepingTurn<'l> {
    lock_file: &'l LockFile,
    place: Ticket,
    marks: Option<Marks>,
}

impl<'l> KeepingTurn<'l> {
    /// With this place, and nothing kept yet.
    pub const fn new(lock_file: &'l LockFile, place: Ticket) -> Self {
        Self {
            lock_file,
            place,
            marks: None,
        }
    }

    /// Whether it is this waiter's turn. Only the head of its own queue may ask. A waiter without
    /// `keepable` devices lets those behind it pass.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read or locked.
    pub fn has_turn(&mut self, keepable: &[Uuid]) -> Result<bool, Failure> {
        if keepable.is_empty() {
            self.stand_aside()?;
            return Ok(false);
        }
        Ok(self.stand_again()? && self.place.is_head()?)
    }

    /// Keeps these devices, with a sign of life.
    ///
    /// # Errors
    ///
    /// The lock file cannot be opened or locked.
    pub fn keep(&mut self, keepable: Vec<Uuid>, count: Count) -> Result<(), Failure> {
        if let Some(marks) = &mut self.marks {
            if marks.is_of(&keepable, count) {
                return marks.beat();
            }
            marks.make_room()?;
        }
        // Those before are given up only when these are set.
        self.marks = Some(Marks::set(self.lock_file, keepable, count)?);
        Ok(())
    }

    /// How much of what it wants is kept now, if it is this waiter's turn.
    pub fn count(&self) -> Option<Count> {
        self.marks.as_ref().map(Marks::count)
    }

    /// Keeps nothing.
    pub fn rest(&mut self) {
        self.marks = None;
    }

    /// Keeps nothing and lets those behind pass.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked.
    pub fn stand_aside(&mut self) -> Result<(), Failure> {
        self.rest();
        self.place.stand_aside()
    }

    /// Takes the place again; false if another process probes it at this moment.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked.
    pub fn stand_again(&self) -> Result<bool, Failure> {
        self.place.stand_again()
    }
}

#[cfg(test)]
#[path = "keeping_tests.rs"]
mod tests;
