//! How many attempts in a row a waiter lets fail because NVML does not answer. A driver that is
//! reset under it answers again; one that is gone ends the wait.

use getgpu_model::{Failure, Kind};

/// So many in a row end the wait.
const FAILURES: u32 = 3;

/// How many attempts have failed since the last one that NVML answered.
#[derive(Debug, Default)]
pub struct Tolerance {
    failures: u32,
}

impl Tolerance {
    /// What an attempt came to; none if it has failed and another is due. One that was to list
    /// the node anew is not counted: that is no hurry, and no reason to give up.
    ///
    /// # Errors
    ///
    /// NVML has failed too often, or something else has.
    pub fn judge<T>(
        &mut self,
        attempt: Result<T, Failure>,
        was_listing: bool,
    ) -> Result<Option<T>, Failure> {
        match attempt {
            Ok(outcome) => {
                self.failures = 0;
                Ok(Some(outcome))
            }
            Err(failure) if failure.kind != Kind::Nvml => Err(failure),
            Err(_) if was_listing => Ok(None),
            Err(failure) => {
                self.failures += 1;
                if self.failures < FAILURES {
                    Ok(None)
                } else {
                    Err(failure)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvml_may_fail_twice_between_two_answers() {
        let fails = |kind| Err::<(), _>(Failure::new(kind, "why"));
        let nvml = || fails(Kind::Nvml);
        let mut tolerance = Tolerance::default();
        for _ in 0..3 {
            assert_eq!(tolerance.judge(nvml(), false).unwrap(), None);
            assert_eq!(tolerance.judge(nvml(), false).unwrap(), None);
            for _ in 0..FAILURES {
                assert_eq!(tolerance.judge(nvml(), true).unwrap(), None, "listing");
            }
            assert_eq!(tolerance.judge(Ok(()), false).unwrap(), Some(()));
        }
        assert_eq!(tolerance.judge(nvml(), false).unwrap(), None);
        assert_eq!(tolerance.judge(nvml(), false).unwrap(), None);
        assert_eq!(tolerance.judge(nvml(), false).unwrap_err().kind, Kind::Nvml);
        for was_listing in [false, true] {
            let mut tolerance = Tolerance::default();
            let other = tolerance.judge(fails(Kind::LockPlace), was_listing);
            assert_eq!(other.unwrap_err().kind, Kind::LockPlace);
        }
    }
}
