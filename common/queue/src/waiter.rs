//! Waiting for one's turn, and then for a device, by looking at the lock: the head often,
//! those behind the more seldom the further they are. A head that has stopped delays no
//! other: those behind look for themselves, at what it has left alone for a second and
//! more.

use std::time::{Duration, Instant};

use super::keeping::KeepingTurn;
use super::outlook::Outlook;
use super::progress::Standing;
use super::retry_schedule::RetrySchedule;
use super::seeker::{Seeker, Tried};
use super::{Patience, Progress, Ticket, stalled_head};
use getgpu_linux::{Range, run_clock};
use getgpu_lock::{LockFile, OfdLock, kept, layout};
use getgpu_model::{Failure, Uuid};

/// Between two looks of the head, and of the others for each who waits before them.
const POLL: Duration = Duration::from_millis(10);
/// The same while the queue moves: when many devices become free one after the other, each new
/// head has to notice quickly that it is one.
const POLL_WHILE_MOVING: Duration = Duration::from_millis(2);
/// The queue counts as moving for this time after a waiter's place has changed.
const MOVING: Duration = Duration::from_secs(1);
/// Between two looks at most.
const SELDOM: Duration = Duration::from_secs(1);
/// The second in the queue searches this often for devices that the head leaves alone; the third
/// half as often, and so on, so that those before it can have them first.
const STALLED: Duration = Duration::from_secs(1);
/// Waiters behind this place search as often as the one at it.
const FURTHEST: u32 = 5;
/// How long an outlook that is shown on a terminal is not computed anew.
const OUTLOOK: Duration = Duration::from_secs(10);
/// Pause between two counts of what a user at the limit holds.
const ASIDE: Duration = Duration::from_millis(250);

/// A place in the queue, and the search that goes on when its turn has come.
pub struct Waiter<'l, S: Seeker> {
    lock_file: &'l LockFile,
    /// Whether devices may be kept for it.
    may_keep: bool,
    probe: OfdLock,
    ticket: Ticket,
    /// Of one that asks for several devices; of one that asks for all of a device, once it has seen
    /// that some are shared.
    keeping: Option<KeepingTurn<'l>>,
    seeker: S,
    schedule: RetrySchedule,
    progress: Progress,
    patience: Patience,
    /// How many waited before this one at the last look, and when that has changed.
    place: Option<usize>,
    moved: Option<Instant>,
    /// When devices may become free, and when that was found out.
    outlook: Option<(Instant, Outlook)>,
    /// Why this user might not have more at the last attempt.
    over: Option<Failure>,
    /// When a keeper has last counted what its user holds.
    counted: Option<Instant>,
    /// When it has last looked for devices that a stalled head leaves alone.
    searched: Instant,
    /// How many devices had room at the last look and were not found in use.
    room: usize,
}

impl<'l, S: Seeker> Waiter<'l, S> {
    /// Takes a place in the queue.
    ///
    /// # Errors
    ///
    /// The lock file cannot be opened or locked.
    pub fn new(
        lock_file: &'l LockFile,
        queue: Range,
        seeker: S,
        progress: Progress,
        patience: Patience,
    ) -> Result<Self, Failure> {
        // A call that waits only for what lingers keeps nothing from others.
        let may_keep = seeker.keeps() && patience.failure.is_none();
        let (ticket, keeping) = if may_keep && seeker.wanted() > 1 {
            let (ticket, place) = Ticket::draw_for_several(lock_file, queue)?;
            (ticket, Some(KeepingTurn::new(lock_file, place)))
        } else {
            (Ticket::draw(lock_file, queue)?, None)
        };
        Ok(Self {
            lock_file,
            may_keep,
            probe: lock_file.open()?,
            ticket,
            keeping,
            seeker,
            schedule: RetrySchedule::default(),
            progress,
            patience,
            place: None,
            moved: None,
            outlook: None,
            over: None,
            counted: None,
            searched: Instant::now(),
            room: 0,
        })
    }

    /// Waits until served, or until the time has run out.
    ///
    /// # Errors
    ///
    /// The time has run out, or what waiting cannot cure.
    pub fn wait(mut self) -> Result<S::Found, Failure> {
        let result = self.served();
        self.progress.end(result.is_ok());
        result
    }

    fn served(&mut self) -> Result<S::Found, Failure> {
        loop {
            if let Some(found) = self.seeker.settled()? {
                return Ok(found);
            }
            if self.over.is_some() {
                self.stand_aside()?;
                continue;
            }
            let place = self.ticket.place()?;
            if self.place.is_some_and(|before| place < before) {
                self.moved = Some(Instant::now());
            }
            self.place = Some(place);
            let served = match place {
                0 => self.head()?,
                _ => self.behind(u32::try_from(place).unwrap_or(u32::MAX))?,
            };
            if let Some(found) = served {
                return Ok(found);
            }
        }
    }

    fn left(&mut self) -> Result<Duration, Failure> {
        let Some(limit) = self.patience.limit else {
            return Ok(SELDOM);
        };
        let left = limit.saturating_sub(self.progress.waited());
        if !left.is_zero() {
            return Ok(left);
        }
        if self.patience.extensions > 0 {
            self.patience.extensions -= 1;
            if let Some(extension) = self.seeker.extension(&self.probe)? {
                self.patience.limit = Some(self.progress.waited() + extension);
                return Ok(extension);
            }
        }
        let failure = self.patience.failure.take().or_else(|| self.over.take());
        Err(failure.unwrap_or_else(|| self.seeker.in_vain(&self.probe, self.progress.waited())))
    }

    /// Sleeps until the next look. A stalled head is looked for instead when that is due.
    fn behind(&mut self, place: u32) -> Result<Option<S::Found>, Failure> {
        let left = self.left()?;
        if let Some(keeping) = &mut self.keeping {
            keeping.stand_aside()?;
            self.seeker.take_kept(false);
        }
        self.say()?;
        let place_searched = place.min(FURTHEST);
        if self.searched.elapsed() >= STALLED * place_searched {
            let found = self.search_behind_stalled_head(place_searched);
            self.searched = Instant::now();
            return found;
        }
        run_clock::sleep(self.pause().saturating_mul(place).min(SELDOM).min(left));
        Ok(None)
    }

    fn pause(&self) -> Duration {
        let is_moving = self.moved.is_some_and(|moved| moved.elapsed() < MOVING);
        if is_moving { POLL_WHILE_MOVING } else { POLL }
    }

    /// Tries what has had room for a while without a waiter before this one trying it.
    /// Each leaves more time to those who wait before.
    fn search_behind_stalled_head(&mut self, place: u32) -> Result<Option<S::Found>, Failure> {
        let wanted = self.seeker.wanted();
        self.seeker.look_at_keeper(&self.probe)?;
        let (ticket, seeker, probe) = (&self.ticket, &mut self.seeker, &self.probe);
        let free = || {
            // The head tries devices itself and needs no search.
            if ticket.is_head()? {
                return Ok(Vec::new());
            }
            Ok(seeker.availability(probe)?.free)
        };
        let time = stalled_head::ALONE * place;
        let alone = stalled_head::alone(|| ticket.head(), free, wanted, time)?;
        if alone.is_empty() {
            return Ok(None);
        }
        self.search(&|uuid| alone.contains(uuid))
    }

    /// One look at the lock by the first of the queue, and a pause.
    fn head(&mut self) -> Result<Option<S::Found>, Failure> {
        let keepable = if self.may_keep {
            self.seeker.keepable(&self.probe)?
        } else {
            Vec::new()
        };
        if self.keeping.is_none() && !keepable.is_empty() {
            let place = Ticket::draw(self.lock_file, layout::line_for_several())?;
            self.keeping = Some(KeepingTurn::new(self.lock_file, place));
        }
        let has_turn = match &mut self.keeping {
            Some(keeping) => keeping.has_turn(&keepable)?,
            None => false,
        };
        self.seeker.take_kept(has_turn);
        if let Some(found) = self.search(&|_| true)? {
            return Ok(Some(found));
        }
        if has_turn && self.over.is_none() {
            self.over = self.over_limit()?;
        }
        if self.over.is_some() {
            return Ok(None);
        }
        if let Some(keeping) = &mut self.keeping {
            let wanted = self.seeker.wanted();
            let has = self.room.min(wanted);
            match has_turn {
                true => keeping.keep(keepable, kept::Count { has, wanted })?,
                false => keeping.rest(),
            }
        }
        let left = self.left()?;
        self.say()?;
        let due = self.schedule.pause(Instant::now()).unwrap_or(left);
        run_clock::sleep(due.min(self.pause()).min(left));
        Ok(None)
    }

    /// Why this user may not have more: nothing is kept for one who may not have it. Counted now and
    /// then, since the user may start other programs meanwhile.
    fn over_limit(&mut self) -> Result<Option<Failure>, Failure> {
        if self
            .counted
            .is_some_and(|counted| counted.elapsed() < ASIDE)
        {
            return Ok(None);
        }
        self.counted = Some(Instant::now());
        self.seeker.over_limit(&self.probe)
    }

    /// One look at the lock, and an attempt if enough devices that `may` be tried have
    /// room and have not just been found in use.
    fn search(&mut self, may: &dyn Fn(&Uuid) -> bool) -> Result<Option<S::Found>, Failure> {
        self.over = None;
        let availability = self.seeker.availability(&self.probe)?;
        let now = Instant::now();
        self.schedule.update(&availability, now);
        self.room = self.schedule.idle(&availability.free);
        let due: Vec<Uuid> = availability
            .free
            .iter()
            .filter(|uuid| may(uuid) && self.schedule.due(uuid, now))
            .cloned()
            .collect();
        if due.len() < self.seeker.wanted().max(1) && !self.seeker.stale() {
            return Ok(None);
        }
        let tried = self.seeker.attempt(&|uuid| due.contains(uuid))?;
        let later = Instant::now();
        match tried {
            Tried::Taken(found) => return Ok(Some(found)),
            Tried::OverCap(failure) => self.over = Some(failure),
            Tried::NoneFree(in_use) => {
                for uuid in &due {
                    if !in_use.contains(uuid) {
                        self.schedule.lost(uuid, later);
                    } else if self.seeker.is_silent(uuid) {
                        self.schedule.silent(uuid, later);
                    } else {
                        self.schedule.busy(uuid, later);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Lets those behind pass for a moment, and takes the places again as soon as this user may have
    /// more.
    fn stand_aside(&mut self) -> Result<(), Failure> {
        self.ticket.stand_aside()?;
        if let Some(keeping) = &mut self.keeping {
            keeping.stand_aside()?;
        }
        let left = self.left()?;
        self.say()?;
        run_clock::sleep(left.min(ASIDE));
        if self.seeker.over_limit(&self.probe)?.is_none() && self.stand_again()? {
            self.over = None;
        }
        Ok(())
    }

    /// Takes the places again, each as soon as no other process probes it.
    fn stand_again(&self) -> Result<bool, Failure> {
        let keeping = self.keeping.as_ref().map(KeepingTurn::stand_again);
        Ok(keeping.transpose()?.unwrap_or(true) && self.ticket.stand_again()?)
    }

    fn say(&mut self) -> Result<(), Failure> {
        if self.progress.is_due() {
            let standing = self.standing()?;
            self.progress.say(&standing);
        }
        Ok(())
    }

    fn standing(&mut self) -> Result<Standing, Failure> {
        if let Some(over) = &self.over {
            return Ok(Standing::OverLimit(over.message.clone()));
        }
        if let Some(trouble) = self.seeker.trouble() {
            return Ok(Standing::Trouble(trouble));
        }
        let known = self.outlook.filter(|(at, _)| at.elapsed() < OUTLOOK);
        let (at, outlook) =
            known.unwrap_or_else(|| (Instant::now(), self.seeker.outlook(&self.probe)));
        self.outlook = Some((at, outlook));
        let free = self.seeker.availability(&self.probe)?.free;
        let total = self.seeker.total();
        Ok(Standing::Queued {
            used: total.saturating_sub(self.schedule.idle(&free)),
            total,
            ahead: self.ticket.ahead()?,
            kept: self.keeping.as_ref().and_then(KeepingTurn::count),
            outlook,
        })
    }
}

#[cfg(test)]
#[path = "waiter_tests.rs"]
mod tests;
