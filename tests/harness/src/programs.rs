//! Simulated programs of a sandbox: started without any of our commands, counted, waited
//! for. They stand for users who never heard of the commands.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Command, Running, Sandbox, wait};

impl Sandbox {
    /// Starts a program with a context on each of these devices, without any of our
    /// commands, and waits until all have one.
    #[track_caller]
    pub fn occupy(&self, uuids: &[String], flags: &str) -> Vec<Running> {
        let before = self.running();
        let start = |uuid: &String| {
            let flags = format!("--run forever {flags}");
            self.command("sim-cuda")
                .visible(uuid)
                .args(flags.split_ascii_whitespace())
                .limit(Duration::MAX)
                .spawn()
        };
        let programs = uuids.iter().map(start).collect();
        self.until_running(before + uuids.len());
        programs
    }

    /// A program under cudawrap that runs until it is killed.
    pub fn leased(&self) -> Command {
        self.words("cudawrap -- sim-cuda --run forever")
    }

    /// Kills every simulated program of this sandbox, also one that is not the test's own
    /// child.
    pub fn kill_programs(&self) {
        for pid in self.processes() {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim_end() == "sim-cuda" {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    /// Waits until so many simulated programs have a context.
    #[track_caller]
    pub fn until_running(&self, count: usize) {
        wait::until(&format!("{count} programs have a context"), || {
            self.running() == count
        });
    }

    /// How many simulated programs have a context now.
    pub fn running(&self) -> usize {
        self.folder().running().map_or(0, |running| running.len())
    }

    /// Waits until this file exists, which a program of the test makes.
    #[track_caller]
    pub fn until_file(&self, name: &str) {
        wait::until(&format!("{name} exists"), || self.path(name).exists());
    }
}
