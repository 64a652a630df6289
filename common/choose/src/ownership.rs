//! What a call owns already: one decision, pure over what was read from the kernel, for
//! getgpu and cudawrap alike. The reading is at the end of the file; proof is always
//! fdinfo, and without proof a device belongs to another user.

use std::ops::RangeInclusive;

use getgpu_linux::{
    OwnLock,
    procfs::{ancestry, fdinfo},
};
use getgpu_lock::{HolderArgs, HolderProcess, LockFile, Span, occupancy, ownership_proof};
use getgpu_model::{Failure, Job, Units, Uuid};

use crate::causes::ChooseCause;

/// How a call came to own something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Descriptors with a lease, inherited from the process that executed this one.
    InheritedLease,
    /// A lease of an ancestor with this process's uid, whose descriptors were not inherited.
    AncestorLease,
    /// A reservation of this process's uid.
    Reservation(Box<HolderProcess>),
}

/// A reservation that the call may own, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnReservation {
    holder: HolderProcess,
    /// The devices, with the units of each that are proven.
    devices: Vec<(Uuid, Units)>,
    /// Generations from this process up to the one that it was made for; `usize::MAX` for
    /// one that is no ancestor.
    distance: usize,
    /// Whether another program has a lease on its units.
    in_use: bool,
    /// Whether it is the part of another batch job.
    of_other_job: bool,
}

impl OwnReservation {
    /// What it has of every device of the grant; `None` if it lacks one of them.
    fn cover(&self, grant: &[Uuid]) -> Option<Cover> {
        Cover::of(
            Basis::Reservation(Box::new(self.holder.clone())),
            grant,
            |uuid| {
                let held = self.devices.iter().find(|(known, _)| known == uuid);
                held.map(|(_, units)| units.clone()).unwrap_or_default()
            },
        )
    }

    /// The lowest is used.
    fn order(&self, cover: &Cover) -> impl Ord + use<> {
        // The smallest is the innermost: a second `$(getgpu)` under a first.
        let units: i64 = cover.devices.iter().map(|(_, units)| units.count()).sum();
        // A process takes its lease inside what was reserved for it.
        let is_lease = self.holder.args.lessee().is_some();
        (
            self.of_other_job,
            self.distance,
            !is_lease,
            self.in_use,
            self.devices.len(),
            units,
        )
    }

    /// Whether it is one program's part of another reservation that this call owns too. It is not
    /// divided any further: a call that asks for a share takes it from the outer one.
    fn is_for_one_program(&self, cover: &Cover, covering: &[(&Self, Cover)]) -> bool {
        self.holder.args.is_plain() && covering.iter().any(|(_, outer)| outer.encloses(cover))
    }

    /// Whether it is a part of a device that belongs to a sibling, so that this call looks for room
    /// beside it and does not choose inside it. Several tasks with one grant each reserve a part of the
    /// grant's device, and none of these parts is what the grant came from.
    fn is_a_siblings_part(&self, cover: &Cover, question: &OwnershipQuestion<'_>) -> bool {
        let held_for_another = self.holder.args.held_for().is_some() && self.distance == usize::MAX;
        let part = cover.devices.iter().any(|(_, units)| !units.is_whole());
        part && (!question.by_uuid || held_for_another)
    }
}

/// What the call asks for.
pub(crate) struct OwnershipQuestion<'a> {
    /// The devices of the grant.
    pub grant: &'a [Uuid],
    /// The grant names them by their full UUIDs, as getgpu prints them.
    pub(crate) by_uuid: bool,
    /// How many different devices.
    pub counts: RangeInclusive<usize>,
    /// Whether a share of each is asked for.
    pub share: bool,
    /// Whether all of these units of a device are wanted, and not a part of them.
    pub(crate) wants_all: &'a dyn Fn(&Uuid, &Units) -> bool,
}

/// Which parts of a grant's devices this call owns already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// How this call came to own it.
    pub basis: Basis,
    /// Every device of the grant, with our units of it.
    pub devices: Vec<(Uuid, Units)>,
}

/// What a call does about what it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It owns nothing of this: it chooses among what is free for all.
    Nothing,
    /// It wants all that it owns: nothing is chosen. getgpu prints it again, cudawrap
    /// leases it.
    All(Cover),
    /// It wants fewer devices, or less of them, than it owns: it chooses inside.
    Inside(Cover),
}

impl Decision {
    /// The parts of the grant that this call owns already.
    pub fn cover(self) -> Option<Cover> {
        match self {
            Self::All(cover) | Self::Inside(cover) => Some(cover),
            Self::Nothing => None,
        }
    }
}

impl OwnershipQuestion<'_> {
    /// Whether the request is for exactly this cover. A range (`-n 2..4`) joins all of a lease; inside a
    /// reservation it is a choice, since other programs may have some of its devices.
    fn is_for_all(&self, cover: &Cover) -> bool {
        let mut devices = cover.devices.iter();
        let is_open = self.counts.start() != self.counts.end();
        self.counts.contains(&cover.devices.len())
            && !(is_open && cover.is_reservation())
            && devices.all(|(uuid, units)| (self.wants_all)(uuid, units))
    }

    fn decided(&self, cover: Cover) -> Decision {
        if self.is_for_all(&cover) {
            Decision::All(cover)
        } else {
            Decision::Inside(cover)
        }
    }
}

/// Decides among reservations. The one made for the nearest ancestor comes first, then one that is not
/// used yet, then the smallest; the parts of this user's other batch jobs come last.
fn decide(question: &OwnershipQuestion<'_>, reservations: &[OwnReservation]) -> Decision {
    let covering = reservations.iter();
    let covering = covering.filter_map(|one| Some((one, one.cover(question.grant)?)));
    let covering: Vec<(&OwnReservation, Cover)> = covering.collect();
    let around = covering.iter().filter(|(one, cover)| {
        let for_one_program = question.share && one.is_for_one_program(cover, &covering);
        !for_one_program && (question.is_for_all(cover) || !one.is_a_siblings_part(cover, question))
    });
    let first = around.min_by_key(|(one, cover)| one.order(cover));
    first.map_or(Decision::Nothing, |(_, cover)| {
        question.decided(cover.clone())
    })
}

impl Cover {
    /// With these units of every device of the grant; `None` if a device has none.
    fn of(basis: Basis, grant: &[Uuid], units: impl Fn(&Uuid) -> Units) -> Option<Self> {
        let devices: Vec<_> = grant
            .iter()
            .map(|uuid| (uuid.clone(), units(uuid)))
            .collect();
        let has_all = devices.iter().all(|(_, units)| !units.is_empty());
        (has_all && !devices.is_empty()).then_some(Self { basis, devices })
    }

    /// Whether it is a reservation, so that the lease ranges of its units are free for
    /// one program.
    pub const fn is_reservation(&self) -> bool {
        matches!(self.basis, Basis::Reservation(_))
    }

    /// Whether it has all that `inner` has, and more of each device.
    fn encloses(&self, inner: &Self) -> bool {
        inner.devices.iter().all(|(uuid, units)| {
            self.units(uuid).is_some_and(|around| {
                units.difference(around).is_empty() && !around.difference(units).is_empty()
            })
        })
    }

    /// Our units of a device.
    pub fn units(&self, uuid: &Uuid) -> Option<&Units> {
        let mut devices = self.devices.iter();
        devices
            .find(|(known, _)| known == uuid)
            .map(|(_, units)| units)
    }

    /// Confirms, after something inside was confirmed, that the enclosing reservation or
    /// lease survived. If it ended before that, another program may have been given the
    /// device in between.
    ///
    /// # Errors
    ///
    /// It has ended: nothing inside it may be used.
    pub fn confirm(&self, lock_file: &LockFile) -> Result<(), Failure> {
        if self.stands(lock_file) {
            return Ok(());
        }
        Err(ChooseCause::ReservationEnded.into())
    }

    /// Whether the enclosing reservation or lease is there.
    pub fn stands(&self, lock_file: &LockFile) -> bool {
        match &self.basis {
            // This process has the descriptors itself, so the lease lasts as long as it does.
            Basis::InheritedLease => true,
            Basis::AncestorLease => {
                let locks = ownership_proof::ancestors_locks();
                self.devices.iter().all(|(uuid, units)| {
                    let leased = ownership_proof::leased(&locks, lock_file, uuid);
                    units.difference(&leased).is_empty()
                })
            }
            Basis::Reservation(holder) => ownership_proof::proven(lock_file, holder),
        }
    }
}

/// Reads what this call may own of the devices of a grant, the cheap evidence first, and
/// decides.
///
/// `lease_of`: a process that asks for a lease of its own (`HolderArgs::is_lease_beside`).
pub(crate) fn of_grant(
    lock_file: &LockFile,
    question: &OwnershipQuestion<'_>,
    lease_of: Option<i32>,
) -> Decision {
    // A lease comes first: a program that runs under one was given just that. This process has leased
    // nothing yet, so that a lease among its own locks is inherited.
    let lease = |basis, locks: &[OwnLock]| {
        let leased = |uuid: &Uuid| ownership_proof::leased(locks, lock_file, uuid);
        Cover::of(basis, question.grant, leased)
    };
    let inherited = lease(Basis::InheritedLease, &fdinfo::confirmed_locks("self"));
    let around = || lease(Basis::AncestorLease, &ownership_proof::ancestors_locks());
    match inherited.or_else(around) {
        Some(leased) => question.decided(leased),
        None => decide(question, &reservations(lock_file, question.grant, lease_of)),
    }
}

/// Which of these devices are held as long as what this call comes from runs: by a lease of an
/// ancestor, or by a reservation that is held for one.
pub fn held_around(lock_file: &LockFile, devices: &[Uuid]) -> Vec<Uuid> {
    let lineage = ancestry::lineage();
    let locks = ownership_proof::own_and_ancestors_locks();
    let uid = nix::unistd::geteuid().as_raw();
    let holds = ownership_proof::reservations(lock_file, Some(uid), &|args: &HolderArgs| {
        let held_for = args.held_for();
        held_for.is_some_and(|process| lineage.iter().any(|(pid, _)| *pid == process.pid))
    });
    let is_held = |uuid: &&Uuid| {
        holds.iter().any(|hold| hold.args.devices.contains(uuid))
            || !ownership_proof::leased(&locks, lock_file, uuid).is_empty()
    };
    devices.iter().filter(is_held).cloned().collect()
}

fn reservations(
    lock_file: &LockFile,
    grant: &[Uuid],
    lease_of: Option<i32>,
) -> Vec<OwnReservation> {
    let lineage = ancestry::lineage();
    let (uid, job) = (nix::unistd::geteuid().as_raw(), Job::own());
    let holders = ownership_proof::reservations(lock_file, Some(uid), &|args: &HolderArgs| {
        grant.iter().all(|uuid| args.devices.contains(uuid))
            // What the process of a lease has left behind has an ordinary reservation.
            && (args.has_outlived_its_hold() || !args.is_lease_beside(&lineage, lease_of))
            && !job.as_ref().is_some_and(|job| args.is_of_task_beside(job))
    });
    let probe = lock_file.open().ok();
    let is_of_other_job = |args: &HolderArgs| match (args.job_of_part(), &job) {
        (Some(part), Some(job)) => part != job.number(),
        _ => false,
    };
    let holders = holders.into_iter();
    holders
        .map(|holder| {
            let devices = ownership_proof::reserved(lock_file, &holder);
            let in_use = devices.iter().any(|(uuid, units)| {
                let probe = probe.as_ref().filter(|_| grant.contains(uuid));
                let leased = |probe| occupancy::any_held(probe, units, Span::of(uuid).lease());
                // What cannot be asked counts as leased.
                probe.is_some_and(|probe| leased(probe).unwrap_or(true))
            });
            OwnReservation {
                distance: holder.args.distance(&lineage),
                in_use,
                of_other_job: is_of_other_job(&holder.args),
                devices,
                holder,
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
