//! How long the holder pauses between two looks at /proc: short at first, when its
//! program is about to appear, then longer. A look at the caller's processes that is
//! dear, because there are a thousand of them, is followed by a longer pause.

use std::time::Duration;

/// The longest pause. A program that starts late and exits within it can be missed.
const LONGEST: Duration = Duration::from_millis(500);
/// Looks take one part in so many of a processor.
const PART: u32 = 20;

/// Pauses between looks: 5 ms, doubling, half a second at most; and twenty times what the
/// last look took of a processor.
#[derive(Debug)]
pub struct Backoff(Duration);

impl Backoff {
    /// From the start.
    pub const fn new() -> Self {
        Self(Duration::from_millis(5))
    }

    /// The next pause, behind a look that took `last` of a processor.
    pub fn next(&mut self, last: Duration) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        pause.max((last * PART).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn they_double_and_follow_what_a_look_costs() {
        let ms = Duration::from_millis;
        let mut pauses = Backoff::new();
        let told: Vec<Duration> = (0..9).map(|_| pauses.next(ms(0))).collect();
        assert_eq!(told, [5, 10, 20, 40, 80, 160, 320, 500, 500].map(ms));
        let mut pauses = Backoff::new();
        assert_eq!(
            [ms(1), ms(4), ms(0), ms(100)].map(|last| pauses.next(last)),
            [20, 80, 20, 500].map(ms)
        );
    }
}
