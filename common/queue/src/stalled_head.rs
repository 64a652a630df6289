//! Devices that no waiter of the queue takes: all of them have been stopped, and must not
//! keep others from a free device. A head that is alive shows itself, since it tries
//! every device that has room once a second, and keeps it while it asks NVML.

use std::time::{Duration, Instant};

use super::{availability, head};
use getgpu_choose::Owned;
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure, Uuid};

/// A device counts as left alone after it had room, without even a tentative claim, for this time.
pub const ALONE: Duration = Duration::from_millis(1300);
/// Between two looks: a tentative claim lasts for some milliseconds at least.
const PAUSE: Duration = Duration::from_millis(1);
/// What the time since the last look counts for at most: on a busy machine looks are seldom, and
/// so are those of the head.
const LOOK: Duration = Duration::from_millis(10);

/// Of these devices those that are free and that no waiter for the same request takes, for a call
/// that does not wait: as many as are `wanted`, or none.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn left_alone<'d>(
    probe: &OfdLock,
    request: &Owned,
    devices: impl Iterator<Item = &'d Device> + Clone,
    wanted: usize,
) -> Result<Vec<Uuid>, Failure> {
    let free = || Ok(availability(probe, request, devices.clone())?.free);
    alone(|| head(probe, request.queue()), free, wanted, ALONE)
}

/// Asks for the devices with room for `time`, or longer on a busy machine, and gives those that had
/// room at every look. Stops with none as soon as they are fewer than `wanted`, and as soon as
/// `head` is another one: in a queue that moves each new head takes one device and tries no other.
///
/// # Errors
///
/// Those of `head` and `availability`.
pub fn alone(
    head: impl Fn() -> Result<Option<i64>, Failure>,
    mut availability: impl FnMut() -> Result<Vec<Uuid>, Failure>,
    wanted: usize,
    time: Duration,
) -> Result<Vec<Uuid>, Failure> {
    let first = head()?;
    let mut alone = availability()?;
    let (mut looked, mut counted) = (Instant::now(), Duration::ZERO);
    while alone.len() >= wanted.max(1) {
        if counted >= time {
            return Ok(alone);
        }
        getgpu_linux::run_clock::sleep(PAUSE);
        let now = availability()?;
        if head()? != first {
            break;
        }
        alone.retain(|uuid| now.contains(uuid));
        counted += looked.elapsed().min(LOOK);
        looked = Instant::now();
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn one_try_is_a_sign_of_life() {
        let uuid =
            |n: u32| Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap();
        let (both, one) = (vec![uuid(1), uuid(2)], vec![uuid(2)]);
        // Long enough for a second look on a machine that has other things to do.
        let time = Duration::from_millis(300);
        let stalled = |wanted| {
            let mut looks = 0;
            let tried_once = || {
                looks += 1;
                Ok(if looks == 2 { &one } else { &both }.clone())
            };
            alone(|| Ok(None), tried_once, wanted, time)
        };
        assert_eq!(stalled(1), Ok(one.clone()));
        assert_eq!(stalled(2), Ok(Vec::new()), "fewer than are wanted");
    }

    #[test]
    fn looks_that_are_seldom_count_for_less_time() {
        let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
        let mut looks = 0;
        let seldom = || {
            looks += 1;
            std::thread::sleep(5 * LOOK);
            Ok(vec![uuid.clone()])
        };
        assert_eq!(
            alone(|| Ok(Some(7)), seldom, 1, 4 * LOOK),
            Ok(vec![uuid.clone()])
        );
        assert_eq!(looks, 5);
    }

    #[test]
    fn a_queue_that_moves_has_no_stalled_head() {
        let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
        for (later, expected) in [
            (Some(1), vec![uuid.clone()]),
            (Some(2), vec![]),
            (None, vec![]),
        ] {
            let heads = RefCell::new(vec![later, Some(1)]);
            let head = || {
                let mut heads = heads.borrow_mut();
                Ok(if heads.len() > 1 {
                    heads.pop().flatten()
                } else {
                    later
                })
            };
            let free = || Ok(vec![uuid.clone()]);
            assert_eq!(alone(head, free, 1, 2 * PAUSE), Ok(expected));
        }
    }
}
