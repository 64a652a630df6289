use super::*;

fn stat(pid: i32, ppid: i32, start: u64, comm: &str) -> Stat {
    Stat {
        pid,
        comm: comm.into(),
        state: 'S',
        ppid,
        terminal: 0,
        kernel: false,
        forked: false,
        start,
        arg_start: start * 10,
    }
}

const PLAIN: Seen = Seen {
    own: true,
    has_value: false,
    has_part: false,
    has_argument: false,
    denied: false,
    wrapper: false,
};
const VALUE: Seen = Seen {
    has_value: true,
    ..PLAIN
};
const PART: Seen = Seen {
    has_part: true,
    ..PLAIN
};
const ARGUMENT: Seen = Seen {
    has_argument: true,
    ..PLAIN
};
const DENIED: Seen = Seen {
    denied: true,
    ..PLAIN
};

fn view() -> View {
    View {
        caller: (10, 100),
        since: 200,
        granted: None,
    }
}

fn pids(processes: &[(Stat, Seen)], view: &View) -> Vec<i32> {
    naming(processes, view)
        .iter()
        .map(|stat| stat.pid)
        .collect()
}

#[test]
fn the_value_counts_wherever_it_is_and_so_do_descendants() {
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(20, 10, 210, "app"), VALUE),
        (stat(21, 20, 220, "worker"), PLAIN),
        (stat(30, 1, 230, "other"), VALUE),
        (stat(40, 10, 240, "ls"), PLAIN),
    ];
    assert_eq!(pids(&all, &view()), [20, 21, 30]);
}

#[test]
fn ranks_that_have_chosen_among_the_devices_count_below_the_caller() {
    let all = [
        (stat(10, 1, 100, "bash"), PART),
        (stat(20, 10, 210, "rank"), PART),
        (stat(21, 20, 220, "worker"), PLAIN),
        (stat(30, 1, 210, "elsewhere"), PART),
    ];
    assert_eq!(pids(&all, &view()), [20]);
}

#[test]
fn our_own_programs_zombies_and_kernel_threads_never_count() {
    let zombie = Stat {
        state: 'Z',
        ..stat(24, 10, 210, "app")
    };
    let kernel = Stat {
        kernel: true,
        ..stat(25, 2, 210, "kworker")
    };
    let all = [
        (stat(20, 10, 210, "getgpu"), VALUE),
        (stat(21, 10, 210, "cudawrap"), VALUE),
        (stat(22, 10, 210, "create-cudawrap"), VALUE),
        (stat(23, 1, 210, "getgpu-hold"), VALUE),
        (stat(28, 23, 210, "getgpu-idle"), VALUE),
        (stat(29, 23, 210, "getgpu-log"), VALUE),
        (zombie, VALUE),
        (kernel, VALUE),
        (
            stat(26, 10, 210, "app"),
            Seen {
                wrapper: true,
                ..VALUE
            },
        ),
        (
            stat(27, 10, 210, "app"),
            Seen {
                own: false,
                ..VALUE
            },
        ),
    ];
    assert_eq!(pids(&all, &view()), Vec::<i32>::new());
}

#[test]
fn an_argument_counts_below_the_caller_only() {
    let all = [
        (stat(10, 1, 100, "bash"), PLAIN),
        (stat(20, 10, 210, "docker"), ARGUMENT),
        (stat(30, 1, 210, "tail"), ARGUMENT),
        (stat(40, 10, 210, "sealed"), DENIED),
        (stat(41, 10, 150, "older"), DENIED),
        (stat(42, 1, 210, "elsewhere"), DENIED),
        (
            Stat {
                forked: true,
                ..stat(43, 10, 210, "slurmstepd")
            },
            DENIED,
        ),
    ];
    assert_eq!(pids(&all, &view()), [20, 40]);
    let reused = View {
        caller: (10, 99),
        ..view()
    };
    assert_eq!(
        pids(&all, &reused),
        Vec::<i32>::new(),
        "another process has the caller's number"
    );
}

#[test]
fn who_had_the_value_as_a_grant_counts_after_exec_only() {
    let granted = View {
        granted: Some([(10, (100, 1000)), (20, (150, 1500))].into()),
        ..view()
    };
    let mut all = [
        (stat(10, 1, 100, "bash"), VALUE),
        (stat(20, 10, 150, "daemon"), VALUE),
        (stat(30, 10, 210, "app"), VALUE),
    ];
    assert_eq!(pids(&all, &granted), [30]);
    all[0].0.arg_start = 7;
    assert_eq!(
        pids(&all, &granted),
        [10, 20, 30],
        "the caller has exec'ed its program, and its children are the program's"
    );
}

#[test]
fn a_caller_of_the_same_tick_that_may_not_be_read_is_no_program() {
    let view = View {
        caller: (10, 200),
        since: 200,
        granted: None,
    };
    let all = [
        (stat(10, 1, 200, "sh"), DENIED),
        (stat(20, 10, 200, "app"), DENIED),
    ];
    assert_eq!(pids(&all, &view), [20]);
}
