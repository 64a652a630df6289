use super::*;
use crate::lock::UNITS;

fn uuid(n: u32) -> Uuid {
    Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap()
}

fn half() -> Units {
    Units::whole().first(UNITS / 2).unwrap()
}

fn holder(pid: i32, devices: &[u32]) -> HolderProcess {
    let devices: Vec<String> = devices.iter().map(|n| uuid(*n).to_string()).collect();
    let words = format!(
        "getgpu\0--holder\0{}\0caller=7(bash)\0start=1\0",
        devices.join(",")
    );
    HolderProcess::parse(pid, 0, words.as_bytes()).unwrap()
}

/// A candidate with whole devices; reservations are told apart by the holder's pid.
fn candidate(basis: Basis, devices: &[u32]) -> Candidate {
    let devices = devices.iter().map(|n| (uuid(*n), Units::whole())).collect();
    Candidate {
        basis,
        devices,
        distance: usize::MAX,
        in_use: false,
    }
}

fn reserved(pid: i32, devices: &[u32]) -> Candidate {
    candidate(Basis::Reservation(Box::new(holder(pid, devices))), devices)
}

/// The decision as text: what is done, by which basis, with how many devices.
fn decided(grant: &[u32], count: usize, wants_all: bool, candidates: &[Candidate]) -> String {
    let grant: Vec<Uuid> = grant.iter().map(|n| uuid(*n)).collect();
    let question = OwnershipQuestion {
        grant: &grant,
        by_uuid: true,
        count,
        share: false,
        wants_all: &|_, _| wants_all,
    };
    let basis = |cover: &Cover| match &cover.basis {
        Basis::InheritedLease => "inherited".to_owned(),
        Basis::AncestorLease => "ancestor".to_owned(),
        Basis::Reservation(line) => format!("holder {}", line.pid),
    };
    match decide(&question, candidates) {
        Decision::Nothing => "nothing".into(),
        Decision::All(cover) => format!("all: {} x{}", basis(&cover), cover.devices.len()),
        Decision::Inside(cover) => format!("inside: {} x{}", basis(&cover), cover.devices.len()),
    }
}

#[test]
fn what_is_ours_of_a_grant() {
    let inherited = || candidate(Basis::InheritedLease, &[1]);
    let ancestor = || candidate(Basis::AncestorLease, &[1]);
    let near = |pid, distance| Candidate {
        distance,
        ..reserved(pid, &[1])
    };
    let used = |pid, distance| Candidate {
        in_use: true,
        ..near(pid, distance)
    };
    let part = |pid| Candidate {
        devices: vec![(uuid(1), half())],
        ..reserved(pid, &[1])
    };
    let unproven = || Candidate {
        devices: vec![(uuid(1), Units::default())],
        ..reserved(5, &[1])
    };
    #[rustfmt::skip]
    let cases = [
        ("nothing was read", &[1][..], 1, true, vec![], "nothing"),
        ("another device's", &[2], 1, true, vec![reserved(5, &[1])], "nothing"),
        ("without proof", &[1], 1, true, vec![unproven()], "nothing"),
        ("a grant of no device", &[], 0, true, vec![reserved(5, &[1])], "nothing"),
        ("not every device of the grant", &[1, 2], 2, true,
            vec![reserved(5, &[1]), reserved(6, &[2])], "nothing"),
        ("just what is wanted", &[1], 1, true, vec![reserved(5, &[1])], "all: holder 5 x1"),
        ("a part of it", &[1], 1, false, vec![reserved(5, &[1])], "inside: holder 5 x1"),
        ("fewer devices", &[1, 2], 1, true, vec![reserved(5, &[1, 2])], "inside: holder 5 x2"),
        ("one of four that are reserved", &[3], 1, true, vec![reserved(5, &[1, 2, 3, 4])],
            "all: holder 5 x1"),
        ("a lease before a reservation", &[1], 1, true, vec![near(5, 0), ancestor()],
            "all: ancestor x1"),
        ("our own descriptors alone", &[1], 1, true, vec![inherited(), near(5, 0)],
            "all: inherited x1"),
        ("the nearest", &[1], 1, true, vec![near(5, 3), near(6, 1), near(7, usize::MAX)],
            "all: holder 6 x1"),
        ("the nearest, although it is in use", &[1], 1, true, vec![near(5, 3), used(6, 1)],
            "all: holder 6 x1"),
        ("of equally near ones the unused", &[1], 1, true, vec![used(5, 1), near(6, 1)],
            "all: holder 6 x1"),
        ("all in use", &[1], 1, true, vec![used(5, 1), used(6, 1)], "all: holder 5 x1"),
        ("then the smallest", &[1], 1, true, vec![reserved(5, &[1, 2]), reserved(6, &[1])],
            "all: holder 6 x1"),
        ("of two on one device the part", &[1], 1, true, vec![reserved(5, &[1]), part(6)],
            "all: holder 6 x1"),
        ("lingering or not", &[1], 1, true, vec![reserved(100, &[1])], "all: holder 100 x1"),
    ];
    for (what, grant, count, wants_all, candidates, decision) in cases {
        assert_eq!(
            decided(grant, count, wants_all, &candidates),
            decision,
            "{what}"
        );
    }
}

#[test]
fn a_share_is_taken_beside_a_programs_part() {
    let whole = || reserved(5, &[1]);
    let part = |text: &str| {
        let text = format!(
            "getgpu\0--holder\0{}\0caller=7(bash)\0start=1\0{text}",
            uuid(1)
        );
        Candidate {
            basis: Basis::Reservation(Box::new(
                HolderProcess::parse(6, 0, text.as_bytes()).unwrap(),
            )),
            devices: vec![(uuid(1), half())],
            distance: 1,
            in_use: false,
        }
    };
    let grant = [uuid(1)];
    #[rustfmt::skip]
    let cases = [
        ("another program's", vec![whole(), part("for=60\0")], true, 5),
        ("its own", vec![whole(), part("for=60\0")], false, 6),
        ("a hold's", vec![whole(), part("hold=9(x)\0")], true, 6),
        ("in nothing else", vec![part("for=60\0")], true, 6),
    ];
    for (what, candidates, share, holder) in cases {
        let question = OwnershipQuestion {
            grant: &grant,
            by_uuid: true,
            count: 1,
            share,
            wants_all: &|_, _| !share,
        };
        let cover = decide(&question, &candidates).cover().unwrap();
        let Basis::Reservation(found) = cover.basis else {
            panic!("a reservation")
        };
        assert_eq!(found.pid, holder, "{what}");
    }
}

#[test]
fn a_cover_has_the_proven_units_of_the_granted_devices() {
    let devices = vec![(uuid(1), half()), (uuid(2), Units::whole())];
    let candidate = Candidate {
        devices,
        ..reserved(5, &[1, 2])
    };
    let grant = [uuid(1)];
    let question = OwnershipQuestion {
        grant: &grant,
        by_uuid: true,
        count: 1,
        share: false,
        wants_all: &|_, units| *units == half(),
    };
    let Decision::All(cover) = decide(&question, &[candidate]) else {
        panic!("all of the half is wanted")
    };
    assert_eq!(
        (cover.units(&uuid(1)), cover.units(&uuid(2))),
        (Some(&half()), None)
    );
    assert!(cover.is_reservation());
}

#[test]
fn what_is_owned_is_chosen_from() {
    let cover = |basis: Basis| Cover {
        basis,
        devices: vec![(uuid(1), half())],
    };
    let leased = cover(Basis::InheritedLease);
    assert!(!leased.is_reservation());
    for decision in [
        Decision::All(leased.clone()),
        Decision::Inside(leased.clone()),
    ] {
        assert_eq!(decision.cover().as_ref(), Some(&leased));
    }
    assert_eq!(Decision::Nothing.cover(), None);
}

#[test]
fn a_part_that_a_sibling_reserved_is_not_around_us() {
    let held = |pid: i32, hold: i32, distance| {
        let text = format!(
            "getgpu\0--holder\0{}\0caller=7(bash)\0start=1\0hold={hold}(x)\0",
            uuid(1)
        );
        let holder = HolderProcess::parse(pid, 0, text.as_bytes()).unwrap();
        Candidate {
            basis: Basis::Reservation(Box::new(holder)),
            devices: vec![(uuid(1), half())],
            distance,
            in_use: false,
        }
    };
    let grant = [uuid(1)];
    #[rustfmt::skip]
    let cases = [
        ("for another task", held(5, 99, usize::MAX), true, false, false),
        ("all of another task's, as it is", held(5, 99, usize::MAX), true, true, true),
        ("for an ancestor", held(5, 99, 2), true, false, true),
        ("for the whole job", held(5, 0, usize::MAX), true, false, true),
        ("beside a grant by index", held(5, 0, usize::MAX), false, false, false),
        ("whole", reserved(5, &[1]), false, false, true),
    ];
    for (what, candidate, by_uuid, wants_all, inside) in cases {
        let question = OwnershipQuestion {
            grant: &grant,
            by_uuid,
            count: 1,
            share: false,
            wants_all: &|_, _| wants_all,
        };
        assert_eq!(
            decide(&question, &[candidate]) != Decision::Nothing,
            inside,
            "{what}"
        );
    }
}
