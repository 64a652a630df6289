use super::*;
use getgpu_model::UNITS;

fn uuid(n: u32) -> Uuid {
    Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap()
}

fn half() -> Units {
    Units::whole().first(UNITS / 2).unwrap()
}

fn holder(pid: i32, devices: &[u32], words: &str) -> HolderProcess {
    let devices: Vec<Uuid> = devices.iter().map(|n| uuid(*n)).collect();
    let devices = Uuid::join(&devices);
    let text = format!("getgpu\0--holder\0{devices}\0caller=7(bash)\0start=1\0{words}");
    HolderProcess::parse(pid, 0, text.as_bytes()).unwrap()
}

/// A reservation of whole devices; they are told apart by the holder's pid.
fn reserved(pid: i32, devices: &[u32]) -> OwnReservation {
    OwnReservation {
        holder: holder(pid, devices, ""),
        devices: devices.iter().map(|n| (uuid(*n), Units::whole())).collect(),
        distance: usize::MAX,
        in_use: false,
        of_other_job: false,
    }
}

/// A reservation of half of a device.
fn part(pid: i32, words: &str, distance: usize) -> OwnReservation {
    OwnReservation {
        holder: holder(pid, &[1], words),
        devices: vec![(uuid(1), half())],
        distance,
        ..reserved(pid, &[1])
    }
}

/// What is decided of one granted device.
fn of_one(candidates: &[OwnReservation], by_uuid: bool, share: bool, wants_all: bool) -> Decision {
    let question = OwnershipQuestion {
        grant: &[uuid(1)],
        by_uuid,
        counts: 1..=1,
        share,
        wants_all: &|_, _| wants_all,
    };
    decide(&question, candidates)
}

/// The decision as text: what is done, by which basis, with how many devices.
fn decided(grant: &[u32], count: usize, wants_all: bool, candidates: &[OwnReservation]) -> String {
    let grant: Vec<Uuid> = grant.iter().map(|n| uuid(*n)).collect();
    let question = OwnershipQuestion {
        grant: &grant,
        by_uuid: true,
        counts: count..=count,
        share: false,
        wants_all: &|_, _| wants_all,
    };
    let basis = |cover: &Cover| match &cover.basis {
        Basis::Reservation(line) => format!("holder {}", line.pid),
        lease => format!("{lease:?}"),
    };
    match decide(&question, candidates) {
        Decision::Nothing => "nothing".into(),
        Decision::All(cover) => format!("all: {} x{}", basis(&cover), cover.devices.len()),
        Decision::Inside(cover) => format!("inside: {} x{}", basis(&cover), cover.devices.len()),
    }
}

#[test]
fn what_is_ours_of_a_grant() {
    let near = |pid, distance| OwnReservation {
        distance,
        ..reserved(pid, &[1])
    };
    let used = |pid, distance| OwnReservation {
        in_use: true,
        ..near(pid, distance)
    };
    let other_job = |pid| OwnReservation {
        of_other_job: true,
        ..reserved(pid, &[1])
    };
    let part = |pid| OwnReservation {
        devices: vec![(uuid(1), half())],
        ..reserved(pid, &[1])
    };
    let unproven = || OwnReservation {
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
        ("the own job's, although it is in use", &[1], 1, true, vec![other_job(5), used(6, usize::MAX)],
            "all: holder 6 x1"),
        ("another job's, if there is none", &[1], 1, true, vec![other_job(5)], "all: holder 5 x1"),
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
    let (whole, program) = (|| reserved(5, &[1]), || part(6, "for=60\0", 1));
    #[rustfmt::skip]
    let cases = [
        ("another program's", vec![whole(), program()], true, 5),
        ("its own", vec![whole(), program()], false, 6),
        ("a hold's", vec![whole(), part(6, "hold=9(x)\0", 1)], true, 6),
        ("in nothing else", vec![program()], true, 6),
    ];
    for (what, candidates, share, holder) in cases {
        let cover = of_one(&candidates, true, share, !share).cover().unwrap();
        let found = matches!(cover.basis, Basis::Reservation(found) if found.pid == holder);
        assert!(found, "{what}");
    }
}

#[test]
fn a_cover_has_the_proven_units_of_the_granted_devices() {
    let devices = vec![(uuid(1), half()), (uuid(2), Units::whole())];
    let candidate = OwnReservation {
        devices,
        ..reserved(5, &[1, 2])
    };
    let Decision::All(cover) = of_one(&[candidate], true, false, true) else {
        panic!("all of the half is wanted")
    };
    let units = [1, 2].map(|n| cover.units(&uuid(n)));
    assert_eq!(units, [Some(&half()), None]);
    assert!(cover.is_reservation());
    let basis = Basis::InheritedLease;
    assert!(!Cover { basis, ..cover }.is_reservation());
}

#[test]
fn a_part_that_a_sibling_reserved_is_not_around_us() {
    let far = usize::MAX;
    let held = |hold: i32, distance| part(5, &format!("hold={hold}(x)\0"), distance);
    #[rustfmt::skip]
    let cases = [
        ("for another task", held(99, far), true, false, false),
        ("all of another task's, as it is", held(99, far), true, true, true),
        ("for an ancestor", held(99, 2), true, false, true),
        ("for the whole job", held(0, far), true, false, true),
        ("beside a grant by index", held(0, far), false, false, false),
        ("whole", reserved(5, &[1]), false, false, true),
    ];
    for (what, candidate, by_uuid, wants_all, inside) in cases {
        let decision = of_one(&[candidate], by_uuid, false, wants_all);
        assert_eq!(decision != Decision::Nothing, inside, "{what}");
    }
}
