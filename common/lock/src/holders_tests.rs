//! What a listing says of a device, by the locks on it.

use super::*;
use crate::claim::tests::private_lock;
use getgpu_model::Uuid;

/// Locks of a description each.
type Locks<'a> = &'a [(Held, Range)];

/// Whether a reservation is a hold, when it ends at the latest, and its name.
type Described = (bool, Option<u64>, Option<&'static str>);

const UUID: &str = "MIG-0d1e2f30-1111-5222-8333-444455556666";

fn span() -> Span {
    Span::of(&Uuid::parse(UUID).unwrap())
}

/// A holder of this user with these words.
fn process<'a>(words: impl IntoIterator<Item = &'a str>) -> HolderProcess {
    HolderProcess {
        pid: std::process::id() as i32,
        start: 0,
        args: HolderArgs::parse(words).unwrap(),
    }
}

/// A part of a region, in quarters.
fn quarters(region: Range, from: i64, to: i64) -> Range {
    let quarter = UNITS / 4;
    Range::between(
        region.start() + from * quarter,
        region.start() + to * quarter,
    )
    .unwrap()
}

/// Locks a range by a description of its own.
fn held(lock_file: &LockFile, held: Held, range: Range) -> OfdLock {
    let lock = lock_file.open().unwrap();
    let is_locked = match held {
        Held::Tentative => lock.try_write(range),
        Held::Confirmed => lock.try_read(range),
    };
    assert_eq!(is_locked, Ok(true));
    lock
}

#[test]
fn a_listing_counts_what_is_confirmed_and_marks_what_is_tentative() {
    use Held::{Confirmed, Tentative};
    let (lease, reservation, kept) = (span().lease(), span().reservation(), span().kept());
    let part = quarters;
    #[rustfmt::skip]
    let cases: [(&str, Locks<'_>, [i64; 3], &str); 11] = [
        ("free", &[], [0, 0, 0], ""),
        ("one program has all of it", &[(Confirmed, lease)], [4, 0, 4], "whole"),
        ("two have halves", &[(Confirmed, part(lease, 0, 2)), (Confirmed, part(lease, 2, 4))], [4, 0, 4], ""),
        ("reserved", &[(Confirmed, reservation)], [0, 4, 4], ""),
        ("a part of a reservation runs", &[(Confirmed, reservation), (Confirmed, part(lease, 1, 2))], [1, 4, 4], ""),
        ("parts overlap", &[(Confirmed, part(reservation, 0, 2)), (Confirmed, part(lease, 1, 3))], [2, 2, 3], ""),
        ("a call tries to lease it", &[(Tentative, lease)], [0, 0, 0], "tentative claimed"),
        ("a call tries to reserve it", &[(Tentative, reservation)], [0, 0, 0], "tentative claimed"),
        ("one tries beside a program", &[(Confirmed, part(lease, 0, 1)), (Tentative, part(lease, 1, 4))], [1, 0, 1], "tentative"),
        ("kept for a waiter", &[(Confirmed, kept)], [0, 0, 0], "kept"),
        ("kept, and not free yet", &[(Confirmed, kept), (Confirmed, part(lease, 0, 1))], [1, 0, 1], ""),
    ];
    for (name, locks, units, marks) in cases {
        let (_directory, lock_file) = private_lock();
        let locks: Vec<_> = locks
            .iter()
            .map(|(how, range)| held(&lock_file, *how, *range))
            .collect();
        let found = holdings(&lock_file, &lock_file.open().unwrap(), span()).unwrap();
        let counted = [found.leased, found.reserved, found.used];
        assert_eq!(counted, units.map(|part| part * (UNITS / 4)), "{name}");
        let seen = [
            (found.whole, "whole"),
            (found.tentative, "tentative"),
            (found.claimed(), "claimed"),
            (found.kept, "kept"),
        ];
        let seen = seen.into_iter().filter(|(is_so, _)| *is_so);
        let seen: Vec<_> = seen.map(|(_, word)| word).collect();
        assert_eq!(seen.join(" "), marks, "{name}");
        drop(locks);
    }
}

/// Any user can lock the bytes by which holders sign: a lock on many of them names nobody.
#[test]
fn a_signature_is_one_byte_that_is_confirmed() {
    let byte = |region: Range, number: i64, count: i64| {
        Range::new(region.start() + number, count).unwrap()
    };
    for side in [Side::Lease, Side::Reservation] {
        let (_directory, lock_file) = private_lock();
        let (uid_bytes, pid_bytes) = (span().uids(side), span().pids(side));
        let _locks = [
            held(&lock_file, Held::Confirmed, byte(uid_bytes, 1000, 1)),
            held(&lock_file, Held::Confirmed, byte(uid_bytes, 0, 1)),
            held(&lock_file, Held::Confirmed, byte(uid_bytes, 2000, 2)),
            held(&lock_file, Held::Tentative, byte(uid_bytes, 3000, 1)),
            held(&lock_file, Held::Confirmed, byte(pid_bytes, 4711, 1)),
        ];
        let probe = lock_file.open().unwrap();
        assert_eq!(
            uids(&probe, span(), side).unwrap(),
            BTreeSet::from([0, 1000])
        );
        assert_eq!(
            process_ids(&probe, span(), side).unwrap(),
            BTreeSet::from([4711])
        );
        let other = match side {
            Side::Lease => Side::Reservation,
            Side::Reservation => Side::Lease,
        };
        assert!(uids(&probe, span(), other).unwrap().is_empty());
        assert!(process_ids(&probe, span(), other).unwrap().is_empty());
    }
}

/// Its locks show a process that has not signed, or whose starter has; in another pid namespace the
/// uid is all that is known.
#[test]
fn a_holder_is_found_by_its_locks_where_no_process_has_signed() {
    let own = Stat::read(std::process::id() as i32).unwrap();
    let uid = nix::unistd::geteuid().as_raw();
    for side in [Side::Lease, Side::Reservation] {
        let (_directory, lock_file) = private_lock();
        let region = span().of_side(side, Level::Outer);
        let signature = span().uids(side).start() + i64::from(namespaces::host_uid(uid));
        let _locks = [
            held(&lock_file, Held::Confirmed, quarters(region, 0, 1)),
            held(&lock_file, Held::Confirmed, Range::byte(signature)),
        ];
        let found = holdings(&lock_file, &lock_file.open().unwrap(), span()).unwrap();
        let [holder] = &found.holders[..] else {
            panic!("{:?}", found.holders);
        };
        let pid = namespaces::host_pids().then_some(own.pid);
        assert_eq!(
            (holder.uid, holder.pid),
            (Some(namespaces::host_uid(uid)), pid)
        );
        assert_eq!((&*holder.kind, holder.share), (side.word(), Some(0.25)));
    }
}

#[test]
fn the_start_of_a_process_is_a_time_of_day() {
    let now = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_secs()
    };
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let boot = text.lines().find_map(|line| line.strip_prefix("btime "));
    let boot: u64 = boot.unwrap().parse().unwrap();
    let mut stat = Stat::read(std::process::id() as i32).unwrap();
    let hertz = getgpu_linux::sys::ticks_per_second() as u64;
    // Both times are rounded.
    let expected = boot + stat.start / hertz;
    let found = since(&stat).unwrap();
    assert!(found.abs_diff(expected) <= 2, "{found} {expected}");
    assert!(found <= now() + 1, "{found}");
    stat.start = 0;
    let found = since(&stat).unwrap();
    assert!(found.abs_diff(boot) <= 2, "{found} {boot}");
}

#[test]
fn a_reservation_is_described_by_what_its_holder_was_started_with() {
    let described = |words: &[&str]| {
        let caller = ["caller=1(init)", "start=0", "value=x"];
        let words = [&[UUID], &caller[..], words].concat();
        let mut holder = Holder {
            since: Some(1_000_000),
            ..Holder::by_uid("reservation", None)
        };
        holder.describe(&process(words));
        assert_eq!(holder.pid, Some(1));
        (holder.hold, holder.until, holder.tag)
    };
    let hold = ["hold=1(init)", "hold-start=0"];
    let tag = ["tag=night", "asked=1f"];
    #[rustfmt::skip]
    let cases: [(&str, Vec<&str>, Described); 6] = [
        ("for programs", vec!["for=60", "linger=2"], (false, None, None)),
        ("for a process", hold.to_vec(), (true, None, None)),
        ("for a process, for an hour", [&hold[..], &["longest=3600"]].concat(), (true, Some(1_003_600), None)),
        ("until it is released", vec!["hold=0()"], (true, None, None)),
        ("with a tag", [&hold[..], &tag].concat(), (true, None, Some("night"))),
        ("with a name that only listings show", [&hold[..], &tag, &["label=job-7"]].concat(), (true, None, Some("job-7"))),
    ];
    for (name, words, (is_hold, until, tag)) in cases {
        let expected = (Some(is_hold), until, tag.map(str::to_owned));
        assert_eq!(described(&words), expected, "{name}");
    }
}

/// A listing names the process that keeps the device busy: the caller of a hold for another
/// process may have exited long ago.
#[test]
fn a_reservation_is_shown_with_the_process_that_it_is_held_for() {
    let own = Stat::read(std::process::id() as i32).unwrap();
    let (caller, held) = ("caller=1(init)", format!("hold={}({})", own.pid, own.comm));
    let start = format!("hold-start={}", own.start);
    let other_start = format!("hold-start={}", own.start + 1);
    #[rustfmt::skip]
    let cases = [
        ("for programs", vec![caller, "for=60", "linger=2"], (1, "init")),
        ("until it is released", vec![caller, "hold=0()"], (1, "init")),
        ("for its caller", vec![caller, "hold=1(init)", "hold-start=0"], (1, "init")),
        ("for another process", vec![caller, &held, &start], (own.pid, &own.comm)),
        ("for one whose number another process has now", vec![caller, &held, &other_start], (1, "init")),
        ("for one that has exited", vec![caller, "hold=2147483647(gone)", "hold-start=1"], (1, "init")),
    ];
    for (name, words, (pid, comm)) in cases {
        let words = [&[UUID, "start=0", "value=x"], &words[..]].concat();
        let expected = (pid, procfs::program_name(pid, comm));
        assert_eq!(stands_for(&process(words)), expected, "{name}");
    }
}

/// Any user may lock the byte of another process: it is not listed as the waiter if its descriptors
/// show no such lock.
#[test]
fn a_process_whose_byte_another_one_has_locked_is_not_listed_as_the_waiter() {
    let (_directory, lock_file) = private_lock();
    let parent = i64::from(std::os::unix::process::parent_id());
    let byte = Range::byte(crate::layout::keeper().start() + parent);
    let _lock = held(&lock_file, Held::Confirmed, byte);
    let directory = format!("/proc/{parent}/fdinfo");
    let is_readable = std::fs::read_dir(directory).is_ok() && namespaces::host_pids();
    let found = keeper(&lock_file, &lock_file.open().unwrap()).unwrap();
    assert!(found.pid.is_none() || !is_readable, "{found:?}");
}

#[test]
fn the_waiter_that_devices_are_kept_for_is_listed_with_when_it_began() {
    let (_directory, lock_file) = private_lock();
    let pid = std::process::id();
    let byte = Range::new(crate::layout::keeper().start() + i64::from(pid), 1).unwrap();
    let _lock = held(&lock_file, Held::Confirmed, byte);
    let found = keeper(&lock_file, &lock_file.open().unwrap()).unwrap();
    let own = Stat::read(pid as i32).unwrap();
    let expected = namespaces::host_pids().then_some(own.pid);
    assert_eq!(found.pid, expected);
    if expected.is_some() {
        // Each is a difference of two clocks, and of whole seconds.
        let apart = found.since.unwrap().abs_diff(since(&own).unwrap());
        assert!(apart <= 1, "{apart} s");
    }
}
