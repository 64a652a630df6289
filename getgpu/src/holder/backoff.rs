//! How long the holder pauses between two looks for its program: shortly at first, when
//! the program is about to appear, then longer and longer. A look that is dear, because
//! the caller has a thousand processes, is followed by a longer pause.

use std::time::Duration;

/// The shortest and the longest pause.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(500);
/// A pause is one part in so many of the time since the device was printed. A program
/// that runs for a larger part of that time is seen, also on a machine so busy that the
/// shell starts it late.
const PART_OF_TIME: u32 = 16;
/// Looks take at most one part in so many of a processor.
const PART_OF_PROCESSOR: u32 = 20;
/// For so long after printing only the delay before the program counts.
pub const CLOSELY: Duration = Duration::from_millis(20);

/// The pause at a time since the device was printed, after a look that took `last` of a
/// processor.
pub fn pause(since_printed: Duration, last: Duration) -> Duration {
    let pause = (since_printed / PART_OF_TIME).clamp(SHORTEST, LONGEST);
    if since_printed < CLOSELY {
        return pause;
    }
    pause.max((last * PART_OF_PROCESSOR).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::pause;
    use std::time::Duration;

    #[test]
    #[rustfmt::skip]
    fn pauses_grow_with_time_and_with_the_cost_of_a_look() {
        let ms = Duration::from_millis;
        for (since, last, expected) in [
            (ms(0), ms(0), Duration::from_micros(500)),
            (ms(16), ms(4), ms(1)),
            (ms(160), ms(0), ms(10)),
            (ms(160), ms(1), ms(20)),
            (ms(1600), ms(4), ms(100)),
            (ms(60_000), ms(0), ms(500)),
            (ms(60_000), ms(100), ms(500)),
        ] {
            assert_eq!(pause(since, last), expected, "{since:?} {last:?}");
        }
    }
}
