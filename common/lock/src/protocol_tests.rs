//! The protocol checked exhaustively on a model: every interleaving of two or three processes, each
//! lock call a step, with a crash at every step, also of what encloses a claim. The processes run the
//! real decisions.

use super::programs::{ALL, Kind};
use super::{Side, model::explore};
use Side::{Lease, Reservation};

/// The parts of a device.
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// Every way in which some of `kinds` meet beside `owners`, so many at a time and the same one also
/// twice: how many ways, and how many worlds.
#[allow(clippy::print_stdout, reason = "the figures are read")]
fn check(what: &str, owners: &[Kind], kinds: &[Kind], at_a_time: u32) {
    let began = std::time::Instant::now();
    let (mut ways, mut worlds) = (0, 0);
    for number in 0..kinds.len().pow(at_a_time) {
        let places = (0..at_a_time).map(|place| number / kinds.len().pow(place) % kinds.len());
        let places: Vec<usize> = places.collect();
        // The order of processes does not matter.
        if !places.is_sorted() {
            continue;
        }
        let asking = places.iter().map(|place| kinds[*place]);
        let all: Vec<Kind> = owners.iter().copied().chain(asking).collect();
        ways += 1;
        worlds += explore(&all, false) + explore(&all, true);
    }
    let time = began.elapsed();
    println!("{what}, {at_a_time} at a time: {ways} ways, {worlds} worlds, {time:.1?}");
    assert!(worlds > 100 * ways, "the model is a model");
}

const fn owner(side: Side, units: u8, inside: Option<u8>) -> Kind {
    Kind::Owner {
        side,
        devices: &[0],
        units,
        inside,
    }
}

const fn chosen(side: Side, order: &'static [u8], units: u8) -> Kind {
    Kind::Chosen {
        side,
        order,
        units,
        count: 1,
    }
}

const fn pair(side: Side, order: &'static [u8]) -> Kind {
    Kind::Chosen {
        side,
        order,
        units: ALL,
        count: 2,
    }
}

const fn named(order: &'static [u8], units: u8) -> Kind {
    Kind::Named { order, units }
}

const fn inside(side: Side, owner: u8, units: u8) -> Kind {
    Kind::Inside {
        side,
        owner,
        order: &[0],
        units,
        count: 1,
    }
}

const fn all_of(owner: u8, order: &'static [u8]) -> Kind {
    Kind::AllOf { owner, order }
}

/// One that owns two devices.
const fn owner_of_two(side: Side, inside: Option<u8>) -> Kind {
    Kind::Owner {
        side,
        devices: &[0, 1],
        units: ALL,
        inside,
    }
}

/// So many of two devices that another has.
const fn inside_two(side: Side, order: &'static [u8], count: usize) -> Kind {
    Kind::Inside {
        side,
        owner: 0,
        order,
        units: ALL,
        count,
    }
}

/// One device, of which nothing is owned.
const ONE: &[Kind] = &[
    chosen(Lease, &[0], ALL),
    chosen(Reservation, &[0], ALL),
    chosen(Lease, &[0], FIRST),
    chosen(Reservation, &[0], SECOND),
    named(&[0], ALL),
    named(&[0], SECOND),
];

/// Two devices, one or both of which are wanted.
const TWO: &[Kind] = &[
    chosen(Lease, &[0, 1], ALL),
    chosen(Lease, &[1, 0], ALL),
    chosen(Reservation, &[0, 1], ALL),
    chosen(Reservation, &[1, 0], ALL),
    pair(Lease, &[0, 1]),
    pair(Lease, &[1, 0]),
    pair(Reservation, &[0, 1]),
    pair(Reservation, &[1, 0]),
    named(&[0], ALL),
    named(&[1], ALL),
    named(&[0, 1], ALL),
    named(&[1, 0], ALL),
];

/// Those who own nothing, beside those who do.
const OTHERS: [Kind; 3] = [
    chosen(Lease, &[0], ALL),
    chosen(Reservation, &[0], ALL),
    named(&[0], ALL),
];

/// Below a reservation.
const RESERVED: &[Kind] = &[
    all_of(0, &[0]),
    Kind::Again { owner: 0 },
    inside(Lease, 0, ALL),
    inside(Lease, 0, FIRST),
    inside(Reservation, 0, ALL),
    inside(Reservation, 0, FIRST),
    OTHERS[0],
    OTHERS[1],
    OTHERS[2],
];

/// Below a lease.
const LEASED: &[Kind] = &[
    Kind::Joined { owner: 0 },
    Kind::Again { owner: 0 },
    inside(Lease, 0, ALL),
    inside(Lease, 0, FIRST),
    inside(Reservation, 0, ALL),
    inside(Reservation, 0, FIRST),
    OTHERS[0],
    OTHERS[1],
    OTHERS[2],
];

/// Below a reservation of a part of a reservation, and beside it.
const PART: &[Kind] = &[
    all_of(1, &[0]),
    Kind::Again { owner: 1 },
    all_of(0, &[0]),
    inside(Lease, 0, ALL),
    inside(Reservation, 0, FIRST),
    OTHERS[0],
    OTHERS[1],
];

/// In a container, whose user has reserved a part of the device.
const CONTAINED: &[Kind] = &[
    Kind::Contained {
        units: ALL,
        user: 0,
    },
    Kind::Contained {
        units: SECOND,
        user: 0,
    },
    chosen(Lease, &[0], SECOND),
    chosen(Reservation, &[0], SECOND),
    chosen(Reservation, &[0], ALL),
    named(&[0], ALL),
];

/// Below two devices, reserved or leased, and beside them: two, and one of them as a rank takes it.
const INSIDE_TWO: &[Kind] = &[
    inside_two(Lease, &[0, 1], 2),
    inside_two(Lease, &[1, 0], 2),
    inside_two(Reservation, &[0, 1], 2),
    inside_two(Lease, &[1, 0], 1),
    inside_two(Reservation, &[1, 0], 1),
    Kind::Again { owner: 0 },
    pair(Lease, &[1, 0]),
    pair(Reservation, &[1, 0]),
    chosen(Reservation, &[1], ALL),
    named(&[1, 0], ALL),
];

/// Below two devices that are reserved inside a reservation of both, and beside them.
const TWO_INSIDE: &[Kind] = &[
    all_of(1, &[0, 1]),
    Kind::Again { owner: 1 },
    all_of(0, &[0, 1]),
    INSIDE_TWO[0],
    INSIDE_TWO[2],
    pair(Lease, &[1, 0]),
    pair(Reservation, &[1, 0]),
];

const TWO_RESERVED: [Kind; 1] = [owner_of_two(Reservation, None)];
const TWO_LEASED: [Kind; 1] = [owner_of_two(Lease, None)];
const TWO_RESERVED_INSIDE: [Kind; 2] = [TWO_RESERVED[0], owner_of_two(Reservation, Some(0))];
const WHOLE_RESERVATION: [Kind; 1] = [owner(Reservation, ALL, None)];
const WHOLE_LEASE: [Kind; 1] = [owner(Lease, ALL, None)];
const PART_OF_RESERVATION: [Kind; 2] = [
    owner(Reservation, ALL, None),
    owner(Reservation, FIRST, Some(0)),
];
const A_PART: [Kind; 1] = [owner(Reservation, FIRST, None)];

#[test]
fn of_two_processes_no_device_is_given_to_both() {
    check("one device", &[], ONE, 2);
    check("two devices", &[], TWO, 2);
}

#[test]
fn of_two_processes_inside_what_ends_no_unit_is_given_to_both() {
    check("a reservation", &WHOLE_RESERVATION, RESERVED, 2);
    check("a lease", &WHOLE_LEASE, LEASED, 2);
    check("a part", &PART_OF_RESERVATION, PART, 2);
    check("a container", &A_PART, CONTAINED, 2);
}

#[test]
fn of_two_processes_inside_two_reserved_devices_none_is_given_to_both() {
    let kinds = [INSIDE_TWO, &[all_of(0, &[0, 1]), all_of(0, &[0])]].concat();
    check("two reserved", &TWO_RESERVED, &kinds, 2);
}

#[test]
fn of_two_processes_inside_two_leased_devices_none_is_given_to_both() {
    let kinds = [INSIDE_TWO, &[Kind::Joined { owner: 0 }]].concat();
    check("two leased", &TWO_LEASED, &kinds, 2);
}

#[test]
fn of_two_processes_inside_two_devices_of_a_reservation_none_is_given_to_both() {
    check("two inside", &TWO_RESERVED_INSIDE, TWO_INSIDE, 2);
}

#[test]
fn of_three_processes_no_device_is_given_to_two() {
    check("one device", &[], &[ONE[0], ONE[1], ONE[4]], 3);
}

/// Some millions of worlds: `cargo test --release -p getgpu-lock protocol -- --ignored`, as
/// `make torture` does.
#[test]
#[ignore = "minutes, and only in a release build"]
fn three_processes_with_all_that_they_may_own() {
    check("one device", &[], ONE, 3);
    check("a reservation", &WHOLE_RESERVATION, RESERVED, 3);
    check("a lease", &WHOLE_LEASE, LEASED, 3);
    check("a part", &PART_OF_RESERVATION, PART, 3);
    check("a container", &A_PART, CONTAINED, 3);
}

/// The largest ones, of those that choose: several devices are in the model of two processes.
#[test]
#[ignore = "minutes, and only in a release build"]
fn three_processes_on_two_devices() {
    check("two devices", &[], &TWO[..4], 3);
}

/// A call for two inside what an owner of two devices has, beside one for one of them, inside or outside.
#[test]
#[ignore = "minutes, and only in a release build"]
fn three_processes_inside_two_devices() {
    let others = [
        inside_two(Reservation, &[1, 0], 1),
        chosen(Reservation, &[1], ALL),
    ];
    for (owned, asked) in [
        (Reservation, Lease),
        (Reservation, Reservation),
        (Lease, Lease),
        (Lease, Reservation),
    ] {
        let both = [owner_of_two(owned, None), inside_two(asked, &[0, 1], 2)];
        check("two, and a call for both", &both, &others, 2);
    }
}
