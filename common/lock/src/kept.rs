//! Devices that are kept for one waiter: a read lock on a byte of each, which says to others
//! that they leave the device alone. Nothing is taken by it, and it ends with the waiter's
//! process. The waiter shows that it is alive by a byte that it locks for reading and for writing
//! in turns. A call that sees no change there for a while ignores what the waiter keeps.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Held, LockFile, OfdLock, Span, layout};
use getgpu_linux::procfs::namespaces;
use getgpu_linux::{Range, Stat};
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
/// Process ids lie below (`PID_MAX_LIMIT`).
const PIDS: i64 = 1 << 22;

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
    /// `3 of 8 kept`
    pub fn text(self) -> String {
        format!("{} of {} kept", self.has, self.wanted)
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
        self.beat = match self.beat {
            Held::Confirmed if self.description.try_write(own_byte())? => Held::Tentative,
            Held::Confirmed => Held::Confirmed,
            Held::Tentative => {
                self.description.try_read(own_byte())?;
                Held::Confirmed
            }
        };
        Ok(())
    }
}

/// The byte of this process.
fn own_byte() -> Range {
    let pid = std::process::id();
    let at = if namespaces::host_pids() {
        i64::from(pid)
    } else {
        let stat = i32::try_from(pid).ok().and_then(Stat::read);
        let started = stat.map_or(0, |stat| stat.start);
        place_in_container(namespaces::pid_namespace(), pid, started)
    };
    Range::byte(layout::keeper().start() + at)
}

/// The place of a process in the upper half, where the ids of the host are not known. Programs in
/// different containers often have the same id, and would count as one keeper.
fn place_in_container(namespace: u64, pid: u32, started: u64) -> i64 {
    let hash = layout::fnv1a(format!("{namespace}:{pid}:{started}").as_bytes());
    PIDS + ((hash ^ (hash >> 22)) & (PIDS as u64 - 1)) as i64
}

/// The waiter that devices are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Its byte: different for each process.
    pub byte: i64,
    beat: Held,
}

impl Keeper {
    /// Who it is now, if any.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn now(probe: &OfdLock) -> Result<Option<Self>, Failure> {
        let byte = probe.conflict(layout::keeper())?;
        Ok(byte.map(|conflict| Self {
            byte: conflict.range.start() - layout::keeper().start(),
            beat: conflict.held,
        }))
    }

    /// Its process id, if that is one of the host's.
    pub fn pid(self) -> Option<i32> {
        i32::try_from(self.byte)
            .ok()
            .filter(|pid| i64::from(*pid) < PIDS)
    }

    /// How far it is, as it says itself.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn count(probe: &OfdLock) -> Result<Count, Failure> {
        let bytes = |region: Range| -> Result<usize, Failure> {
            let told = probe.conflict(region)?;
            let len = told.map_or(0, |conflict| conflict.range.end() - region.start());
            Ok(usize::try_from(len).unwrap_or(0))
        };
        Ok(Count {
            has: bytes(layout::keeper_has())?,
            wanted: bytes(layout::keeper_wants())?,
        })
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
        let still = match self.seen {
            Some(still)
                if still.keeper == keeper
                    && now.saturating_duration_since(still.last) <= MISSED =>
            {
                Still {
                    last: now,
                    looks: still.looks.saturating_add(1),
                    ..still
                }
            }
            _ => Still {
                keeper,
                since: now,
                last: now,
                looks: 1,
            },
        };
        self.seen = Some(still);
        still.looks < LOOKS || now.saturating_duration_since(still.since) < STILL
    }

    /// The same for a waiter that looks too seldom to see the signs of life: it looks until it
    /// sees one, or knows that none comes.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn gives_way_after_looking(&mut self, probe: &OfdLock) -> Result<bool, Failure> {
        self.seen = None;
        let first = Keeper::now(probe)?;
        loop {
            let keeper = Keeper::now(probe)?;
            if !self.gives_way(keeper, Instant::now()) {
                return Ok(false);
            }
            if keeper != first {
                return Ok(true);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether the keeper shows no sign of life, for a call that does not wait: it looks until it
/// sees one.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn has_stopped(probe: &OfdLock) -> Result<bool, Failure> {
    Ok(!Courtesy::default().gives_way_after_looking(probe)?)
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
