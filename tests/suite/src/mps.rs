//! MPS in a sandbox: a node with one device, clients on it, and what of daemons, keepers
//! and directories is there now. All of it is looked up in /proc and in the file system,
//! without any code of the commands themselves.

use std::fs;
use std::path::{Path, PathBuf};

use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::wrapped::Facts;

/// NVIDIA's program.
pub const CONTROL: &str = "nvidia-cuda-mps-control";

/// A node with one device, whose daemons end with the test.
#[derive(Debug)]
pub struct Node {
    pub sandbox: Sandbox,
    pub uuid: String,
}

impl Node {
    /// With the stand-in.
    pub fn stand_in() -> Self {
        let node = Self::bare();
        let program = node.sandbox.path("bin/mps-control");
        fs::hard_link(&program, program.with_file_name(CONTROL)).expect("the stand-in");
        node
    }

    /// With what the machine has.
    pub fn bare() -> Self {
        let sandbox = Sandbox::new("h200x1");
        let uuid = sandbox.uuids().remove(0);
        Self { sandbox, uuid }
    }

    /// One with the stand-in, then one with the real daemon.
    pub fn each(test: impl Fn(&Self)) {
        test(&Self::stand_in());
        if !skip::lacks(&[Need::Tool(CONTROL)]) {
            test(&Self::bare());
        }
    }

    /// cudawrap --mps with this share and this program.
    pub fn share(&self, share: &str, words: &[&str]) -> Command {
        self.sandbox
            .command("cudawrap")
            .args(["--share", share, "--mps", "--"])
            .args(words)
    }

    /// A client that runs until `work/go` is there, and has told of itself.
    pub fn client(&self, name: &str, change: impl FnOnce(Command) -> Command) -> Client {
        let name = format!("work/{name}");
        let [out, go] = [&name, "work/go"].map(|name| self.sandbox.text(name));
        let command = self.share("1/32", &["probe", "--out", &out, "--until", &go]);
        Client {
            running: change(command).spawn(),
            out: out.into(),
        }
    }

    /// So many clients that have told of themselves, and what they said.
    #[track_caller]
    pub fn clients(
        &self,
        count: u32,
        change: impl Fn(u32, Command) -> Command,
    ) -> (Vec<Client>, Vec<Facts>) {
        let client = |n| self.client(&format!("client{n}"), |command| change(n, command));
        let mut clients: Vec<Client> = (0..count).map(client).collect();
        let facts = clients.iter_mut().map(Client::facts).collect();
        (clients, facts)
    }

    /// A client that has told of itself.
    #[track_caller]
    pub fn started(&self, name: &str) -> Client {
        let mut client = self.client(name, |command| command);
        client.facts();
        client
    }

    pub fn place(&self) -> PathBuf {
        self.place_of(nix::unistd::geteuid().as_raw())
    }

    /// A user's private directory.
    pub fn place_of(&self, uid: u32) -> PathBuf {
        format!("/tmp/getgpu-mps-{uid}/{}", self.uuid).into()
    }

    /// The daemons on this device whose variable for pipes is such a one.
    fn daemons_at(&self, fits: impl Fn(&str) -> bool) -> Vec<i32> {
        processes("nvidia-cuda-mps", |pid| {
            let environment = words(pid, "environ");
            let mut pipes = environment
                .iter()
                .filter_map(|word| word.strip_prefix("CUDA_MPS_PIPE_DIRECTORY="));
            pipes.any(&fits) && words(pid, "cmdline").contains(&"-d".to_owned())
        })
    }

    /// The daemons of a user on this device.
    pub fn daemons_of(&self, uid: u32) -> Vec<i32> {
        let place = format!("{}/pipe", self.place_of(uid).display());
        self.daemons_at(|pipe| pipe == place)
    }

    /// The daemons of all users and jobs on this device.
    pub fn daemons_of_all(&self) -> Vec<i32> {
        self.daemons_at(|pipe| pipe.contains(&self.uuid))
    }

    /// This user's daemons on this device.
    pub fn daemons(&self) -> Vec<i32> {
        self.daemons_of(nix::unistd::geteuid().as_raw())
    }

    /// The keepers of all users on this device.
    pub fn keepers(&self) -> Vec<i32> {
        processes("cudawrap-mps", |pid| {
            words(pid, "cmdline").contains(&self.uuid)
        })
    }

    /// Waits until nothing of it is there any more.
    #[track_caller]
    pub fn until_gone(&self) {
        wait::until("daemon, keeper and directory are gone", || {
            self.daemons().is_empty() && self.keepers().is_empty() && !self.place().exists()
        });
    }

    /// Ends all clients.
    pub fn go(&self) {
        self.sandbox.file("work/go", "", 0o644);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for pid in self.keepers().into_iter().chain(self.daemons_of_all()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        // Whoever's they are, and whichever job's.
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        for user in entries(Path::new("/tmp")).filter(|user| name(user).starts_with("getgpu-mps-"))
        {
            for place in entries(&user.path()).filter(|place| name(place).ends_with(&self.uuid)) {
                let _ = fs::remove_dir_all(place.path());
                let _ = fs::remove_dir(user.path());
            }
        }
    }
}

/// A client that runs until [`Node::go`].
#[derive(Debug)]
pub struct Client {
    pub running: Running,
    out: PathBuf,
}

impl Client {
    /// What it saw, as soon as it has told.
    #[track_caller]
    pub fn facts(&mut self) -> Facts {
        let out = self.out.clone();
        wait::until("the client runs", || out.exists() || self.running.is_over());
        assert!(out.exists(), "ended early: {:#?}", self.running);
        Facts::read(&out)
    }
}

/// Programs of this name that `fits` is true of.
pub fn processes(name: &str, fits: impl Fn(i32) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let called = |pid: i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    pids.filter(|pid| called(*pid) && fits(*pid)).collect()
}

/// The NUL-separated words of a file in /proc; a zombie has none.
pub fn words(pid: i32, file: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .split_terminator('\0')
        .map(str::to_owned)
        .collect()
}

/// Kills a process and waits until it is dead. Its memory is given back first: what it listens
/// on is closed when the last of its threads has exited.
pub fn end(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it was there");
    wait::until("it is dead", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        threads == 0 || threads == 1 && stat.contains(") Z ")
    });
}

/// How many daemons have ever been started there.
pub fn starts_in_log(place: &Path) -> usize {
    fs::read_to_string(place.join("log/control.log"))
        .expect("its log")
        .matches("Starting control daemon")
        .count()
}
