//! Telling why there is nothing to have now: who holds what. Counting is pure; the names come
//! from the lock.

use std::collections::BTreeMap;

use getgpu_linux::{procfs::namespaces, users};
use getgpu_lock::{OfdLock, Side, Span, holders};
use getgpu_model::{Device, Failure, Job};

use super::offer::Rejected;
use crate::causes::ChooseCause;

/// Why each device of the pool is in use, for the one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectionReport {
    /// How many are in use: by each user, by name, and then for each other reason in its order.
    used: BTreeMap<(usize, String), usize>,
    /// Those of them that are reserved for this user.
    own: usize,
    /// Free, but fewer than are wanted.
    free: usize,
}

impl RejectionReport {
    /// Counts what was rejected; `probe` reads from the lock who has it.
    pub fn take(rejected: &[(Device, Rejected)], probe: &OfdLock) -> Self {
        let mut report = Self::default();
        for (device, why) in rejected {
            let (place, name) = match why {
                Rejected::Free => {
                    report.free += 1;
                    continue;
                }
                Rejected::Kept => (3, "kept for a waiter".to_owned()),
                Rejected::Busy(_) => (4, "other programs".to_owned()),
                Rejected::Unknown(_) => (5, "unknown to NVML".to_owned()),
                Rejected::Unhealthy(_) => (6, "unhealthy".to_owned()),
                Rejected::Taken | Rejected::Tentative | Rejected::NoRoom => {
                    report.holder(probe, Span::of(&device.uuid))
                }
            };
            *report.used.entry((place, name)).or_default() += 1;
        }
        report
    }

    /// The user that leases a device, if the name can be read; else that it is leased, or that it is
    /// reserved or claimed tentatively.
    fn holder(&mut self, probe: &OfdLock, span: Span) -> (usize, String) {
        if probe.conflict(span.lease()).ok().flatten().is_none() {
            let uids = holders::uids(probe, span, Side::Reservation).unwrap_or_default();
            let own = namespaces::host_uid(nix::unistd::geteuid().as_raw());
            self.own += usize::from(uids.contains(&own));
            return (2, "reserved".to_owned());
        }
        let uids = holders::uids(probe, span, Side::Lease).unwrap_or_default();
        let user = uids.first().map(|uid| (0, users::name(*uid)));
        user.unwrap_or_else(|| (1, "leased".to_owned()))
    }

    /// `7 of 7 in use (ana 3, ben 2, reserved 1, other programs 1)`
    fn text(&self) -> String {
        let used: usize = self.used.values().sum();
        let parts = self.used.iter().map(|((_, name), n)| format!("{name} {n}"));
        let parts = parts.collect::<Vec<_>>().join(", ");
        format!("{used} of {} in use ({parts})", used + self.free)
    }

    /// What this user can do, who has reserved some of them.
    pub fn remedy(&self) -> Option<String> {
        let them = match self.own {
            0 => return None,
            1 => "1 of them is",
            many => &format!("{many} of them are"),
        };
        // A shell that pam_slurm_adopt has put into a job is none of its steps.
        let what = match Job::of(std::process::id() as i32) {
            Some(job) => format!(
                "for which step of a job, srun --jobid={} --overlap starts a program in this one",
                job.number()
            ),
            None => "which, getgpu --release-all gives them back".into(),
        };
        Some(format!(
            "{them} reserved for you: getgpu --list --mine shows {what}"
        ))
    }

    /// The failure that says it, and what to do.
    pub fn failure(&self, remedy: &str) -> Failure {
        let used = self.text();
        match self.free {
            0 => ChooseCause::AllInUse { used, remedy }.into(),
            _ => ChooseCause::TooFewFree { used, remedy }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_who() {
        let report = |used: &[(usize, &str, usize)], free| {
            let used = used.iter();
            let used = used.map(|(place, name, n)| ((*place, (*name).to_owned()), *n));
            RejectionReport {
                used: used.collect(),
                own: 0,
                free,
            }
        };
        let used = [
            (4, "other programs", 1),
            (2, "reserved", 1),
            (0, "ben", 2),
            (0, "ana", 3),
        ];
        let text = report(&used, 0).text();
        assert_eq!(
            text,
            "7 of 7 in use (ana 3, ben 2, reserved 1, other programs 1)"
        );
        let some = report(&[(2, "reserved", 3)], 1).failure("").message;
        assert_eq!(some, "too few free devices: 3 of 4 in use (reserved 3)");
    }
}
