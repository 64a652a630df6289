//! The calls of a command about the lock, each a row: what the command holds of a device when
//! it stands there. What others do meanwhile, and what has to come of it, is in the files here.

mod elsewhere;
mod same_device;

use getgpu_tests::bytes;
use harness::Sandbox;
use inject::{Call, Story};

use super::{is_one_of, lacks_tracer};

/// The part of the lock that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    /// Who may choose several devices, or a part of one.
    Several,
    /// Who may draw a number.
    Dispenser,
    /// The numbers of those who wait.
    Tickets,
    /// The process ids of those who wait.
    Waiters,
    Lease,
    Reservation,
    /// The reservations inside a reservation.
    InnerReservation,
    /// For which waiter a device is kept.
    Kept,
    /// The units of reservations that are ending.
    Lingering,
    /// By whom, and by which process, a device is leased or reserved.
    Owner,
    /// None that has a row.
    Other,
}

/// What the command has of the device when it stands before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Nothing,
    Device,
    /// It stands there before its claim, and again behind it.
    Either,
}

use Holds::{Device, Either, Nothing};
use Region::*;

/// Where a command may stand: its call, what the call is about, and what it holds there. A call
/// that has no row fails the test: what others may do at it has to be thought of first.
#[rustfmt::skip]
const STOPS: &[(&str, Region, Holds)] = &[
    // The look whether others wait comes first, the right to choose several before any look.
    ("F_OFD_GETLK", Tickets, Nothing),
    ("F_WRLCK", Several, Nothing),
    // A number, where it has to wait.
    ("F_WRLCK", Dispenser, Nothing),
    ("F_WRLCK", Tickets, Nothing),
    ("F_RDLCK", Tickets, Nothing),
    ("F_UNLCK", Dispenser, Nothing),
    ("F_RDLCK", Waiters, Nothing),
    // Whether it is held or kept; of the units that are claimed the other side once more.
    ("F_OFD_GETLK", Lease, Either),
    ("F_OFD_GETLK", Reservation, Either),
    ("F_OFD_GETLK", Kept, Nothing),
    ("F_OFD_GETLK", InnerReservation, Device),
    // The claim.
    ("F_WRLCK", Lease, Nothing),
    ("F_WRLCK", Reservation, Nothing),
    // The confirmation, and who it is.
    ("F_RDLCK", Lease, Device),
    ("F_RDLCK", Reservation, Device),
    ("F_RDLCK", Owner, Device),
    ("F_OFD_GETLK", Owner, Device),
    // Behind a choice in vain: whether what is reserved ends soon.
    ("F_OFD_GETLK", Lingering, Nothing),
    // What was claimed in vain, or is held by another process from now on.
    ("F_UNLCK", Lease, Device),
    ("F_UNLCK", Reservation, Device),
    ("F_UNLCK", Several, Either),
];

/// Which region a byte is in, and which of the devices it belongs to.
fn place(spans: &[i64], start: i64) -> (Region, Option<usize>) {
    let device = spans.iter().position(|span| start & !(SPAN - 1) == *span);
    let Some(device) = device else {
        let tickets = bytes::NUMBERS..bytes::NUMBERS + bytes::ALL_NUMBERS;
        let region = match start {
            bytes::DISPENSER => Dispenser,
            bytes::SEVERAL => Several,
            _ if (bytes::WAITERS..bytes::WAITERS + (1 << 22)).contains(&start) => Waiters,
            _ if tickets.contains(&start) => Tickets,
            _ => Other,
        };
        return (region, None);
    };
    let offset = start - spans[device];
    let starts = [
        (bytes::LEASE, Lease),
        (bytes::KEPT, Kept),
        (bytes::RESERVATION, Reservation),
        (bytes::INNER_LEASE, Other),
        (bytes::INNER_RESERVATION, InnerReservation),
        (bytes::LINGERING, Lingering),
        (bytes::LEASE_PIDS, Owner),
    ];
    let region = starts.iter().rev().find(|(start, _)| offset >= *start);
    (region.map_or(Other, |(_, region)| *region), Some(device))
}

/// The bytes of a span.
const SPAN: i64 = 1 << 34;

/// A command that stands before a call about the lock.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "the region is read in a failed test")]
struct Stop {
    /// Of its calls about the lock, from 0.
    at: usize,
    region: Region,
    /// The device that the call is about; the first where it is about none.
    device: usize,
    /// Whether the command holds it.
    has: bool,
}

/// Follows a command, and calls `act` at each stop of its main process, each of which has to be
/// in the table; `act` says whether others have changed since what is held, of which the table says
/// nothing then. `side`: where in a span it claims; none where another has the device already.
fn follow(
    sandbox: &Sandbox,
    command: &mut std::process::Command,
    side: Option<i64>,
    mut act: impl FnMut(Stop, &Call) -> bool,
) -> Story {
    let spans: Vec<i64> = sandbox
        .uuids()
        .iter()
        .map(|uuid| bytes::span(uuid))
        .collect();
    let probe = bytes::open(sandbox);
    let (mut at, mut acted) = (0, false);
    let is_program = |pid| is_one_of(pid, &["sim-cuda", "true"]);
    let story = inject::watch(command, is_program, |call| {
        let Some((start, _)) = inject::lock_range(call).filter(|_| call.point.process == 0) else {
            return;
        };
        let (region, device) = place(&spans, start);
        let kind = call.subject.split(' ').next().unwrap_or_default();
        let row = STOPS
            .iter()
            .find(|(of, about, _)| *of == kind && *about == region);
        let Some((.., holds)) = row else {
            panic!("no row for {kind} of {region:?} at {start:#x}, call {at}");
        };
        let device = device.unwrap_or(0);
        let span = spans[device];
        let has = side.is_some_and(|side| bytes::is_locked(&probe, span + side, bytes::UNITS));
        let as_said = acted || side.is_none() || *holds == Either || (*holds == Device) == has;
        assert!(as_said, "{kind} of {region:?} with {has}, call {at}");
        let stop = Stop {
            at,
            region,
            device,
            has,
        };
        acted |= act(stop, call);
        at += 1;
    });
    assert!(!story.hung, "it does not end");
    story
}
