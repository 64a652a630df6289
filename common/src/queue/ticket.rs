//! A place in the queue: a write-locked byte, above all others, taken while the dispenser
//! is held. Whoever has no number below is the head; a number that is read-locked stands
//! aside (`max_per_user`), and is passed over.

use std::time::{Duration, Instant};

use crate::error::{Failure, Kind};
use crate::lock::{Held, LockFile, LockResult, OfdLock, Range, layout};
use crate::procfs::namespaces;
use crate::queue::interrupt_timer::InterruptTimer;

/// How long the dispenser is waited for. It is held for microseconds; whoever holds it
/// longer does so out of malice, and is passed by.
const DISPENSER: Duration = Duration::from_secs(1);
/// More waiters than this are not counted.
const MOST: usize = 5000;
/// Between two questions about the next lower number where there is no timer.
const POLL: Duration = Duration::from_millis(20);
/// How far below the next number is looked for first.
const NEAR: i64 = 8;

/// A place in a queue.
#[derive(Debug)]
pub struct Ticket {
    queue: Range,
    at: i64,
    /// Whether the number is locked. Without one, since somebody holds the last number of
    /// the queue, the waiter looks for itself.
    drawn: bool,
    own: OfdLock,
    /// To wait on others with: a lock that was got by waiting is given up by closing it.
    other: Option<OfdLock>,
}

impl Ticket {
    /// Draws the next number of a queue.
    pub fn draw(lock_file: &LockFile, queue: u32) -> Result<Self, Failure> {
        let queue = layout::numbers(queue);
        let dispenser = lock_file.open()?;
        dispenser.write_within(layout::dispenser(), DISPENSER)?;
        let own = lock_file.open()?;
        if namespaces::host_pids() {
            // So that people can be told who waits.
            let pids = layout::waiter_pids();
            own.try_read(Range::byte(pids.start() + i64::from(std::process::id())))?;
        }
        loop {
            let at = above(&own, queue)?;
            if at >= queue.end() {
                return Ok(Self {
                    queue,
                    at,
                    drawn: false,
                    own,
                    other: None,
                });
            }
            if own.try_write(Range::byte(at))? {
                return Ok(Self {
                    queue,
                    at,
                    drawn: true,
                    own,
                    other: None,
                });
            }
        }
    }

    /// Draws a number if there was none to draw.
    pub fn redraw(&mut self) -> Result<(), Failure> {
        if !self.drawn {
            self.at = above(&self.own, self.queue)?;
            self.drawn = self.at < self.queue.end() && self.own.try_write(Range::byte(self.at))?;
        }
        Ok(())
    }

    /// The next lower number that waits.
    pub fn next_below(&self) -> Result<Option<i64>, Failure> {
        if self.drawn {
            self.below(self.at)
        } else {
            Ok(None)
        }
    }

    /// The highest number below `at` that waits. Looked for nearby first, since the
    /// kernel walks past every lock on the file to answer.
    fn below(&self, at: i64) -> Result<Option<i64>, Failure> {
        for reach in [NEAR, i64::MAX] {
            let lowest = at.saturating_sub(reach).max(self.queue.start());
            let near = Range::between(lowest, at);
            let highest = near.map_or(Ok(None), |near| {
                bisect(near, |range| self.own.tentative(range))
            })?;
            if highest.is_some() || lowest == self.queue.start() {
                return Ok(highest.map(|end| end - 1));
            }
        }
        Ok(None)
    }

    /// How many wait before this one.
    pub fn ahead(&self) -> Result<usize, Failure> {
        Range::between(self.queue.start(), self.at).map_or(Ok(0), |below| count(&self.own, below))
    }

    /// The same, if it is not more than `most`; counted downwards from here.
    pub fn few_ahead(&self, most: usize) -> Result<Option<usize>, Failure> {
        let mut walker = self.at;
        for count in 0..=most {
            match self.below(walker)? {
                Some(below) => walker = below,
                None => return Ok(Some(count)),
            }
        }
        Ok(None)
    }

    /// Waits until number `below` is given up or stands aside, for `tick` at most. Then
    /// all has to be looked at again.
    pub fn wait_behind(
        &mut self,
        lock_file: &LockFile,
        below: i64,
        tick: Duration,
    ) -> Result<(), Failure> {
        let other = match self.other.take() {
            Some(other) => other,
            None => lock_file.open()?,
        };
        let range = Range::byte(below);
        let ended = match InterruptTimer::start(tick) {
            Some(_ticker) => other.wait_for(range, Held::Confirmed)?,
            // Without a timer: asked again and again.
            None => {
                let began = Instant::now();
                let mut ended = other.try_read(range)?;
                while !ended && began.elapsed() < tick {
                    std::thread::sleep(POLL.min(tick));
                    ended = other.try_read(range)?;
                }
                ended
            }
        };
        if !ended {
            self.other = Some(other);
        }
        Ok(())
    }

    /// Lets those behind pass.
    pub fn stand_aside(&self) -> Result<(), Failure> {
        if !self.drawn {
            return Ok(());
        }
        self.own.try_read(Range::byte(self.at))?;
        Ok(())
    }

    /// Takes the place in the queue again; false if somebody looks at it at this moment.
    pub fn stand_again(&self) -> Result<bool, Failure> {
        Ok(!self.drawn || self.own.try_write(Range::byte(self.at))?)
    }
}

/// The first number above all that are locked.
fn above(own: &OfdLock, queue: Range) -> Result<i64, Failure> {
    let any = |range| Ok(own.conflict(range)?.map(|conflict| conflict.range));
    Ok(bisect(queue, any)?.unwrap_or(queue.start()))
}

/// The end of the highest of the ranges that `some` answers with, some of those in its
/// argument; none if there are none. In 2 log2(n) questions whatever there is, since
/// anybody may have locked every second number.
fn bisect(
    range: Range,
    some: impl Fn(Range) -> LockResult<Option<Range>>,
) -> LockResult<Option<i64>> {
    let Some(first) = some(range)? else {
        return Ok(None);
    };
    // Something ends at `low`; nothing begins at `high` or above.
    let (mut low, mut high) = (first.end(), range.end());
    while low < high {
        let middle = low + (high - low) / 2;
        match Range::between(middle, high).map_or(Ok(None), &some)? {
            Some(found) => low = found.end(),
            None => high = middle,
        }
    }
    Ok(Some(low))
}

/// How many wait: in one queue, or in all.
pub fn waiting(probe: &OfdLock, queue: Option<u32>) -> Result<usize, Failure> {
    count(
        probe,
        queue.map_or_else(layout::all_numbers, layout::numbers),
    )
}

/// The failure of somebody who does not wait while so many do.
pub fn taken_by(waiting: usize) -> Failure {
    let who = if waiting == 1 {
        "1 is waiting".to_owned()
    } else {
        format!("{waiting} are waiting")
    };
    Failure::new(Kind::NoneFree, format!("no free device: {who}"))
}

fn count(probe: &OfdLock, range: Range) -> Result<usize, Failure> {
    // Numbers that stand aside are read-locked, and anybody can read-lock many.
    Ok(probe.tentative_locks(range, MOST)?.found.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::claim::tests::private_directory;

    fn lock_file(dir: &tempfile::TempDir) -> LockFile {
        LockFile::find(Some(dir.path().join("lock")), None).unwrap()
    }

    #[test]
    fn numbers_rise_and_begin_again_when_the_line_is_empty() {
        let dir = private_directory();
        let lock_file = lock_file(&dir);
        let draw = |line| Ticket::draw(&lock_file, line).unwrap();
        let (a, b, c) = (draw(7), draw(7), draw(7));
        assert_eq!((b.at - a.at, c.at - b.at), (1, 1));
        assert_eq!(
            (a.next_below().unwrap(), c.next_below().unwrap()),
            (None, Some(b.at))
        );
        assert_eq!(
            (c.ahead().unwrap(), draw(8).ahead().unwrap()),
            (2, 0),
            "lines are apart"
        );
        assert_eq!(
            (
                c.few_ahead(2).unwrap(),
                c.few_ahead(1).unwrap(),
                a.few_ahead(0).unwrap()
            ),
            (Some(2), None, Some(0))
        );
        drop(b);
        assert_eq!(
            c.next_below().unwrap(),
            Some(a.at),
            "who leaves is passed over"
        );
        let d = draw(7);
        assert_eq!(
            d.at,
            c.at + 1,
            "a number that was left is not given again before those above it"
        );
        let probe = lock_file.open().unwrap();
        assert_eq!(
            (
                waiting(&probe, Some(7)).unwrap(),
                waiting(&probe, None).unwrap()
            ),
            (3, 3)
        );
        let first = a.at;
        drop((a, c, d));
        assert_eq!(draw(7).at, first);
    }

    #[test]
    fn the_next_one_is_found_however_far_below_it_is() {
        let dir = private_directory();
        let lock_file = lock_file(&dir);
        let line = layout::numbers(5);
        let low = line.start() + 100;
        let held = lock_file.open().unwrap();
        assert!(held.try_write(Range::byte(low)).unwrap());
        for gap in [1, NEAR, NEAR + 1, 1024, 1025, 1_000_000] {
            let number = Ticket {
                queue: line,
                at: low + gap,
                drawn: true,
                own: lock_file.open().unwrap(),
                other: None,
            };
            assert_eq!(
                (number.next_below().unwrap(), number.few_ahead(3).unwrap()),
                (Some(low), Some(1)),
                "{gap}"
            );
        }
    }

    #[test]
    fn who_stands_aside_is_passed_over_and_may_come_back() {
        let dir = private_directory();
        let lock_file = lock_file(&dir);
        let (a, b) = (
            Ticket::draw(&lock_file, 1).unwrap(),
            Ticket::draw(&lock_file, 1).unwrap(),
        );
        a.stand_aside().unwrap();
        assert_eq!((b.next_below().unwrap(), b.ahead().unwrap()), (None, 0));
        assert!(a.stand_again().unwrap());
        assert_eq!(b.next_below().unwrap(), Some(a.at));
    }

    #[test]
    fn waiting_ends_with_the_number_or_with_the_tick() {
        let dir = private_directory();
        let lock_file = lock_file(&dir);
        let a = Ticket::draw(&lock_file, 1).unwrap();
        let mut b = Ticket::draw(&lock_file, 1).unwrap();
        b.wait_behind(&lock_file, a.at, Duration::from_millis(20))
            .unwrap();
        assert_eq!(b.next_below().unwrap(), Some(a.at), "the tick came first");
        let at = a.at;
        let leaver = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(a);
        });
        // One wake-up, however long the tick.
        b.wait_behind(&lock_file, at, Duration::from_secs(60))
            .unwrap();
        leaver.join().unwrap();
        assert_eq!(b.next_below().unwrap(), None);
    }
}
