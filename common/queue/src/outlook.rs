//! What a waiter may expect, as far as it is known: since when the device that is held for
//! longest is held, and when the first hold with a time limit ends. Nothing is guessed.

use getgpu_choose::Owned;
use getgpu_lock::{Holder, LockFile, OfdLock, Span, holders};
use getgpu_model::{
    Device,
    quantity::{between, unix_seconds},
};

/// Since when devices are held, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Since when the first of them is held, in Unix seconds.
    pub(crate) held_since: Option<u64>,
    /// When the next of them may end, in Unix seconds.
    pub ends_at: Option<u64>,
}

impl Outlook {
    /// Of these devices. Those whose holders cannot be read say nothing, nor do those that the call
    /// owns, since what it owns them by is a holder too.
    pub fn of<'d>(
        lock_file: &LockFile,
        probe: &OfdLock,
        request: &Owned,
        devices: impl Iterator<Item = &'d Device>,
    ) -> Self {
        let held = devices
            .filter(|_| request.cover.is_none())
            .filter_map(|d| holders::holdings(lock_file, probe, Span::of(&d.uuid)).ok());
        let holders: Vec<Holder> = held.flat_map(|held| held.holders).collect();
        Self {
            held_since: holders.iter().filter_map(|holder| holder.since).min(),
            ends_at: holders.iter().filter_map(|holder| holder.until).min(),
        }
    }

    /// `, longest held for 2 h, one ends in 45 min`; nothing where nothing is known.
    pub fn text(self) -> String {
        let now = unix_seconds();
        let held = self.held_since;
        let held = held.map(|since| format!(", longest held for {}", between(since, now)));
        let ends = self.ends_at;
        let ends = ends.map(|until| format!(", one ends in {}", between(now, until)));
        held.unwrap_or_default() + &ends.unwrap_or_default()
    }
}
