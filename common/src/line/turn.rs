//! Waiting for one's turn, and then for a device: behind others by sleeping on their numbers, as the head by watching the lock.
//! A head that has stopped holds nobody up: those close behind look for themselves, at what it has left alone for a second and more.

use std::time::{Duration, Instant};

use super::memory::{Memory, Rooms};
use super::{Number, Progress};
use crate::error::Failure;
use crate::ident::Uuid;
use crate::line::watch::Watch;
use crate::lock::{Description, Place};
use crate::settings::Wait;

/// Between two looks of those who stand behind; a device is left to the head for as long, and to each further one before.
const TICK: Duration = Duration::from_secs(1);
/// So many stand close behind a head and look for themselves at every tick; NVML is asked by the second as often as by the head.
const CLOSE: usize = 3;
/// The others look, and ask, so often, should all before them have stopped.
const SELDOM: Duration = Duration::from_secs(5);
/// Between two counts of what a user holds who has as many as one may have.
const ASIDE: Duration = Duration::from_millis(250);

/// What came of an attempt.
#[derive(Debug)]
pub enum Tried<F> {
    /// Served.
    Found(F),
    /// Not: the devices that NVML shows in use.
    Busy(Vec<Uuid>),
    /// This user may not have more at the moment.
    OverCap(Failure),
}

/// Somebody who looks for a device.
pub trait Seeker {
    /// What is found.
    type Found;
    /// What has room on the lock now. Takes nothing and asks nobody.
    fn rooms(&mut self, probe: &Description) -> Result<Rooms, Failure>;
    /// The processes that hold what has no room, and whether these are all that do.
    fn holders(&mut self, probe: &Description) -> Result<(Vec<i32>, bool), Failure>;
    /// How many of them are needed.
    fn wanted(&self) -> usize;
    /// How many there are in all, free or not.
    fn total(&self) -> usize;
    /// Tries those that `may` allows, and asks NVML about them.
    fn attempt(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Self::Found>, Failure>;
    /// Whether what is known of the node is so old that an attempt is due for that alone.
    fn stale(&self) -> bool {
        false
    }
    /// Whether this user may have more now.
    fn may_have_more(&mut self, probe: &Description) -> Result<bool, Failure>;
    /// The failure of having waited in vain.
    fn in_vain(&mut self, probe: &Description, waited: Duration) -> Failure;
}

/// One waiter.
pub struct Turn<'a, S: Seeker> {
    place: &'a Place,
    probe: Description,
    number: Number,
    seeker: S,
    memory: Memory,
    progress: Progress,
    limit: Option<Duration>,
    /// Why this user may not have more, while that is so.
    over: Option<Failure>,
    /// When one of those far behind has looked last.
    looked: Instant,
}

impl<'a, S: Seeker> Turn<'a, S> {
    /// Stands in line.
    pub fn new(place: &'a Place, line: u32, seeker: S, progress: Progress, wait: Wait) -> Result<Self, Failure> {
        let limit = match wait {
            Wait::No => Some(Duration::ZERO),
            Wait::For(time) => Some(time),
            Wait::Forever => None,
        };
        let (probe, number) = (place.open()?, Number::draw(place, line)?);
        let (memory, looked) = (Memory::default(), Instant::now());
        Ok(Self { place, probe, number, seeker, memory, progress, limit, over: None, looked })
    }

    /// Waits until served, or until the time is over.
    pub fn wait(mut self) -> Result<S::Found, Failure> {
        let result = self.served();
        self.progress.end(result.is_ok());
        result
    }

    fn served(&mut self) -> Result<S::Found, Failure> {
        loop {
            let served = match self.number.next_below()? {
                Some(below) => self.behind(below)?,
                None => self.head()?,
            };
            if let Some(found) = served {
                return Ok(found);
            }
        }
    }

    fn left(&mut self) -> Result<Duration, Failure> {
        let Some(limit) = self.limit else { return Ok(TICK) };
        match limit.checked_sub(self.progress.waited()).filter(|left| !left.is_zero()) {
            Some(left) => Ok(left),
            None => match self.over.take() {
                Some(over) => Err(over),
                None => Err(self.seeker.in_vain(&self.probe, self.progress.waited())),
            },
        }
    }

    /// Sleeps until the next lower number ends, or for a second.
    fn behind(&mut self, below: i64) -> Result<Option<S::Found>, Failure> {
        let left = self.left()?;
        self.say()?;
        let began = Instant::now();
        self.number.wait_behind(self.place, below, left.min(TICK))?;
        if began.elapsed() < TICK {
            return Ok(None);
        }
        match self.number.few_ahead(CLOSE)? {
            Some(0) => Ok(None),
            // One second for the head, one more for each who stands between.
            Some(ahead) => {
                let patience = TICK * u32::try_from(ahead).unwrap_or(1) - TICK / 4;
                self.look(patience, if ahead == 1 { TICK } else { SELDOM })
            }
            None if self.looked.elapsed() >= SELDOM => {
                self.looked = Instant::now();
                self.look(SELDOM - TICK / 4, SELDOM)
            }
            None => Ok(None),
        }
    }

    /// Watches the lock until served, or until somebody stands before again.
    fn head(&mut self) -> Result<Option<S::Found>, Failure> {
        let mut watch = Watch::new(self.place);
        while self.number.next_below()?.is_none() {
            if let Some(found) = self.look(Duration::ZERO, Duration::ZERO)? {
                return Ok(Some(found));
            }
            if self.over.is_some() {
                self.stand_aside()?;
                return Ok(None);
            }
            let left = self.left()?;
            self.say()?;
            let (pids, all) = self.seeker.holders(&self.probe)?;
            watch.follow(&pids, all);
            watch.wait(self.memory.pause(Instant::now()).map_or(left, |pause| pause.min(left)));
        }
        Ok(None)
    }

    /// One look at the lock, and an attempt if enough devices have room that have not just been found in use: room for so long as
    /// `patience`, and not asked about again before `least`.
    fn look(&mut self, patience: Duration, least: Duration) -> Result<Option<S::Found>, Failure> {
        let rooms = self.seeker.rooms(&self.probe)?;
        let now = Instant::now();
        self.memory.update(&rooms, now);
        let enough = self.memory.count_due(now, patience) >= self.seeker.wanted().max(1);
        let relist = patience.is_zero() && self.seeker.stale();
        if !enough && !relist {
            return Ok(None);
        }
        let memory = &self.memory;
        let tried = self.seeker.attempt(&|uuid| memory.due(uuid, now, patience))?;
        let later = Instant::now();
        match tried {
            Tried::Found(found) => return Ok(Some(found)),
            Tried::OverCap(failure) => self.over = Some(failure),
            Tried::Busy(busy) => {
                for uuid in rooms.free.iter().filter(|uuid| self.memory.due(uuid, now, patience)).collect::<Vec<_>>() {
                    if busy.contains(uuid) {
                        self.memory.busy(uuid, later, least);
                    } else {
                        self.memory.lost(uuid, later);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Lets others pass until this user may have more.
    fn stand_aside(&mut self) -> Result<(), Failure> {
        self.number.stand_aside()?;
        loop {
            let left = self.left()?;
            self.say()?;
            std::thread::sleep(left.min(ASIDE));
            if self.seeker.may_have_more(&self.probe)? && self.number.stand_again()? {
                self.over = None;
                return Ok(());
            }
        }
    }

    fn say(&mut self) -> Result<(), Failure> {
        let (number, seeker, memory, probe) = (&self.number, &mut self.seeker, &mut self.memory, &self.probe);
        let mut ahead = Ok(0);
        self.progress.update(|| {
            ahead = number.ahead();
            let total = seeker.total();
            let free = seeker.rooms(probe).map_or(0, |rooms| memory.idle(&rooms.free));
            (total.saturating_sub(free), total, ahead.as_ref().map_or(0, |ahead| *ahead))
        });
        ahead.map(drop)
    }
}
