use super::*;

fn alone() -> Evidence {
    Evidence {
        same_caller: true,
        threads: 1,
        ..Evidence::default()
    }
}

fn beside(other: Other) -> Evidence {
    Evidence {
        others: vec![Other::default(), other],
        ..alone()
    }
}

#[test]
fn exclusion_comes_first() {
    let other = Other::default();
    for (what, evidence, agreed) in [
        ("a loop of short programs", alone(), true),
        ("beside programs that do not name it", beside(other), true),
        (
            "another caller",
            Evidence {
                same_caller: false,
                ..alone()
            },
            false,
        ),
        (
            "a thread of the caller may be about to use it",
            Evidence {
                threads: 3,
                ..alone()
            },
            false,
        ),
        (
            "a caller that is gone",
            Evidence {
                threads: 0,
                ..alone()
            },
            false,
        ),
        (
            "made in a background subshell that lives",
            Evidence {
                made_elsewhere: true,
                ..alone()
            },
            false,
        ),
        (
            "a program without the variable holds the lease",
            Evidence {
                held: true,
                ..alone()
            },
            false,
        ),
        (
            "a program with the variable",
            Evidence {
                named: true,
                ..alone()
            },
            false,
        ),
        (
            "a cudawrap that has no lease yet",
            beside(Other {
                names: true,
                ..other
            }),
            false,
        ),
        (
            "a job that is being started",
            beside(Other {
                younger: true,
                forked: true,
                ..other
            }),
            false,
        ),
        (
            "a subshell older than the reservation",
            beside(Other {
                forked: true,
                ..other
            }),
            true,
        ),
        (
            "a program that may not be read",
            beside(Other {
                younger: true,
                hidden: true,
                ..other
            }),
            false,
        ),
        (
            "an older one that may not be read",
            beside(Other {
                hidden: true,
                ..other
            }),
            true,
        ),
        (
            "a younger program",
            beside(Other {
                younger: true,
                ..other
            }),
            true,
        ),
    ] {
        assert_eq!(agrees(&evidence), agreed, "{what}");
    }
}

#[test]
fn a_pipe_has_two_ends() {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let pipes = Pipes::of_all(std::process::id() as i32);
    let name = |fd: &std::os::fd::OwnedFd| {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert!(pipes.read.contains(&name(&reader)) && pipes.written.contains(&name(&writer)));
}
