use super::*;

fn stat(pid: i32, ppid: i32, start: u64, comm: &str) -> Stat {
    let line = format!("{pid} ({comm}) S {ppid}{} {start}", " 0".repeat(17));
    Stat {
        arg_start: start * 10,
        ..Stat::parse(line.as_bytes()).unwrap()
    }
}

const PLAIN: Evidence = of(EnvMatch::Nothing);
const DEVICE: Evidence = of(EnvMatch::Device);
const TEXT: Evidence = of(EnvMatch::PrintedText);
const UNREADABLE: Evidence = of(EnvMatch::Unreadable);
const ARGUMENT: Evidence = Evidence {
    argument: true,
    ..PLAIN
};
const TOLD: Evidence = Evidence {
    told: true,
    ..PLAIN
};
const WAITS: Evidence = Evidence {
    chooses: true,
    ..DEVICE
};

const fn of(environment: EnvMatch) -> Evidence {
    Evidence {
        own_uid: true,
        environment,
        argument: false,
        chooses: false,
        told: false,
        background: false,
    }
}

fn view() -> ProcessView {
    ProcessView {
        caller: (10, 100),
        caller_arguments: 1000,
        since: 200,
        unreadable_limit: 60,
        now: 300,
        ..ProcessView::default()
    }
}

fn users(processes: &[(Stat, Evidence)], view: &ProcessView) -> Vec<i32> {
    let found = find(processes, view);
    found.users.iter().map(|stat| stat.pid).collect()
}

fn uuid(n: u32) -> Uuid {
    Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap()
}

fn reservation(devices: &[u32], grant: &[u32], value: &str) -> HolderArgs {
    let list = |numbers: &[u32]| numbers.iter().map(|n| uuid(*n)).collect::<Vec<_>>();
    let args = HolderArgs::parse([&*Uuid::join(&list(devices)), "caller=10(bash)", "start=100"]);
    HolderArgs {
        grant: list(grant),
        value: value.into(),
        ..args.unwrap()
    }
}

#[test]
fn a_value_names_a_device_in_every_spelling() {
    let args = reservation(&[1, 2], &[], "7");
    for value in [
        uuid(1).to_string(),
        uuid(2).to_string().to_uppercase(),
        format!("{},{}", uuid(9), uuid(1)),
        format!(" {} ,\n", uuid(1)),
        format!(",,{}\n", uuid(2)),
        "MIG-00000001".into(),
    ] {
        assert_eq!(match_value(&value, &args), EnvMatch::Device, "{value:?}");
    }
    for value in ["", "0", "-1", "GPU-1", &uuid(9).to_string()] {
        assert_eq!(match_value(value, &args), EnvMatch::Nothing, "{value:?}");
    }
}

#[test]
fn the_whole_larger_grant_names_no_device() {
    let (larger, all) = (
        reservation(&[1], &[1, 2, 3], ""),
        reservation(&[1, 2], &[], ""),
    );
    #[rustfmt::skip]
    let cases = [
        (&[3, 1, 2][..], &larger, EnvMatch::Nothing), (&[1, 2], &larger, EnvMatch::Device),
        (&[2, 3], &larger, EnvMatch::Nothing), (&[1, 2], &all, EnvMatch::Device),
    ];
    for (devices, args, expected) in cases {
        let value = Uuid::join(&devices.iter().map(|n| uuid(*n)).collect::<Vec<_>>());
        assert_eq!(match_value(&value, args), expected, "{devices:?}");
    }
}

#[test]
fn an_index_counts_below_the_caller_in_later_programs() {
    let args = reservation(&[1], &[], "0");
    assert_eq!(match_value("0", &args), EnvMatch::PrintedText);
    assert_eq!(match_value("1", &args), EnvMatch::Nothing);
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(20, 10, 210, "app"), TEXT),
        (stat(30, 10, 150, "older"), TEXT),
        (stat(40, 1, 210, "elsewhere"), TEXT),
    ];
    assert_eq!(users(&all, &view()), [20]);
}

/// When the process of a hold has exited, nothing is below it.
#[test]
fn an_index_counts_anywhere_in_what_a_hold_has_left_behind() {
    let all = [
        (stat(20, 1, 210, "app"), TEXT),
        (stat(30, 1, 150, "older"), TEXT),
        (stat(40, 1, 210, "cudawrap"), WAITS),
        (stat(41, 9, 210, "cudawrap"), WAITS),
    ];
    let left_behind = ProcessView {
        adopter: Some(1),
        ..view()
    };
    assert_eq!(users(&all, &left_behind), [20]);
    // One that was left behind keeps the device; one that another process has started since waits
    // for the end of the reservation.
    let keepers = find(&all, &left_behind).keepers;
    assert_eq!(
        keepers.iter().map(|stat| stat.pid).collect::<Vec<_>>(),
        [40]
    );
    assert!(users(&all, &view()).is_empty());
}

/// Beside a grant others name the device, such as the other workers of a pool.
#[test]
fn of_a_grant_only_what_was_adopted_was_left_behind() {
    let all = [
        (stat(20, 1, 210, "app"), DEVICE),
        (stat(21, 20, 220, "child"), DEVICE),
        (stat(30, 9, 210, "worker"), DEVICE),
    ];
    let view = ProcessView {
        adopter: Some(1),
        was_granted: true,
        ..view()
    };
    assert_eq!(users(&all, &view), [20, 21]);
}

/// What an agent starts counts, and so does what it was told to start by a program.
#[test]
fn the_children_of_an_agent_count_and_the_agent_does_not() {
    let agent = Evidence {
        background: true,
        ..DEVICE
    };
    let all = [
        (stat(20, 1, 210, "tmux: server"), agent),
        (stat(21, 20, 220, "bash"), DEVICE),
        (stat(22, 20, 220, "clock"), PLAIN),
    ];
    assert_eq!(users(&all, &view()), [21]);
}

#[test]
fn a_variable_tells_a_device_that_it_did_not_hold_before() {
    let args = HolderArgs {
        told_before: vec!["OLD".into()],
        ..reservation(&[1], &[1, 2], "")
    };
    let (one, two) = (uuid(1), uuid(2));
    for (entry, expected) in [
        (format!("NVIDIA_VISIBLE_DEVICES={one}"), true),
        (
            format!("PATH=/bin\0APPTAINERENV_CUDA_VISIBLE_DEVICES={one}\0A=1"),
            true,
        ),
        (format!("d=device={one},x"), true),
        (format!("d={two}"), false),
        (format!("ALL={two},{one}"), false),
        (format!("OLD={one}"), false),
        (format!("CUDA_VISIBLE_DEVICES={one}"), false),
        (format!("{one}"), false),
    ] {
        assert_eq!(is_told(entry.as_bytes(), &args), expected, "{entry}");
    }
}

#[test]
fn a_device_counts_wherever_it_is_named_and_so_do_descendants() {
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(20, 10, 210, "app"), DEVICE),
        (stat(21, 20, 220, "worker"), PLAIN),
        (stat(22, 20, 220, "sudo"), Evidence::default()),
        (stat(30, 1, 230, "other"), DEVICE),
        (stat(40, 10, 240, "ls"), PLAIN),
    ];
    assert_eq!(users(&all, &view()), [20, 21, 22, 30]);
}

#[test]
fn a_program_that_was_seen_counts_until_it_exits() {
    let all = [
        (stat(20, 1, 210, "wiped"), PLAIN),
        (stat(21, 20, 220, "child"), PLAIN),
        (stat(30, 1, 230, "reused-pid"), PLAIN),
    ];
    let view = ProcessView {
        seen: [(20, 210), (30, 229)].into(),
        ..view()
    };
    assert_eq!(users(&all, &view), [20, 21]);
}

#[test]
fn holders_zombies_and_other_users_never_count() {
    let zombie = Stat {
        state: 'Z',
        ..stat(24, 10, 210, "app")
    };
    let kernel = Stat {
        kernel: true,
        ..stat(25, 2, 210, "kworker")
    };
    #[rustfmt::skip]
    let all = [
        (stat(22, 10, 210, "create-cudawrap"), DEVICE),
        (stat(23, 1, 210, "getgpu-hold"), DEVICE),
        (zombie, DEVICE),
        (kernel, DEVICE),
        (stat(27, 10, 210, "app"), Evidence { own_uid: false,..DEVICE }),
    ];
    assert_eq!(find(&all, &view()), MatchedProcess::default());
}

#[test]
fn what_keeps_a_reservation_is_no_use_of_it() {
    let caller = || (stat(10, 1, 100, "bash"), PLAIN);
    let kept = |process| find(&[caller(), process], &view());
    let keeps = |stat: Stat| MatchedProcess {
        keepers: vec![stat],
        ..MatchedProcess::default()
    };
    let mut executed = stat(10, 1, 100, "docker");
    executed.arg_start = 7;
    for (keeper, evidence) in [
        (stat(20, 10, 210, "docker"), ARGUMENT),
        (stat(20, 10, 210, "cudawrap"), WAITS),
        (stat(20, 1, 210, "getgpu"), WAITS),
        // Told by a variable of another name, wherever it is.
        (stat(20, 1, 210, "enroot"), TOLD),
    ] {
        assert_eq!(kept((keeper.clone(), evidence)), keeps(keeper));
    }
    let found = find(&[(executed.clone(), ARGUMENT)], &view());
    assert_eq!(found, keeps(executed));
    assert_eq!(
        find(&[(caller().0, ARGUMENT)], &view()),
        MatchedProcess::default()
    );
    #[rustfmt::skip]
    let cases = [
        (stat(30, 1, 210, "tmux: server"), ARGUMENT),
        (stat(31, 10, 150, "older"), ARGUMENT),
        (stat(32, 10, 210, "getgpu"), Evidence { chooses: true,..ARGUMENT }),
        (stat(33, 10, 210, "getgpu"), Evidence { chooses: true,..TOLD }),
        (stat(34, 10, 150, "older"), TOLD),
        (stat(35, 10, 210, "ssh-agent"), Evidence { background: true,..DEVICE }),
    ];
    for none in cases {
        let comm = none.0.comm.clone();
        assert_eq!(kept(none), MatchedProcess::default(), "{comm}");
    }
}

#[test]
fn an_unreadable_program_below_the_caller_counts() {
    let fork = Stat {
        forked: true,
        ..stat(43, 10, 210, "slurmstepd")
    };
    let mut all = [
        (stat(10, 1, 100, "bash"), UNREADABLE),
        (stat(40, 10, 210, "sealed"), UNREADABLE),
        (stat(41, 10, 150, "older"), UNREADABLE),
        (stat(42, 1, 210, "elsewhere"), UNREADABLE),
        (fork, UNREADABLE),
    ];
    assert_eq!(users(&all, &view()), [40]);
    let same_tick = ProcessView {
        caller: (10, 200),
        caller_arguments: 1000,
        ..view()
    };
    all[0].0.start = 200;
    assert_eq!(users(&all, &same_tick), [40], "the caller is no program");
    let other_process = ProcessView {
        caller: (10, 99),
        ..view()
    };
    assert_eq!(users(&all, &other_process), Vec::<i32>::new());
}

/// What sudo, su or setpriv start cannot be read until it has executed its program.
#[test]
fn an_unreadable_process_that_has_just_begun_is_no_use_yet() {
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(40, 10, 260, "setpriv"), UNREADABLE),
    ];
    for (now, limit, expected) in [(279, 0, None), (279, 60, None), (280, 0, Some(40))] {
        let view = ProcessView {
            unreadable_limit: limit,
            settling: 20,
            now,
            ..view()
        };
        let found = find(&all, &view);
        assert_eq!(found.users.first().map(|stat| stat.pid), expected);
        assert_eq!(
            found.keepers.is_empty(),
            expected.is_some(),
            "it keeps the reservation"
        );
    }
}

#[test]
fn a_later_unreadable_program_keeps_the_device_for_a_while() {
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(40, 10, 260, "ssh"), UNREADABLE),
    ];
    let at = |now| {
        let view = ProcessView {
            used_since: Some(250),
            now,
            ..view()
        };
        find(&all, &view)
    };
    assert_eq!((at(319).keepers.len(), at(320).keepers.len()), (1, 0));
    assert!(at(300).users.is_empty());
    let seen = ProcessView {
        used_since: Some(250),
        seen: [(40, 260)].into(),
        now: 9999,
        ..view()
    };
    assert_eq!(users(&all, &seen), [40]);
}

#[test]
fn an_older_program_with_the_grant_counts_after_exec_only() {
    let granted = ProcessView {
        granted: [((10, 100), 1000), ((20, 150), 1500)].into(),
        ..view()
    };
    let mut all = [
        (stat(10, 1, 100, "bash"), DEVICE),
        (stat(20, 10, 150, "daemon"), DEVICE),
        (stat(30, 10, 210, "app"), DEVICE),
    ];
    assert_eq!(users(&all, &granted), [30]);
    all[0].0.arg_start = 7;
    let found = users(&all, &granted);
    assert_eq!(found, [10, 20, 30], "the caller has executed its program");
}

#[test]
fn a_sharing_process_below_another_caller_alone_is_that_callers() {
    let view = ProcessView {
        other_callers: [(50, 110), (60, 120)].into(),
        ..view()
    };
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(20, 10, 210, "app"), DEVICE),
        (stat(60, 10, 120, "nested"), DEVICE),
        (stat(61, 60, 220, "app"), DEVICE),
        (stat(50, 1, 110, "elsewhere"), PLAIN),
        (stat(51, 50, 220, "app"), DEVICE),
        (stat(70, 1, 220, "detached"), DEVICE),
    ];
    assert_eq!(users(&all, &view), [20, 60, 61, 70]);
}
