//! create-cudawrap with the real cudawrap: a path is wrapped, upgraded and unwrapped
//! while it is run, and always runs. As an ordinary user where root can become one, so
//! that nothing is noted outside the sandbox.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

use getgpu_tests::OTHER;
use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, mounts, wait};

struct Site {
    sandbox: Sandbox,
    app: PathBuf,
}

impl Site {
    /// A node, and sim-cuda as the program `app` in a directory of the user who wraps it.
    fn new(node: &str) -> Self {
        let sandbox = Sandbox::new(node);
        let directory = sandbox.path("opt");
        let app = directory.join("app");
        let copy = format!(
            "mkdir opt && cp {} opt/app",
            sandbox.path("bin/sim-cuda").display()
        );
        sandbox
            .shell("sh", &format!("cd {} && {copy}", sandbox.root().display()))
            .run()
            .exits(0);
        if nix::unistd::geteuid().is_root() {
            for path in [&directory, &app] {
                nix::unistd::chown(path, Some(OTHER.into()), Some(OTHER.into())).unwrap();
            }
        }
        Self { sandbox, app }
    }

    fn user(&self, command: Command) -> Command {
        let command = command.env("XDG_STATE_HOME", self.sandbox.path("opt/state"));
        if nix::unistd::geteuid().is_root() {
            command.uid(OTHER)
        } else {
            command
        }
    }

    fn create(&self, arguments: &[&str]) -> Command {
        self.user(
            self.sandbox
                .command("create-cudawrap")
                .args(arguments)
                .args([&self.app]),
        )
    }

    fn start(&self) -> Running {
        self.user(self.sandbox.command(&self.app).args(["--run", "forever"]))
            .spawn()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.app.parent().unwrap()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != "state");
        names.sort();
        names
    }
}

#[test]
fn wrapped_run_undone_and_the_same_file_is_back() {
    let site = Site::new("mig4");
    let before = std::fs::metadata(&site.app).unwrap();
    site.create(&["-q"]).run().exits(0);
    assert_eq!(site.names(), ["CUDAWRAP_app", "app"]);
    site.create(&[]).run().exits(0);
    assert_eq!(
        site.names(),
        ["CUDAWRAP_app", "app"],
        "a second time changes nothing"
    );
    let running: Vec<Running> = (0..4).map(|_| site.start()).collect();
    site.sandbox.until_running(4);
    site.user(site.sandbox.command(&site.app)).run().exits(75);
    drop(running);
    wait::until("all are free", || site.sandbox.running() == 0);
    site.create(&["--status"]).run().exits(0);
    site.create(&["--undo", "-q"]).run().exits(0);
    assert_eq!(site.names(), ["app"]);
    let after = std::fs::metadata(&site.app).unwrap();
    assert_eq!(
        (before.ino(), before.mode(), before.len()),
        (after.ino(), after.mode(), after.len())
    );
    site.sandbox.assert_exclusive();
}

#[test]
fn the_path_runs_at_every_instant_while_two_wrap_and_undo_it() {
    let site = Site::new("a100x1");
    let app = site.app.display().to_string();
    // Unwrapped and without a choice the program meets others on the first device (99).
    // Anything else is a path that did not run.
    let script = format!(
        "for n in $(seq 400); do {app} >/dev/null; s=$?; case $s in 0|99) ;; *) echo FAILED $s ;; esac; done; echo over"
    );
    let runner = |disable: &str| {
        let command = site
            .user(site.sandbox.shell("bash", &script))
            .env("CUDAWRAP_DISABLE", disable);
        command.limit(Duration::from_secs(120)).spawn()
    };
    let mut runners = vec![runner("0"), runner("1"), runner("1")];
    let mut toggles = 0;
    while !runners.iter_mut().all(Running::is_over) {
        let both = [
            site.create(&["-q"]).spawn(),
            site.create(&["-q", "--undo"]).spawn(),
        ];
        for toggler in both {
            toggler.wait().exits(0);
            toggles += 1;
        }
    }
    for runner in runners {
        let outcome = runner.wait();
        assert_eq!(outcome.stdout, "over\n", "{}", outcome.stderr);
    }
    println!("1200 runs during {toggles} toggles, all of them ran");
    assert!(toggles >= 6);
}

#[test]
fn an_upgrade_over_the_link_is_mended_while_the_program_runs() {
    let site = Site::new("mig4");
    site.create(&["-q"]).run().exits(0);
    let running = site.start();
    site.sandbox.until_running(1);
    let copy = format!(
        "cp {} opt/new && mv opt/new opt/app",
        site.sandbox.path("bin/probe").display()
    );
    let script = format!("cd {} && {copy}", site.sandbox.root().display());
    site.user(site.sandbox.shell("sh", &script)).run().exits(0);
    let status = site.create(&["--status"]).run();
    assert!(
        status.exits(1).stdout.contains("upgraded over"),
        "{status:?}"
    );
    site.create(&["--repair", "-q"]).run().exits(0);
    assert_eq!(site.names(), ["CUDAWRAP_app", "app"]);
    let outcome = site.user(site.sandbox.command(&site.app)).run();
    assert!(
        outcome
            .exits(0)
            .stdout
            .contains("env CUDA_VISIBLE_DEVICES MIG-"),
        "the new one is wrapped"
    );
    drop(running);
}

#[test]
fn a_cudawrap_put_in_place_of_an_older_script_serves_the_links_that_exist() {
    let site = Site::new("mig4");
    let old = site
        .sandbox
        .file("share/gpus/cudawrap", "#!/bin/sh\nexit 1\n", 0o755);
    std::fs::rename(&site.app, site.app.with_file_name("CUDAWRAP_app")).unwrap();
    std::os::unix::fs::symlink(&old, &site.app).unwrap();
    let copy = format!(
        "cp --remove-destination {} {}",
        site.sandbox.path("bin/cudawrap").display(),
        old.display()
    );
    site.sandbox.shell("sh", &copy).run().exits(0);
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o555)).unwrap();
    site.sandbox
        .set_settings(&format!("getgpu = {:?}", site.sandbox.path("bin/getgpu")));
    let program = site.start();
    site.sandbox.until_running(1);
    assert!(site.sandbox.locked(), "leased");
    drop(program);
    site.create(&["--status"]).run().exits(0);
}

/// Links to one program, as of python, python3 and python3.11: which leads to which, and
/// whose directory it is.
struct Links {
    what: &'static str,
    /// Under `opt`: the link, and its text, in which `@` is the absolute `opt`.
    links: [(&'static str, &'static str); 2],
}

const LINKS: [Links; 4] = [
    Links {
        what: "in one directory",
        links: [("sys/a", "b"), ("sys/b", "app")],
    },
    Links {
        what: "absolute",
        links: [("sys/a", "@/sys/b"), ("sys/b", "@/sys/app")],
    },
    Links {
        what: "both to the program",
        links: [("sys/a", "app"), ("sys/b", "@/sys/app")],
    },
    Links {
        what: "across directories",
        links: [("venv/bin/a", "../../local/b"), ("local/b", "@/sys/app")],
    },
];

/// Prints what was run by what name, on which device, and how many descriptors hold a
/// lease.
const TELL: &str = "#!/bin/sh\necho \"program $CUDA_VISIBLE_DEVICES $(ls -l /proc/$$/fd 2>/dev/null | grep -c /lock)\"\n";

#[test]
fn links_to_a_program_and_the_program_are_wrapped_and_undone_in_any_order() {
    const ORDERS: [[usize; 3]; 6] = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
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
            .command("mount")
            .args(["-t", "tmpfs", "none", "/var/lib"])
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
                    .command("create-cudawrap")
                    .args(["-q"])
                    .args(words)
                    .args([&mine]),
            )
            .run()
        };
        let root = |words: &[&str]| {
            site.sandbox
                .command("create-cudawrap")
                .args(["-q"])
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
