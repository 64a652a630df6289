//! Devices that are kept for one waiter: a read lock on a byte of each, which says to others
//! that they leave the device alone. Nothing is taken by it, and it ends with the waiter's
//! process. A waiter that is stopped keeps nothing from others: the kernel tells its state. Of one that
//! this process may not look at, a byte tells it that the waiter locks for reading and for writing in
//! turns, and that shows no change for a while.

use std::time::{Duration, Instant};

use serde::Serialize;

pub use super::keeper::{Keeper, Liveness};

use super::keeper::own_byte;
use super::{Held, LockFile, OfdLock, Span, layout};
use getgpu_linux::Range;
use getgpu_model::{Failure, Uuid};

/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(200);
/// The waiter counts as stopped after this time, and [`LOOKS`] looks, without one.
const STILL: Duration = Duration::from_millis(1300);
/// How many looks at it these are at least.
const LOOKS: u32 = 20;
/// A waiter that has not looked for longer may have missed signs of life.
const MISSED: Duration = Duration::from_millis(400);
/// Between two looks of a call that does nothing else meanwhile.
const PAUSE: Duration = Duration::from_millis(5);

/// What a waiter keeps, until this is dropped.
#[derive(Debug)]
pub struct Marks {
    description: OfdLock,
    devices: Vec<Uuid>,
    count: Count,
    beat: Held,
    beaten: Instant,
}

/// How many devices a waiter has of those that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Free now, and kept for it.
    pub has: usize,
    /// How many it asks for.
    pub wanted: usize,
}

impl Count {
    /// How far the keeper is, as it says itself.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn told(probe: &OfdLock) -> Result<Self, Failure> {
        let bytes = |region: Range| -> Result<usize, Failure> {
            let told = probe.conflict(region)?;
            let len = told.map_or(0, |conflict| conflict.range.end() - region.start());
            Ok(usize::try_from(len).unwrap_or(0))
        };
        Ok(Self {
            has: bytes(layout::keeper_has())?,
            wanted: bytes(layout::keeper_wants())?,
        })
    }

    /// `3 of 8 kept`; of one that wants all of a device that others share still, that it is kept.
    pub fn text(self) -> String {
        match self.wanted {
            1 => "a shared device is kept".to_owned(),
            _ => format!("{} of {} kept", self.has, self.wanted),
        }
    }
}

impl Marks {
    /// Marks these devices. A byte that another process has locked is passed over, and its device
    /// is not kept.
    ///
    /// # Errors
    ///
    /// The lock file cannot be opened or locked.
    pub fn set(lock_file: &LockFile, devices: Vec<Uuid>, count: Count) -> Result<Self, Failure> {
        let description = lock_file.open()?;
        for uuid in &devices {
            description.try_read(Span::of(uuid).kept())?;
        }
        let told = [
            (layout::keeper_wants(), count.wanted),
            (layout::keeper_has(), count.has),
        ];
        for (region, count) in told {
            let count = i64::try_from(count).unwrap_or(i64::MAX).min(region.len());
            if let Some(range) = Range::new(region.start(), count) {
                description.try_read(range)?;
            }
        }
        description.try_read(own_byte())?;
        Ok(Self {
            description,
            devices,
            count,
            beat: Held::Confirmed,
            beaten: Instant::now(),
        })
    }

    /// Whether it keeps just these and says so.
    pub fn is_of(&self, devices: &[Uuid], count: Count) -> bool {
        self.devices == devices && self.count == count
    }

    /// How far the waiter is.
    pub const fn count(&self) -> Count {
        self.count
    }

    /// Makes room for other marks of this process, which are set before these are dropped: as long
    /// as these write-lock the byte, the other marks cannot show a sign of life on it.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked.
    pub fn make_room(&mut self) -> Result<(), Failure> {
        self.description.try_read(own_byte())?;
        self.beat = Held::Confirmed;
        Ok(())
    }

    /// A sign of life, when it is due.
    ///
    /// # Errors
    ///
    /// The lock file cannot be locked.
    pub fn beat(&mut self) -> Result<(), Failure> {
        if self.beaten.elapsed() < BEAT {
            return Ok(());
        }
        self.beaten = Instant::now();
        if self.beat == Held::Tentative {
            // A sign of life is the change from one lock to the other; this one also makes room.
            return self.make_room();
        }
        if self.description.try_write(own_byte())? {
            self.beat = Held::Tentative;
        }
        Ok(())
    }
}

/// Which keeper a waiter gives way to, over many looks. Pure: the clock is a parameter.
#[derive(Debug, Default)]
pub struct Courtesy {
    /// The first keeper that it has given way to.
    first: Option<i64>,
    seen: Option<Still>,
}

/// Since when a keeper shows the same.
#[derive(Clone, Copy, Debug)]
struct Still {
    keeper: Keeper,
    since: Instant,
    last: Instant,
    looks: u32,
}

impl Courtesy {
    /// Whether it leaves alone what is kept for `keeper`: each waiter gives way to one, so
    /// that no sequence of large requests keeps it waiting for ever, and to none that has
    /// stopped.
    pub fn gives_way(&mut self, keeper: Option<Keeper>, now: Instant) -> bool {
        let Some(keeper) = keeper else {
            // A mark that no waiter answers for.
            self.seen = None;
            return false;
        };
        if *self.first.get_or_insert(keeper.byte) != keeper.byte {
            return false;
        }
        match keeper.liveness {
            Liveness::Tries => return true,
            Liveness::Stopped => return false,
            Liveness::Unseen => {}
        }
        let is_same = |still: &Still| {
            still.keeper == keeper && now.saturating_duration_since(still.last) <= MISSED
        };
        let still = self.seen.filter(is_same).unwrap_or(Still {
            keeper,
            since: now,
            last: now,
            looks: 0,
        });
        let looks = still.looks.saturating_add(1);
        self.seen = Some(Still {
            last: now,
            looks,
            ..still
        });
        looks < LOOKS || now.saturating_duration_since(still.since) < STILL
    }

    /// The same for a waiter that looks too seldom to see the signs of life: it looks until it
    /// sees one, or knows that none comes.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn gives_way_after_looking(
        &mut self,
        lock_file: &LockFile,
        probe: &OfdLock,
    ) -> Result<bool, Failure> {
        self.seen = None;
        let first = Keeper::seen(lock_file, probe)?;
        loop {
            let keeper = Keeper::seen(lock_file, probe)?;
            if !self.gives_way(keeper, Instant::now()) {
                return Ok(false);
            }
            if keeper != first || keeper.is_some_and(|one| one.liveness == Liveness::Tries) {
                return Ok(true);
            }
            getgpu_linux::run_clock::sleep(PAUSE);
        }
    }
}

/// Whether the keeper is stopped, for a call that does not wait: it looks until it knows.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn has_stopped(lock_file: &LockFile, probe: &OfdLock) -> Result<bool, Failure> {
    Ok(!Courtesy::default().gives_way_after_looking(lock_file, probe)?)
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
