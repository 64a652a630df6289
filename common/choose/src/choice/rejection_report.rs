//! Telling why there is nothing to have now: who holds what. Counting is pure; the names come
//! from the lock.

use std::collections::BTreeMap;

use getgpu_linux::{procfs::namespaces, users};
use getgpu_lock::{OfdLock, Side, Span, holders};
use getgpu_model::{Device, Failure, Job, Kind};

use super::offer::Rejected;

/// Why each device of the pool is in use, for the one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectionReport {
    /// Leased devices per user.
    pub users: BTreeMap<String, usize>,
    /// Leased by a user whose name cannot be read.
    pub leased: usize,
    /// Reserved, or claimed tentatively.
    pub reserved: usize,
    /// Those of them that are reserved for this user.
    pub own: usize,
    /// Used by programs that never asked.
    pub other: usize,
    /// NVML would not tell.
    pub unknown: usize,
    /// CUDA cannot or should not start there.
    pub unhealthy: usize,
    /// Kept for a waiter that wants several.
    pub kept: usize,
    /// Free, but fewer than are wanted.
    pub free: usize,
}

impl RejectionReport {
    /// Counts what was rejected; `probe` reads from the lock who has it.
    pub fn take(rejected: &[(Device, Rejected)], probe: &OfdLock) -> Self {
        let mut report = Self::default();
        for (device, why) in rejected {
            match why {
                Rejected::Free => report.free += 1,
                Rejected::Kept => report.kept += 1,
                Rejected::Busy(_) => report.other += 1,
                Rejected::Unknown(_) => report.unknown += 1,
                Rejected::Unhealthy(_) => report.unhealthy += 1,
                Rejected::Taken | Rejected::Tentative | Rejected::NoRoom => {
                    report.count_holder(probe, Span::of(&device.uuid));
                }
            }
        }
        report
    }

    fn count_holder(&mut self, probe: &OfdLock, span: Span) {
        let leased = probe.conflict(span.lease()).ok().flatten().is_some();
        if !leased {
            self.reserved += 1;
            let uids = holders::uids(probe, span, Side::Reservation).unwrap_or_default();
            let own = namespaces::host_uid(nix::unistd::geteuid().as_raw());
            self.own += usize::from(uids.contains(&own));
            return;
        }
        let uids = holders::uids(probe, span, Side::Lease).unwrap_or_default();
        match uids.first() {
            Some(uid) => *self.users.entry(users::name(*uid)).or_default() += 1,
            None => self.leased += 1,
        }
    }

    fn in_use(&self) -> usize {
        self.users.values().sum::<usize>()
            + self.leased
            + self.reserved
            + self.kept
            + self.other
            + self.unknown
            + self.unhealthy
    }

    /// `7 of 7 in use (ana 3, ben 2, reserved 1, other programs 1)`
    pub fn text(&self) -> String {
        let (used, total) = (self.in_use(), self.in_use() + self.free);
        let named = self.users.iter().map(|(user, n)| (user.as_str(), *n));
        let rest = [
            ("leased", self.leased),
            ("reserved", self.reserved),
            ("kept for a waiter", self.kept),
            ("other programs", self.other),
            ("unknown to NVML", self.unknown),
            ("unhealthy", self.unhealthy),
        ];
        let parts: Vec<String> = named
            .chain(rest)
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        format!("{used} of {total} in use ({})", parts.join(", "))
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

    /// The failure that says it.
    pub fn failure(&self) -> Failure {
        let what = if self.free > 0 {
            "too few free devices"
        } else {
            "no free device"
        };
        Failure::new(Kind::NoneFree, format!("{what}: {}", self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_who() {
        let report = |users: &[(&str, usize)], reserved, other, free| RejectionReport {
            users: users
                .iter()
                .map(|(user, count)| ((*user).into(), *count))
                .collect(),
            reserved,
            other,
            free,
            ..RejectionReport::default()
        };
        let text = report(&[("ana", 3), ("ben", 2)], 1, 1, 0).text();
        assert_eq!(
            text,
            "7 of 7 in use (ana 3, ben 2, reserved 1, other programs 1)"
        );
        let some = report(&[], 3, 0, 1).failure().message;
        assert_eq!(some, "too few free devices: 3 of 4 in use (reserved 3)");
    }
}
