//! A real dpkg with a database of its own installs, upgrades and removes a package while
//! its program is wrapped. Without dpkg, dpkg-deb and dpkg-divert the test says so and
//! passes.

use std::process::Command;

use harness::Outcome;
use harness::skip::{self, Need};

use crate::support::{Sandbox, said};

struct Debian {
    sandbox: Sandbox,
}

impl Debian {
    fn new() -> Option<Self> {
        if skip::lacks(&["dpkg", "dpkg-deb", "dpkg-divert"].map(Need::Tool)) {
            return None;
        }
        let sandbox = Sandbox::new();
        sandbox.run_sh("cd state && mkdir -p db/updates db/info db/triggers");
        sandbox.run_sh("cd state && touch db/status db/available && chmod -R a+rwX .");
        Some(Self { sandbox })
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
        let package = self.sandbox.path("state/p.deb");
        self.dpkg(&["--install", &package.to_string_lossy()]);
    }

    fn dpkg(&self, args: &[&str]) {
        let mut command = self.prepared(Command::new("dpkg"));
        command.args(["--force-not-root", "--force-bad-path", "--log=/dev/null"]);
        said(command.args(args)).exits(0);
    }

    /// The administrator's own command, as docs/GUIDE.md has it.
    fn divert(&self, what: &str) {
        let [path, to] = ["app/x", "app/CUDAWRAP_x"].map(|name| self.sandbox.path(name));
        let mut command = self.prepared(Command::new("dpkg-divert"));
        command.args(["--local", "--no-rename", "--divert"]);
        said(command.arg(to).arg(what).arg(path)).exits(0);
    }

    fn create(&self, args: &[&str]) -> Outcome {
        said(self.prepared(self.sandbox.command()).args(args))
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
    refused.exits(1).mentions("belongs to the package amber");
    debian.create(&["--force", "x"]).exits(0);
    debian.divert("--add");
    debian.install("2");
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "x"]);
    assert_eq!(debian.create(&["--status", "x"]).stdout, "x: wrapped\n");
    debian.divert("--remove");
    debian.create(&["--undo", "x"]).exits(0);
    assert_eq!(sandbox.names("app"), ["x"]);
    debian.install("3");
    assert_eq!(sandbox.output_of("app/x"), "3 a b");
    assert_eq!(sandbox.names("app"), ["x"]);
    debian.dpkg(&["--remove", "amber"]);
    assert!(!sandbox.exists("app/x"));
}

#[test]
fn an_undiverted_upgrade_replaces_the_link_and_repair_rewraps() {
    let Some(debian) = Debian::new() else { return };
    let sandbox = &debian.sandbox;
    debian.install("1");
    debian.create(&["--force", "x"]).exits(0);
    debian.install("2");
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    let status = debian.create(&["--status", "--all"]);
    status.exits(1).shows("/x: upgraded over");
    debian.create(&["--repair", "--all"]).exits(0);
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
    assert_eq!(debian.create(&["--status", "x"]).stdout, "x: wrapped\n");
    // Removed while wrapped: the package takes the link with it, and the program stays
    // until undone.
    debian.dpkg(&["--remove", "amber"]);
    let broken = debian.create(&["--status", "--all"]);
    broken.shows("/x: broken");
    debian.create(&["--undo", "--all"]).exits(0);
    assert_eq!(sandbox.output_of("app/x"), "2 a b");
}
