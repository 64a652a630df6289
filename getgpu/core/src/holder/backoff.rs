//! How long the holder pauses between two looks for its program: shortly at first, when
//! the program is about to appear, then longer and longer. Looks that are expensive,
//! because the caller has a thousand processes, are followed by longer pauses.

use std::time::Duration;

/// The shortest and the longest pause.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(500);
/// A pause is one part in so many of the time since the device was printed. A program
/// that runs for a larger part of that time is seen, also on a machine so busy that the
/// shell starts it late.
const PART_OF_TIME: u32 = 16;
/// Looks take at most one part in so many of a processor, counted from `GRACE` before
/// printing, so that the first looks are not held up.
const PART_OF_PROCESSOR: u32 = 20;
const GRACE: Duration = Duration::from_secs(2);

/// The pause at a time since the device was printed, when looks have taken `spent` of a
/// processor.
pub fn pause(since_printed: Duration, spent: Duration) -> Duration {
    let due = (spent * PART_OF_PROCESSOR).saturating_sub(since_printed + GRACE);
    let pause = (since_printed / PART_OF_TIME).max(due);
    pause.clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::{SHORTEST, pause};
    use std::time::Duration;

    #[test]
    #[rustfmt::skip]
    fn pauses_grow_with_time_and_with_the_cost_of_looks() {
        let ms = Duration::from_millis;
        for (since, spent, expected) in [
            (ms(0), ms(0), SHORTEST),
            (ms(16), ms(40), ms(1)),
            (ms(160), ms(0), ms(10)),
            (ms(160), ms(120), ms(240)),
            (ms(1600), ms(150), ms(100)),
            (ms(60_000), ms(0), ms(500)),
            (ms(60_000), ms(10_000), ms(500)),
        ] {
            assert_eq!(pause(since, spent), expected, "{since:?} {spent:?}");
        }
    }
}
