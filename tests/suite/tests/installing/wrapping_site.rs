//! A directory in which a program is wrapped, run and replaced.

use std::path::PathBuf;

use getgpu_tests::{OTHER, as_other_user};
use harness::{Command, Running, Sandbox};

pub(crate) struct Site {
    pub(crate) sandbox: Sandbox,
    pub(crate) app: PathBuf,
}

impl Site {
    /// A node, and sim-cuda as the program `app` in a directory of the user who wraps it.
    pub(crate) fn new(node: &str) -> Self {
        let sandbox = Sandbox::new(node);
        let directory = sandbox.path("opt");
        let app = directory.join("app");
        let script = "mkdir ../opt && cp ../bin/sim-cuda ../opt/app";
        sandbox.shell("sh", script).run().exits(0);
        if nix::unistd::geteuid().is_root() {
            for path in [&directory, &app] {
                nix::unistd::chown(path, Some(OTHER.into()), Some(OTHER.into())).unwrap();
            }
        }
        Self { sandbox, app }
    }

    pub(crate) fn user(&self, command: Command) -> Command {
        let command = command.env("XDG_STATE_HOME", self.sandbox.path("opt/state"));
        as_other_user(command)
    }

    pub(crate) fn create(&self, arguments: &[&str]) -> Command {
        let command = self.sandbox.command("create-cudawrap").args(arguments);
        self.user(command.args([&self.app]))
    }

    pub(crate) fn start(&self) -> Running {
        self.user(self.sandbox.command(&self.app).args(["--run", "forever"]))
            .spawn()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.app.parent().unwrap()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != "state");
        names.sort();
        names
    }
}
