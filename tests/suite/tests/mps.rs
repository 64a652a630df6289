//! `cudawrap --mps`: one daemon per user and device, however many start together, and none behind the last client, however that ended.
//! Each test runs with a stand-in for nvidia-cuda-mps-control, and with the real one where it is installed, which runs without a driver.
#![allow(clippy::unwrap_used, reason = "a panic in a test is a failed test with a place")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, Signal, wait};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::kill;
use nix::unistd::Pid;

const CONTROL: &str = "nvidia-cuda-mps-control";

/// A node with one device, whose daemons end with the test.
struct Node {
    sandbox: Sandbox,
    uuid: String,
}

impl Node {
    /// With the stand-in.
    fn new() -> Self {
        let node = Self::bare();
        fs::hard_link(node.sandbox.path("bin/mps-control"), node.sandbox.path("bin").join(CONTROL)).unwrap();
        node
    }

    /// With what the machine has.
    fn bare() -> Self {
        let sandbox = Sandbox::new("h200x1");
        let uuid = sandbox.uuids().remove(0);
        Self { sandbox, uuid }
    }

    /// One with the stand-in, then one with the real daemon.
    fn each(test: impl Fn(&Self)) {
        test(&Self::new());
        if !skip::lacks(&[Need::Tool(CONTROL)]) {
            test(&Self::bare());
        }
    }

    fn share(&self, share: &str, words: &[&str]) -> Command {
        self.sandbox.command("cudawrap").args(["-v", "--share", share, "--mps", "--"]).args(words)
    }

    /// A client that runs until `work/go` is there, and has told of itself.
    fn client(&self, name: &str, change: impl FnOnce(Command) -> Command) -> Client {
        let (out, go) = (self.sandbox.path(&format!("work/{name}")), self.sandbox.text("work/go"));
        let words = ["probe", "--out", &out.display().to_string(), "--until", &go].map(str::to_owned);
        let command = self.share("1/32", &words.each_ref().map(String::as_str));
        Client { running: change(command).spawn(), out }
    }

    fn place(&self) -> PathBuf {
        self.place_of(nix::unistd::geteuid().as_raw())
    }

    fn place_of(&self, uid: u32) -> PathBuf {
        Path::new("/tmp").join(format!("getgpu-mps-{uid}")).join(&self.uuid)
    }

    /// The daemons of a user on this device.
    fn daemons_of(&self, uid: u32) -> Vec<i32> {
        let mark = format!("CUDA_MPS_PIPE_DIRECTORY={}/pipe", self.place_of(uid).display());
        processes("nvidia-cuda-mps", |pid| {
            words(pid, "environ").contains(&mark) && words(pid, "cmdline").contains(&"-d".to_owned())
        })
    }

    fn daemons(&self) -> Vec<i32> {
        self.daemons_of(nix::unistd::geteuid().as_raw())
    }

    /// The keepers of all users on this device.
    fn keepers(&self) -> Vec<i32> {
        processes("cudawrap-mps", |pid| words(pid, "cmdline").contains(&self.uuid))
    }

    /// Waits until nothing of it is there any more.
    #[track_caller]
    fn until_gone(&self) {
        wait::until("daemon, keeper and directory are gone", || {
            self.daemons().is_empty() && self.keepers().is_empty() && !self.place().exists()
        });
    }

    fn go(&self) {
        self.sandbox.file("work/go", "", 0o644);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for uid in [nix::unistd::geteuid().as_raw(), 1001, 1002] {
            for pid in self.keepers().into_iter().chain(self.daemons_of(uid)) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = fs::remove_dir_all(self.place_of(uid));
        }
    }
}

struct Client {
    running: Running,
    out: PathBuf,
}

impl Client {
    /// What it saw, as soon as it has told.
    #[track_caller]
    fn facts(&mut self) -> Facts {
        let out = self.out.clone();
        wait::until("the client runs", || out.exists() || self.running.is_over());
        assert!(out.exists(), "ended early: {:#?}", self.running);
        Facts::read(&out)
    }
}

fn processes(name: &str, fits: impl Fn(i32) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let called = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    pids.filter(|pid| called(*pid) && fits(*pid)).collect()
}

/// The NUL-separated words of a file in /proc; a zombie has none.
fn words(pid: i32, file: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).split_terminator('\0').map(str::to_owned).collect()
}

fn end(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    wait::until("it is dead", || words(pid, "cmdline").is_empty());
}

fn starts_in_log(place: &Path) -> usize {
    fs::read_to_string(place.join("log/control.log")).unwrap().matches("Starting control daemon").count()
}

#[test]
fn a_burst_has_one_daemon_and_each_its_part() {
    Node::each(|node| {
        let mut clients: Vec<Client> = (0..32).map(|n| node.client(&format!("client{n}"), |c| c)).collect();
        let facts: Vec<Facts> = clients.iter_mut().map(Client::facts).collect();
        let (place, daemons) = (node.place(), node.daemons());
        assert_eq!((daemons.len(), node.keepers().len(), starts_in_log(&place)), (1, 1, 1));
        for path in [place.parent().unwrap(), &place, &place.join("pipe"), &place.join("log")] {
            let meta = fs::symlink_metadata(path).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.uid()), (0o700, nix::unistd::geteuid().as_raw()), "{path:?}");
        }
        assert!(place.join("pipe").as_os_str().len() < 90);
        let environment = words(daemons[0], "environ");
        assert!(environment.contains(&format!("CUDA_VISIBLE_DEVICES={}", node.uuid)), "{environment:?}");
        assert!(!environment.iter().any(|entry| entry.starts_with("SIM_NODE") || entry.starts_with("HOME")));
        let listing = node.sandbox.getgpu(["--list", "--json"]).run().stdout;
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        let total = listing["devices"][0]["memory_total"].as_u64().unwrap();
        for facts in facts {
            let get = |name: &str| facts.get(&format!("env {name}")).unwrap_or("").to_owned();
            assert_eq!(facts.visible(), Some(node.uuid.as_str()));
            assert_eq!(get("CUDA_MPS_PIPE_DIRECTORY"), place.join("pipe").display().to_string());
            assert_eq!(get("CUDA_MPS_LOG_DIRECTORY"), place.join("log").display().to_string());
            assert_eq!(get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "3.12");
            assert_eq!(get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), format!("0={}M", (total / 32) >> 20));
            let [(_, flags)] = &facts.descriptors_of(&place.join("lock"))[..] else { panic!("{facts:#?}") };
            assert_eq!(i32::from_str_radix(flags.split(' ').next().unwrap(), 8).unwrap() & 0o3, 0, "read-only");
            assert_eq!((facts.get("children"), facts.descriptors_of(&node.sandbox.lock()).len()), (Some(""), 2));
        }
        node.go();
        for client in clients {
            client.running.wait().exits(0);
        }
        node.until_gone();
    });
}

#[test]
fn nothing_is_left_when_every_client_is_killed() {
    Node::each(|node| {
        let mut clients: Vec<Client> = (0..4).map(|n| node.client(&format!("client{n}"), |c| c)).collect();
        clients.iter_mut().for_each(|client| drop(client.facts()));
        for client in &clients[1..] {
            client.running.signal(Signal::SIGKILL);
        }
        wait::until("three are over", || clients[1..].iter_mut().all(|client| client.running.is_over()));
        assert_eq!(node.daemons().len(), 1, "one client is left");
        clients[0].running.signal(Signal::SIGKILL);
        node.until_gone();
    });
}

#[test]
fn a_program_is_a_client_as_long_as_any_of_its_processes_lives() {
    Node::each(|node| {
        let (out, go) = (node.sandbox.text("work/out"), node.sandbox.text("work/go"));
        let script = format!("probe --out {out} --until {go} & exit 7");
        node.share("1/2", &["bash", "-c", &script]).run().exits(7);
        wait::until("the child runs", || Path::new(&out).exists());
        assert_eq!((node.daemons().len(), node.keepers().len()), (1, 1));
        node.go();
        node.until_gone();
    });
}

#[test]
fn a_killed_keeper_is_replaced_by_the_next_program() {
    Node::each(|node| {
        let mut first = node.client("first", |c| c);
        first.facts();
        let daemons = node.daemons();
        end(node.keepers()[0]);
        let mut second = node.client("second", |c| c);
        second.facts();
        assert_eq!((node.daemons(), node.keepers().len(), starts_in_log(&node.place())), (daemons, 1, 1));
        node.go();
        node.until_gone();
    });
}

#[test]
fn a_killed_daemon_is_started_anew_by_the_next_program() {
    Node::each(|node| {
        let mut first = node.client("first", |c| c);
        first.facts();
        let (daemons, keepers) = (node.daemons(), node.keepers());
        end(daemons[0]);
        let mut second = node.client("second", |c| c);
        second.facts();
        // The one that has started the daemon goes, since another watches.
        wait::until("one keeper", || node.keepers() == keepers);
        assert_eq!(node.daemons().len(), 1);
        assert_ne!(node.daemons(), daemons);
        // Both at once, and then nobody but the keeper sees that the last client is over.
        end(node.daemons()[0]);
        end(node.keepers()[0]);
        let mut third = node.client("third", |c| c);
        third.facts();
        assert_eq!((node.daemons().len(), node.keepers().len()), (1, 1));
        end(node.daemons()[0]);
        node.go();
        node.until_gone();
    });
}

#[test]
fn every_program_finds_a_daemon_though_others_end_it_in_that_moment() {
    Node::each(|node| {
        // One after the other, from several sides: each ends the daemon that the next one wants, or nearly so.
        // The daemon takes one front end at a time: one that is turned away has found a daemon.
        let busy = "case $said in *'Cannot send command'*) ;; *) echo \"$said\" >&2; exit 1;; esac";
        let ask = format!("until said=$(echo get_server_list | {CONTROL} 2>&1); do {busy}; done");
        let one = "cudawrap --share 1/8 --mps --wait -- bash -c \"$0\" || exit";
        let side = || {
            let script = format!("for i in 1 2 3 4 5 6 7 8; do {one}; done");
            node.sandbox.shell("bash", &script).args([&ask]).spawn()
        };
        let sides: Vec<Running> = (0..4).map(|_| side()).collect();
        for side in sides {
            side.wait().exits(0).says(&[""; 0]);
        }
        node.until_gone();
    });
}

#[test]
fn a_front_end_that_is_open_only_delays_the_end() {
    Node::each(|node| {
        let mut client = node.client("client", |c| c);
        client.facts();
        let (place, fifo) = (node.place(), node.sandbox.text("work/fifo"));
        let text = |name: &str| place.join(name).display().to_string();
        let script = format!("mkfifo {fifo}; exec {CONTROL} < {fifo}");
        let command = node.sandbox.shell("bash", &script);
        let front =
            command.env("CUDA_MPS_PIPE_DIRECTORY", text("pipe")).env("CUDA_MPS_LOG_DIRECTORY", text("log")).spawn();
        wait::until("it reads", || Path::new(&fifo).exists());
        let mut say = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        say.write_all(b"get_server_list\n").unwrap();
        let log = place.join("log/control.log");
        wait::until("it speaks to the daemon", || fs::read_to_string(&log).unwrap().contains("Cmd:get_server_list"));
        client.running.signal(Signal::SIGKILL);
        client.running.wait();
        wait::throughout(Duration::from_millis(500), "the daemon stays", || node.daemons().len() == 1);
        drop(say);
        front.wait();
        node.until_gone();
    });
}

#[test]
fn a_client_that_comes_while_the_keeper_waits_for_its_turn_keeps_the_daemon() {
    Node::each(|node| {
        let mut first = node.client("first", |c| c);
        first.facts();
        let place = node.place();
        let open = || fs::OpenOptions::new().read(true).write(true).open(place.join("lock")).unwrap();
        let lock = |file: &fs::File, kind: i32, byte: i64| {
            let range = libc::flock { l_type: kind as i16, l_whence: 0, l_start: byte, l_len: 1, l_pid: 0 };
            fcntl(file, FcntlArg::F_OFD_SETLK(&range)).unwrap();
        };
        // As a program does that starts: it has the mutex when the last client ends, and becomes a client before it lets go.
        let (mutex, client) = (open(), open());
        lock(&mutex, libc::F_WRLCK, 0);
        first.running.signal(Signal::SIGKILL);
        let inode = fs::metadata(place.join("lock")).unwrap().ino();
        let waits = |line: &str| line.contains("->") && line.ends_with(&format!(":{inode} 0 0"));
        wait::until("the keeper waits", || fs::read_to_string("/proc/locks").unwrap().lines().any(waits));
        lock(&client, libc::F_RDLCK, 2);
        drop(mutex);
        wait::throughout(Duration::from_millis(300), "the daemon stays", || node.daemons().len() == 1);
        drop(client);
        node.until_gone();
    });
}

#[test]
fn nothing_is_left_of_programs_that_are_killed_while_they_start() {
    Node::each(|node| {
        for round in 0..12 {
            let client = node.client(&format!("client{round}"), |c| c);
            let (place, made) = (node.place(), ["", "lock", "pipe", "log", "log/start.log", "pipe/control"][round % 6]);
            // Killed at another moment of its start each time.
            wait::until("it has come so far", || place.join(made).exists());
            client.running.signal(Signal::SIGKILL);
            client.running.wait();
            if round % 2 == 0 {
                let mut next = node.client(&format!("next{round}"), |c| c);
                next.facts();
                wait::until("one of each", || (node.daemons().len(), node.keepers().len()) == (1, 1));
                next.running.signal(Signal::SIGKILL);
            }
            wait::until("nothing is left", || node.daemons().is_empty() && node.keepers().is_empty());
        }
    });
}

#[test]
fn users_have_daemons_of_their_own() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    Node::each(|node| {
        let mut clients: Vec<Client> =
            (0..6).map(|n| node.client(&format!("client{n}"), |c| c.uid(1001 + n % 2))).collect();
        clients.iter_mut().for_each(|client| drop(client.facts()));
        for uid in [1001, 1002] {
            let [daemon] = node.daemons_of(uid)[..] else { panic!("daemons of {uid}") };
            assert_eq!(fs::metadata(format!("/proc/{daemon}")).unwrap().uid(), uid);
        }
        node.go();
        wait::until("all is gone", || {
            node.keepers().is_empty() && [1001, 1002].iter().all(|uid| !node.place_of(*uid).exists())
        });
    });
}

#[test]
fn the_place_is_short_wherever_temporary_files_are() {
    let node = Node::new();
    let long = node.sandbox.path(&format!("work/{}/{}", "d".repeat(120), "e".repeat(120)));
    fs::create_dir_all(&long).unwrap();
    let mut client = node.client("client", |c| c.env("TMPDIR", &long).env("XDG_RUNTIME_DIR", &long));
    let facts = client.facts();
    assert_eq!(facts.get("env CUDA_MPS_PIPE_DIRECTORY"), Some(&*node.place().join("pipe").display().to_string()));
    node.go();
    node.until_gone();
}

#[test]
fn without_the_control_program_nothing_is_run() {
    let node = Node::bare();
    let there = skip::tool(CONTROL);
    if there.is_some() && skip::lacks(&[Need::Mounts]) {
        return;
    }
    let hidden = there.map(|path| format!("mount --bind /dev/null {} && ", path.display())).unwrap_or_default();
    let script = format!("{hidden}exec cudawrap --share 1/2 --mps -- echo run");
    let words = if hidden.is_empty() { vec!["bash", "-c"] } else { vec!["unshare", "-m", "bash", "-c"] };
    let outcome = node.sandbox.command(words[0]).args(&words[1..]).args([&script]).run();
    outcome.refuses("cudawrap", 125, &format!("MPS: {CONTROL} is not installed")).mentions("package nvidia-cuda-mps");
    assert!(!node.sandbox.locked() && !node.place().exists());
}

#[test]
fn a_daemon_that_does_not_start_is_told_with_the_end_of_its_log() {
    let node = Node::bare();
    let text = "#!/bin/sh\necho 'no such device' >> $CUDA_MPS_LOG_DIRECTORY/control.log\necho 'cannot do it'\nexit 1\n";
    node.sandbox.file(&format!("bin/{CONTROL}"), text, 0o755);
    for _ in 0..2 {
        let outcome = node.sandbox.command("cudawrap").args(["--share", "1/2", "--mps", "--", "echo", "run"]).run();
        outcome.refuses("cudawrap", 125, &format!("{}: the MPS daemon cannot be started: cannot do it", node.uuid));
        outcome.mentions("hint: its log ends with: no such device");
    }
    // Nor under a link.
    let app = wrap(&node.sandbox, "opt", "app", "probe");
    let linked = node.sandbox.command(&app).env("CUDAWRAP_SHARE", "1/2").env("CUDAWRAP_MPS", "1").run();
    linked.refuses("cudawrap", 125, "the MPS daemon cannot be started");
    node.until_gone();
    assert!(!node.sandbox.locked());
}

#[test]
fn a_directory_that_another_user_has_planted_is_refused() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let (node, uid) = (Node::new(), 1077);
    let planted = Path::new("/tmp").join(format!("getgpu-mps-{uid}"));
    let start = || {
        let command = node.sandbox.command("cudawrap").args(["--share", "1/2", "--mps", "--", "echo", "run"]);
        command.uid(uid).run()
    };
    let own = |path: &Path, uid| std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    let told =
        |why: &str| start().refuses("cudawrap", 125, &format!("MPS directory {}: {why}", planted.display())).clone();
    fs::create_dir(&planted).unwrap();
    own(&planted, 1002);
    told("it belongs to uid 1002, not to you").mentions("hint: it has to be moved out of the way");
    own(&planted, uid);
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o770)).unwrap();
    told("others can enter it");
    fs::remove_dir(&planted).unwrap();
    std::os::unix::fs::symlink(node.sandbox.path("work"), &planted).unwrap();
    own(&planted, uid);
    told("it is not a directory");
    fs::remove_file(&planted).unwrap();
    assert_eq!(start().exits(0).stdout, "run\n");
    wait::until("nothing is left", || !planted.exists());
}

#[test]
fn without_a_share_there_is_no_daemon() {
    let node = Node::new();
    let sandbox = &node.sandbox;
    let run = |words: &[&str]| sandbox.command("cudawrap").args(words).run();
    for words in [&["--mps", "--", "true"][..], &["--mps", "--type=gpu", "true"]] {
        run(words).refuses("cudawrap", 125, "--mps: without a share the program has the device to itself");
    }
    let whole = sandbox.command("cudawrap").args(["--mps", "--", "true"]).visible(&node.uuid).run();
    whole.refuses("cudawrap", 125, "--mps: without a share");
    // As a setting or a variable it is without effect on a whole device.
    let app = wrap(sandbox, "opt", "app", "probe");
    let pipe = |command: Command| {
        let facts = Facts::parse(&command.env("CUDA_MPS_PIPE_DIRECTORY", "/own").run().exits(0).stdout);
        facts.get("env CUDA_MPS_PIPE_DIRECTORY").unwrap_or("").to_owned()
    };
    let named = |words: &[&str]| sandbox.command("cudawrap").args(words).args(["--", "probe"]);
    let ours = node.place().join("pipe").display().to_string();
    assert_eq!(pipe(named(&["--share=1/2"])), "/own", "without MPS the user's own daemon is left alone");
    sandbox.set_settings("mps = true");
    assert_eq!(pipe(named(&[])), "/own");
    assert_eq!(pipe(sandbox.command(&app)), "/own");
    assert_eq!(pipe(named(&["--share=1/2"])), ours);
    assert_eq!(pipe(sandbox.command(&app).env("CUDAWRAP_SHARE", "1/2")), ours);
    assert_eq!(pipe(sandbox.command(&app).env("CUDAWRAP_SHARE", "1/2").env("CUDAWRAP_MPS", "0")), "/own");
    sandbox.set_settings("[program.\"app\"]\nmps = true\nshare = '1/4'");
    assert_eq!(pipe(sandbox.command(&app)), ours);
    assert_eq!(pipe(named(&["--share=1/2"])), "/own");
    assert_eq!(pipe(named(&["--share=1/2"]).env("CUDAWRAP_MPS", "true")), ours);
    named(&["--share=1/2"]).env("CUDAWRAP_MPS", "maybe").run().refuses("cudawrap", 125, "CUDAWRAP_MPS: `maybe`");
    node.until_gone();
}

#[test]
fn a_device_that_the_caller_names_has_a_daemon_too() {
    let node = Node::new();
    let sandbox = &node.sandbox;
    let app = wrap(sandbox, "opt", "app", "probe");
    let seen = |command: Command, visible: &str| {
        let facts = Facts::parse(&command.visible(visible).run().exits(0).stdout);
        let get = |name: &str| facts.get(&format!("env {name}")).unwrap_or("").to_owned();
        (get("CUDA_VISIBLE_DEVICES"), get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
    };
    let linked = || sandbox.command(&app).env("CUDAWRAP_SHARE", "1/4").env("CUDAWRAP_MPS", "1");
    let quarter = (node.uuid.clone(), "25".to_owned());
    // An index counts among the devices that the daemon sees, so it is not left there.
    for visible in ["0", &node.uuid, &node.uuid[..10]] {
        assert_eq!(seen(linked(), visible), quarter, "{visible}");
        assert_eq!(seen(node.share("1/4", &["probe"]), visible), quarter, "{visible}");
    }
    // A part that was reserved is a share.
    let reserved = sandbox.getgpu(["--share=1/4"]).run().line();
    assert_eq!(seen(sandbox.command("cudawrap").args(["--mps", "--", "probe"]), &reserved), quarter);
    sandbox.getgpu(["--release-all"]).run().exits(0);
    let several = sandbox.command("cudawrap").args(["--mps", "--share=1/2", "-n2", "--", "true"]);
    sandbox.set_node("gpus4");
    several.run().refuses("cudawrap", 125, "MPS: 2 devices: a program can be a client on one device only");
    sandbox.set_node("h200x1");
    node.until_gone();
}

#[test]
fn a_client_has_no_child_and_its_streams_and_signals_as_they_were() {
    let node = Node::new();
    let run = |how: &str, number: usize| {
        let out = node.sandbox.path(&format!("work/facts{number}"));
        let script = format!("exec {how} cudawrap --share 1/2 --mps -- probe --out {}", out.display());
        node.sandbox.shell("bash", &script).run().exits(0);
        Facts::read(&out)
    };
    let ways = [
        "",
        "launch --subreaper",
        "launch --ignore 17",
        "launch --block 17",
        "launch --streams 000",
        "launch --nofile 16",
    ];
    for (number, how) in ways.into_iter().enumerate() {
        let facts = run(how, number);
        assert_eq!(facts.get("children"), Some(""), "{how}");
        assert_eq!(facts.get("wait"), run("", 99).get("wait"), "{how}");
        assert_eq!(facts.descriptors_of(&node.place().join("lock")).len(), 1, "{how}");
        assert_eq!(facts.get("subreaper").map(|value| value == "1"), Some(how.ends_with("subreaper")), "{how}");
    }
    node.until_gone();
}
