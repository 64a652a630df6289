//! Links to a program and the program itself are wrapped and undone in any order, and by a
//! user before the administrator.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use getgpu_tests::OTHER;
use harness::mounts;
use harness::skip::{self, Need};

use crate::wrapping_site::Site;

/// Links to one program, as of python, python3 and python3.11: which leads to which, and
/// whose directory it is.
struct Links {
    what: &'static str,
    /// Under `opt`: the link, and its text, in which `@` is the absolute `opt`.
    links: [(&'static str, &'static str); 2],
}

#[rustfmt::skip]
const LINKS: [Links; 4] = [
    Links { what: "in one directory", links: [("sys/a", "b"), ("sys/b", "app")] },
    Links { what: "absolute", links: [("sys/a", "@/sys/b"), ("sys/b", "@/sys/app")] },
    Links { what: "both to the program", links: [("sys/a", "app"), ("sys/b", "@/sys/app")] },
    Links { what: "across directories",
        links: [("venv/bin/a", "../../local/b"), ("local/b", "@/sys/app")] },
];

/// Prints what was run by what name, on which device, and how many descriptors hold a
/// lease.
const TELL: &str = "#!/bin/sh\necho \"program $CUDA_VISIBLE_DEVICES $(ls -l /proc/$$/fd 2>/dev/null | grep -c /lock)\"\n";

#[test]
fn a_program_and_its_links_are_wrapped_and_undone_in_any_order() {
    #[rustfmt::skip]
    const ORDERS: [[usize; 3]; 6] = [
        [0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0],
    ];
    let mut starts = 0;
    for layout in &LINKS {
        let site = Site::new("mig4");
        let opt = site.sandbox.path("opt");
        let program = site.sandbox.file("opt/sys/app", TELL, 0o755);
        let mut paths = Vec::new();
        for (link, text) in layout.links {
            let (link, text) = (opt.join(link), text.replace('@', opt.to_str().unwrap()));
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(text, &link).unwrap();
            paths.push(link);
        }
        paths.push(program);
        site.sandbox
            .shell(
                "sh",
                &format!(
                    "chown -h -R {0}:{0} {1} 2>/dev/null || true",
                    OTHER,
                    opt.display()
                ),
            )
            .run()
            .exits(0);
        let before = identities(&paths);
        let create = |words: &[&str], order: &[usize]| {
            let paths = order.iter().map(|place| &paths[*place]);
            site.user(
                site.sandbox
                    .command("create-cudawrap")
                    .args(words)
                    .args(paths),
            )
            .run()
        };
        for (number, order) in ORDERS.iter().enumerate() {
            // All by one command, or each by one of its own, in between of which every
            // path runs.
            for step in if number % 2 == 0 {
                vec![&order[..]]
            } else {
                order.chunks(1).collect()
            } {
                create(&["-q"], step).exits(0);
                for path in &paths {
                    let outcome = site.user(site.sandbox.command(path)).run();
                    outcome.exits(0);
                    let said: Vec<&str> = outcome.stdout.split_whitespace().collect();
                    let what = format!(
                        "{}, {order:?}, {}: {outcome:#?}",
                        layout.what,
                        path.display()
                    );
                    // What is not wrapped yet runs as it always did.
                    let wrapped = said.len() == 3;
                    assert_eq!(said[0], "program", "{what}");
                    assert!(
                        !wrapped
                            || (site.sandbox.uuids().contains(&said[1].to_owned())
                                && said[2] == "2"),
                        "{what}"
                    );
                    assert!(wrapped || step.len() == 1, "{what}");
                    assert_eq!(outcome.stderr, "", "{what}");
                    starts += 1;
                }
            }
            let status = create(&["--status"], order);
            assert_eq!(
                status
                    .stdout
                    .lines()
                    .filter(|line| line.contains(": wrapped"))
                    .count(),
                3,
                "{status:#?}"
            );
            create(&["--repair", "-q"], order).exits(0);
            let undo = ORDERS[(number * 5 + 2) % ORDERS.len()];
            create(&["--undo", "-q"], &undo).exits(0);
            assert_eq!(
                identities(&paths),
                before,
                "{}, {order:?}, undone in {undo:?}",
                layout.what
            );
            let left = site
                .sandbox
                .shell("sh", &format!("find {} -name '*CUDAWRAP*'", opt.display()))
                .run();
            assert_eq!(left.stdout, "", "{}, {order:?}", layout.what);
        }
    }
    println!("{starts} starts of links to a program, wrapped in any order: all ran it");
}

fn identities(paths: &[PathBuf]) -> Vec<(u64, u32, PathBuf)> {
    let identity = |path: &PathBuf| {
        let meta = path.symlink_metadata().unwrap();
        (
            meta.ino(),
            meta.mode(),
            std::fs::read_link(path).unwrap_or_default(),
        )
    };
    paths.iter().map(identity).collect()
}

/// A user wraps a link of their own to the system's program, which the administrator
/// wraps later.
#[test]
fn what_a_user_wraps_may_be_wrapped_by_the_administrator_later() {
    if skip::lacks(&[Need::Root, Need::Mounts]) {
        return;
    }
    let site = Site::new("mig4");
    // The note of what root has wrapped is the machine's: another one for this test.
    mounts::apart(|| {
        site.sandbox
            .words("mount -t tmpfs none /var/lib")
            .run()
            .exits(0);
        let program = site.sandbox.file("sys/tool", TELL, 0o755);
        std::os::unix::fs::symlink(&program, site.app.with_file_name("tool")).unwrap();
        nix::unistd::fchownat(
            nix::fcntl::AT_FDCWD,
            &site.app.with_file_name("tool"),
            Some(OTHER.into()),
            None,
            nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .unwrap();
        let mine = site.app.with_file_name("tool");
        let paths = [mine.clone(), program.clone()];
        let before = identities(&paths);
        let user = |words: &[&str]| {
            site.user(
                site.sandbox
                    .words("create-cudawrap -q")
                    .args(words)
                    .args([&mine]),
            )
            .run()
        };
        let root = |words: &[&str]| {
            site.sandbox
                .words("create-cudawrap -q")
                .args(words)
                .args([&program])
                .run()
        };
        let runs = || {
            let outcome = site.user(site.sandbox.command(&mine)).run();
            outcome.exits(0);
            let said: Vec<&str> = outcome.stdout.split_whitespace().collect();
            assert!(said.len() == 3 && said[2] == "2", "{outcome:#?}");
        };
        user(&[]).exits(0);
        root(&[]).exits(0);
        runs();
        user(&["--status"]).exits(0);
        user(&["--undo"]).exits(0);
        runs();
        user(&[]).exits(0);
        root(&["--undo"]).exits(0);
        user(&[]).exits(0);
        runs();
        user(&["--undo"]).exits(0);
        assert_eq!(identities(&paths), before);
    });
}
