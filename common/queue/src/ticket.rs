//! A place in the queue: a write-locked byte, above all others, taken while the dispenser
//! is held. The waiter with no number below its own is the head; a number that is
//! read-locked stands aside (`max_per_user`), and is passed over.

use std::time::Duration;

use getgpu_linux::{Range, procfs::namespaces};
use getgpu_lock::{LockFile, LockResult, OfdLock, layout};
use getgpu_model::Failure;

use super::causes::QueueCause;

/// How long the dispenser is waited for. It is held for microseconds; a process that
/// holds it longer does so out of malice, and is ignored.
const DISPENSER: Duration = Duration::from_secs(1);
/// More waiters than this are not counted.
pub(crate) const MOST: usize = 5000;
/// Who stands further behind is not counted more closely.
const FAR: usize = 100;
/// Between two counts of those before: each of them costs two questions.
const COUNTED_AGAIN: u32 = 16;

/// A place in a queue.
#[derive(Debug)]
pub struct Ticket {
    queue: Range,
    /// The locked number. Without one, since a process holds the last number of the queue,
    /// the waiter looks for itself.
    number: Option<i64>,
    own: OfdLock,
    /// How many waited before this one at the last look.
    place: usize,
    /// How often that was looked at.
    looks: u32,
}

impl Ticket {
    /// Draws the next number of a queue, or of the line for which devices may be kept
    /// (`layout::line_for_several`).
    pub(crate) fn draw(lock_file: &LockFile, queue: Range) -> Result<Self, Failure> {
        let _dispenser = dispenser(lock_file)?;
        Self::next(lock_file, queue)
    }

    /// The same, and the next number of the line for several devices: those who stand in
    /// both have the same order in both.
    pub(crate) fn draw_for_several(
        lock_file: &LockFile,
        queue: Range,
    ) -> Result<(Self, Self), Failure> {
        let _dispenser = dispenser(lock_file)?;
        Ok((
            Self::next(lock_file, queue)?,
            Self::next(lock_file, layout::line_for_several())?,
        ))
    }

    fn next(lock_file: &LockFile, queue: Range) -> Result<Self, Failure> {
        let own = lock_file.open()?;
        if namespaces::host_pids() {
            // So that people can be told who waits.
            let pids = layout::waiter_pids();
            own.try_read(Range::byte(pids.start() + i64::from(std::process::id())))?;
        }
        let number = loop {
            let at = above(&own, queue)?;
            if at >= queue.end() {
                break None;
            }
            if own.try_write(Range::byte(at))? {
                break Some(at);
            }
        };
        Ok(Self {
            queue,
            number,
            own,
            place: FAR,
            looks: 0,
        })
    }

    /// Whether no waiter is before this one.
    pub(crate) fn is_head(&self) -> Result<bool, Failure> {
        Ok(self.head()?.is_none())
    }

    /// The first number before this one: as long as it is the same, its waiter is the head.
    pub(crate) fn head(&self) -> Result<Option<i64>, Failure> {
        self.below()
            .map_or(Ok(None), |below| head(&self.own, below))
    }

    /// How many wait before this one, as far as it matters for the next look: one question
    /// tells, since the kernel answers with the lock that was set first (a lock of a new
    /// description comes last in its list: fs/locks.c, posix_lock_inode), and those who left
    /// out of turn are counted now and then.
    pub(crate) fn place(&mut self) -> Result<usize, Failure> {
        let Some(below) = self.below() else {
            return Ok(0);
        };
        let Some(first) = head(&self.own, below)? else {
            return Ok(0);
        };
        if self.looks.is_multiple_of(COUNTED_AGAIN) {
            self.place = self.own.tentative_locks(below, FAR)?.found.len();
        }
        self.looks = self.looks.wrapping_add(1);
        let apart = usize::try_from(below.end() - first).unwrap_or(FAR);
        self.place = self.place.min(apart).max(1);
        Ok(self.place)
    }

    /// The numbers before this one; none if it is the first or was not to be had.
    fn below(&self) -> Option<Range> {
        Range::between(self.queue.start(), self.number?)
    }

    /// How many wait before this one.
    pub(crate) fn ahead(&self) -> Result<usize, Failure> {
        self.below()
            .map_or(Ok(0), |below| waiting(&self.own, below))
    }

    /// Lets those behind pass.
    pub(crate) fn stand_aside(&self) -> Result<(), Failure> {
        if let Some(number) = self.number {
            self.own.try_read(Range::byte(number))?;
        }
        Ok(())
    }

    /// Takes the place in the queue again; false if another process probes it at this
    /// moment.
    pub(crate) fn stand_again(&self) -> Result<bool, Failure> {
        match self.number {
            Some(number) => Ok(self.own.try_write(Range::byte(number))?),
            None => Ok(true),
        }
    }
}

/// Who draws waits until no other does.
fn dispenser(lock_file: &LockFile) -> Result<OfdLock, Failure> {
    let dispenser = lock_file.open()?;
    dispenser.write_within(layout::dispenser(), DISPENSER)?;
    Ok(dispenser)
}

/// The first number above all that are locked, found by bisection: the kernel answers with any one lock
/// of a range, and a user may have locked every second number.
fn above(own: &OfdLock, queue: Range) -> LockResult<i64> {
    // Something ends at `low`, or the queue begins there; nothing begins at `high` or above.
    let (mut low, mut high) = (queue.start(), queue.end());
    let mut looked_at = Some(queue);
    while let Some(range) = looked_at {
        match own.conflict(range)? {
            Some(found) => low = found.range.end(),
            None => high = range.start(),
        }
        looked_at = Range::between(low + (high - low) / 2, high);
    }
    Ok(low)
}

/// How many calls wait with these numbers, which are those of one queue or of all.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn waiting(probe: &OfdLock, numbers: Range) -> Result<usize, Failure> {
    // Numbers that stand aside are read-locked, and any user can read-lock many.
    Ok(probe.tentative_locks(numbers, MOST)?.found.len())
}

/// The number of the head of a queue: the one of `numbers` that was locked first. `None` if no call
/// waits there.
///
/// # Errors
///
/// The lock file cannot be read.
pub(crate) fn head(probe: &OfdLock, numbers: Range) -> Result<Option<i64>, Failure> {
    Ok(probe.tentative(numbers)?.map(Range::start))
}

/// The failure of a call that does not wait while so many do.
pub fn taken_by(waiting: usize, remedy: &str) -> Failure {
    match waiting {
        1 => QueueCause::OneWaits { remedy }.into(),
        _ => QueueCause::SomeWait { waiting, remedy }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_lock::private_lock;
    use getgpu_lock::layout::ticket_range;

    #[test]
    fn numbers_rise_and_begin_again_when_the_queue_is_empty() {
        let (_directory, lock_file) = private_lock();
        let draw = |queue| Ticket::draw(&lock_file, ticket_range(queue)).unwrap();
        let (a, b, mut c) = (draw(7), draw(7), draw(7));
        let first = a.number.unwrap();
        let numbers = [&a, &b, &c].map(|ticket| ticket.number.unwrap() - first);
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!((a.is_head().unwrap(), c.is_head().unwrap()), (true, false));
        assert_eq!((c.ahead().unwrap(), c.place().unwrap()), (2, 2));
        assert_eq!(draw(8).ahead().unwrap(), 0, "queues are apart");
        drop(b);
        assert_eq!(c.ahead().unwrap(), 1, "who leaves is passed over");
        // A number that was left is not given again before those above it.
        let d = draw(7);
        assert_eq!(d.number, Some(first + 3));
        let probe = lock_file.open().unwrap();
        let heads = [7, 9].map(|queue| head(&probe, ticket_range(queue)).unwrap());
        assert_eq!(heads, [a.number, None]);
        assert_eq!(
            [ticket_range(7), layout::all_tickets()].map(|queue| waiting(&probe, queue).unwrap()),
            [3, 3]
        );
        drop((a, c, d));
        assert_eq!(draw(7).number, Some(first));
    }

    /// Who draws beside another one waits until that one has both numbers: in different orders
    /// two would wait for each other.
    #[test]
    fn numbers_are_drawn_one_after_the_other() {
        let (_directory, lock_file) = private_lock();
        let other = lock_file.open().unwrap();
        assert!(other.try_write(layout::dispenser()).unwrap());
        std::thread::scope(|scope| {
            let draws = [
                scope.spawn(|| Ticket::draw(&lock_file, ticket_range(7)).is_ok()),
                scope.spawn(|| Ticket::draw_for_several(&lock_file, ticket_range(7)).is_ok()),
            ];
            std::thread::sleep(DISPENSER / 10);
            assert!(!draws.iter().any(std::thread::ScopedJoinHandle::is_finished));
            drop(other);
            assert!(draws.into_iter().all(|draw| draw.join().unwrap()));
        });
        for _ in 0..20 {
            let draw = || {
                let drawn =
                    (0..20).map(|_| Ticket::draw_for_several(&lock_file, ticket_range(7)).unwrap());
                drawn.collect::<Vec<_>>()
            };
            let mut drawn = std::thread::scope(|scope| {
                let other = scope.spawn(draw);
                let mut drawn = draw();
                drawn.extend(other.join().unwrap());
                drawn
            });
            drawn.sort_by_key(|(ticket, _)| ticket.number);
            assert!(drawn.is_sorted_by_key(|(_, in_line)| in_line.number));
        }
    }

    #[test]
    fn a_place_falls_with_each_served_and_forgets_those_who_left() {
        let (_directory, lock_file) = private_lock();
        let mut queue: Vec<Ticket> = (0..6)
            .map(|_| Ticket::draw(&lock_file, ticket_range(5)).unwrap())
            .collect();
        let mut last = queue.pop().unwrap();
        assert_eq!(last.place().unwrap(), 5);
        drop(queue.remove(0));
        assert_eq!(last.place().unwrap(), 4, "the head was served");
        queue.drain(1..3);
        let places = (0..COUNTED_AGAIN).map(|_| last.place().unwrap());
        assert_eq!(places.min(), Some(2), "two left from the middle");
        queue.clear();
        assert_eq!(last.place().unwrap(), 0);
    }

    #[test]
    fn who_finds_all_numbers_used_looks_for_itself() {
        let (_directory, lock_file) = private_lock();
        let stranger = lock_file.open().unwrap();
        let top = Range::byte(ticket_range(3).end() - 1);
        assert!(stranger.try_write(top).unwrap());
        let ticket = Ticket::draw(&lock_file, ticket_range(3)).unwrap();
        assert!(ticket.number.is_none() && ticket.is_head().unwrap());
    }

    #[test]
    fn who_stands_aside_is_passed_over_and_may_come_back() {
        let (_directory, lock_file) = private_lock();
        let (a, b) = (
            Ticket::draw(&lock_file, ticket_range(1)).unwrap(),
            Ticket::draw(&lock_file, ticket_range(1)).unwrap(),
        );
        a.stand_aside().unwrap();
        assert_eq!((b.is_head().unwrap(), b.ahead().unwrap()), (true, 0));
        b.stand_aside().unwrap();
        let next = above(&lock_file.open().unwrap(), b.queue).unwrap();
        assert_eq!(Some(next - 1), b.number, "both keep their numbers");
        assert!(b.stand_again().unwrap());
        assert!(a.stand_again().unwrap());
        assert_eq!((b.is_head().unwrap(), b.ahead().unwrap()), (false, 1));
    }
}
