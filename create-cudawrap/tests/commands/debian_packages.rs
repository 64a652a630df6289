//! A real dpkg with a database of its own installs, upgrades and removes a package while
//! its program is wrapped. Without dpkg, dpkg-deb and dpkg-divert the test says so and
//! passes.

use std::process::Command;

use crate::support::{Said, Sandbox, said};

struct Debian {
    sandbox: Sandbox,
}

impl Debian {
    fn new() -> Option<Self> {
        let missing = ["dpkg", "dpkg-deb", "dpkg-divert"]
            .iter()
            .find(|tool| Command::new(tool).arg("--version").output().is_err());
        if let Some(tool) = missing {
            harness::skip::say(&format!("{tool} is not installed"));
            return None;
        }
        let debian = Self {
            sandbox: Sandbox::new(),
        };
        debian.sandbox.run_sh(
            "cd state && mkdir -p db/updates db/info db/triggers && touch db/status db/available",
        );
        debian.sandbox.run_sh("chmod -R a+rwX state");
        Some(debian)
    }

    /// Installs a version of the package, whose only file is `app/x`.
    fn install(&self, version: &str) {
        let target = self.sandbox.path("app");
        let line = format!(
            "set -e; rm -rf state/p; mkdir -p state/p/DEBIAN 'state/p{target}'; \
             printf '#!/bin/sh\\necho {version} \"$@\"\\n' > 'state/p{target}/x'; chmod 755 'state/p{target}/x'; \
             printf 'Package: amber\\nVersion: {version}\\nArchitecture: all\\nMaintainer: n <n@n>\\nDescription: d\\n' \
             > state/p/DEBIAN/control; dpkg-deb --root-owner-group -b state/p state/p.deb >/dev/null; chmod a+r state/p.deb",
            target = target.display()
        );
        self.sandbox.run_sh(&line);
        self.dpkg(&[
            "--install",
            &self.sandbox.path("state/p.deb").to_string_lossy(),
        ]);
    }

    fn dpkg(&self, args: &[&str]) {
        let mut command = self.prepared(Command::new("dpkg"));
        let output = command
            .args(["--force-not-root", "--force-bad-path", "--log=/dev/null"])
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "dpkg {args:?}: {}",
            said(output).err
        );
    }

    fn create(&self, args: &[&str]) -> Said {
        said(
            self.prepared(self.sandbox.command())
                .args(args)
                .output()
                .unwrap(),
        )
    }

    fn prepared(&self, command: Command) -> Command {
        let mut command = self.sandbox.prepared(command);
        command
            .env("DPKG_ADMINDIR", self.sandbox.path("state/db"))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}

#[test]
fn with_a_diversion_an_upgrade_keeps_the_wrap() {
    let Some(debian) = Debian::new() else { return };
    let sandbox = &debian.sandbox;
    debian.install("1");
    let refused = debian.create(&["x"]);
    assert!(
        refused.code == 1 && refused.err.contains("belongs to the package amber"),
        "{}",
        refused.err
    );
    let wrapped = debian.create(&["--divert", "x"]);
    assert_eq!(wrapped.code, 0, "{}", wrapped.err);
    debian.install("2");
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "x"]);
    assert_eq!(debian.create(&["--status", "x"]).out, "x: wrapped\n");
    let undone = debian.create(&["--undo", "x"]);
    assert_eq!(undone.code, 0, "{}", undone.err);
    assert_eq!(sandbox.names("app"), ["x"]);
    debian.install("3");
    assert_eq!(sandbox.output_of("app/x"), "3 a b");
    assert_eq!(sandbox.names("app"), ["x"]);
    debian.dpkg(&["--remove", "amber"]);
    assert!(!sandbox.exists("app/x"));
}

#[test]
fn without_one_an_upgrade_replaces_the_link_and_repair_wraps_the_new_program() {
    let Some(debian) = Debian::new() else { return };
    let sandbox = &debian.sandbox;
    debian.install("1");
    assert_eq!(debian.create(&["--force", "x"]).code, 0);
    debian.install("2");
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    let status = debian.create(&["--status", "--all"]);
    assert!(
        status.code == 1 && status.out.contains("/x: upgraded over"),
        "{}",
        status.out
    );
    let repaired = debian.create(&["--repair", "--all"]);
    assert_eq!(repaired.code, 0, "{}", repaired.err);
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    assert_eq!(debian.create(&["--status", "x"]).out, "x: wrapped\n");
    // Removed while wrapped: the package takes the link with it, and the program stays
    // until undone.
    debian.dpkg(&["--remove", "amber"]);
    let broken = debian.create(&["--status", "--all"]);
    assert!(broken.out.contains("/x: broken"), "{}", broken.out);
    assert_eq!(debian.create(&["--undo", "--all"]).code, 0);
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
}

#[test]
fn a_diversion_of_what_is_wrapped_already_and_one_that_is_in_the_way_are_told() {
    let Some(debian) = Debian::new() else { return };
    let sandbox = &debian.sandbox;
    debian.install("1");
    assert_eq!(debian.create(&["--force", "x"]).code, 0);
    let diverted = debian.create(&["--divert", "x"]);
    assert_eq!(
        (diverted.code, diverted.err),
        (
            0,
            "create-cudawrap: x: is already wrapped; from now on dpkg writes it to CUDAWRAP_x\n"
                .to_owned()
        )
    );
    let again = debian.create(&["--divert", "x"]);
    assert_eq!(
        again.err,
        "create-cudawrap: x: is already wrapped; nothing changed\n"
    );
    debian.install("2");
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    assert_eq!(debian.create(&["--undo", "x"]).code, 0);
    // The administrator has diverted it already.
    let path = sandbox.path("app/x").display().to_string();
    let to = format!("{path}.orig");
    let words = ["--local", "--no-rename", "--divert", &to, "--add", &path];
    let mut command = debian.prepared(Command::new("dpkg-divert"));
    assert!(command.args(words).output().unwrap().status.success());
    let refused = debian.create(&["--divert", "x"]);
    assert!(
        refused.code == 1
            && refused.err.contains("failed\n")
            && refused.err.ends_with(&format!(
                "create-cudawrap: hint: to see the diversion: dpkg-divert --list '*{path}'\n"
            )),
        "{}",
        refused.err
    );
    assert_eq!(sandbox.names("app"), ["x"]);
}

/// A dpkg-divert that ends create-cudawrap before or after it does its work.
fn deadly_divert(debian: &Debian, moment: &str) -> String {
    let (before, after) = if moment == "before" {
        ("kill -9 $PPID; exit 1", "")
    } else {
        ("", "kill -9 $PPID")
    };
    let real = harness::skip::tool("dpkg-divert").unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--truename*) exec {real} \"$@\";; esac\n{before}\n{real} \"$@\"\n{after}\n",
        real = real.display()
    );
    debian
        .sandbox
        .run_sh("rm -rf links/deadly && mkdir -p links/deadly && chmod 777 links/deadly");
    debian.sandbox.program("links/deadly/dpkg-divert", &script);
    format!(
        "{}:/usr/sbin:/usr/bin:/sbin:/bin",
        debian.sandbox.path("links/deadly").display()
    )
}

/// Killed where the diversion begins or ends, and then an upgrade: the newest version is
/// what runs after --repair, and --undo leaves nothing.
#[test]
fn a_crash_where_a_diversion_begins_or_ends_loses_no_version() {
    for (undo, moment) in [
        (false, "before"),
        (false, "after"),
        (true, "before"),
        (true, "after"),
    ] {
        for goals in [
            ["--repair", "--undo"],
            ["--undo", "--undo"],
            ["--divert", "--undo"],
        ] {
            let Some(debian) = Debian::new() else { return };
            let (sandbox, what) = (&debian.sandbox, format!("undo {undo}, {moment}, {goals:?}"));
            debian.install("1");
            let args = if undo {
                ["--undo", "x"]
            } else {
                ["--divert", "x"]
            };
            if undo {
                assert_eq!(debian.create(&["--divert", "x"]).code, 0);
            }
            let path = deadly_divert(&debian, moment);
            let killed = debian
                .prepared(sandbox.command())
                .env("PATH", path)
                .args(args)
                .output()
                .unwrap();
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&killed.status),
                Some(9),
                "{what}"
            );
            assert_eq!(sandbox.output_of("app/x"), "1 a b", "{what}");
            debian.install("2");
            let first = debian.create(&[goals[0], "x"]);
            // Where an upgrade came over the link both versions are kept until --repair.
            if first.code != 0 {
                assert!(
                    first.err.contains("--repair") || first.err.contains("both are kept"),
                    "{what}: {}",
                    first.err
                );
                assert_eq!(debian.create(&["--repair", "x"]).code, 0, "{what}");
            }
            assert_eq!(
                sandbox.output_of("app/x"),
                "2 a b",
                "{what}: {:?}",
                sandbox.names("app")
            );
            let undone = debian.create(&[goals[1], "x"]);
            assert_eq!(undone.code, 0, "{what}: {}", undone.err);
            assert_eq!(sandbox.names("app"), ["x"], "{what}");
            debian.install("3");
            assert_eq!(
                (sandbox.output_of("app/x"), sandbox.names("app")),
                ("3 a b".to_owned(), vec!["x".to_owned()]),
                "{what}"
            );
        }
    }
}

/// The diversion is known by dpkg's own list, and ended or the reason not to undo: an
/// upgrade would land where nothing runs it.
#[test]
fn undo_without_dpkg_divert_in_path_leaves_no_diversion_in_silence() {
    let Some(debian) = Debian::new() else { return };
    let sandbox = &debian.sandbox;
    debian.install("1");
    assert_eq!(debian.create(&["--divert", "x"]).code, 0);
    let undone = said(
        debian
            .prepared(sandbox.command())
            .env("PATH", "/nonexistent")
            .args(["--undo", "x"])
            .output()
            .unwrap(),
    );
    let list = std::fs::read_to_string(sandbox.path("state/db/diversions")).unwrap_or_default();
    match undone.code {
        0 => assert!(!list.contains("CUDAWRAP_x"), "{list}"),
        _ => assert!(
            undone.err.contains("dpkg-divert") && sandbox.exists("app/CUDAWRAP_x"),
            "{}",
            undone.err
        ),
    }
    // A diversion that is left over without a wrap is shown and ended.
    assert_eq!(debian.create(&["--undo", "x"]).code, 0);
    let hidden = sandbox.path("app/CUDAWRAP_x");
    let divert = [
        "--local",
        "--no-rename",
        "--divert",
        hidden.to_str().unwrap(),
        "--add",
    ];
    let mut command = debian.prepared(Command::new("dpkg-divert"));
    assert!(
        command
            .args(divert)
            .arg(sandbox.path("app/x"))
            .output()
            .unwrap()
            .status
            .success()
    );
    let status = debian.create(&["--status", "x"]);
    assert!(
        status.code == 1 && status.out.contains("dpkg diverts it"),
        "{}",
        status.out
    );
    assert_eq!(debian.create(&["--repair", "x"]).code, 0);
    assert_eq!(debian.create(&["--status", "x"]).out, "x: plain\n");
    debian.install("2");
    assert_eq!(
        (sandbox.output_of("app/x"), sandbox.names("app")),
        ("2 a b".to_owned(), vec!["x".to_owned()])
    );
}
