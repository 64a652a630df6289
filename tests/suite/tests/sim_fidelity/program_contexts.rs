//! Contexts of simulated programs as the tests of the commands rely on them. A collision
//! is never missed, nothing is left of a killed program, and what it prints is as
//! documented.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use getgpu_tests::packages::built;
use sim_node::Folder;
use tempfile::TempDir;

fn sim_cuda() -> PathBuf {
    built().join("sim-cuda")
}

struct Bench {
    _dir: TempDir,
    folder: Folder,
}

impl Bench {
    fn new(node: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path().join("node"), node).unwrap();
        Self { _dir: dir, folder }
    }

    fn command(&self, visible: &str, flags: &str) -> Command {
        let mut command = Command::new(sim_cuda());
        command
            .args(flags.split_whitespace())
            .env("SIM_NODE", self.folder.root())
            .env_remove("SIM_CUDA");
        command
            .env("CUDA_VISIBLE_DEVICES", visible)
            .stdout(Stdio::piped())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, visible: &str, flags: &str) -> (Option<i32>, String) {
        let output = self.command(visible, flags).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    fn uuid(&self, n: usize) -> String {
        self.folder.node().unwrap().device_uuids()[n].clone()
    }

    /// A program that has its context and keeps it.
    fn holder(&self, visible: &str, flags: &str) -> Child {
        let before = self.folder.running().unwrap().len();
        let child = self
            .command(visible, &format!("--run forever {flags}"))
            .spawn()
            .unwrap();
        until("the context exists", || {
            self.folder.running().unwrap().len() > before
        });
        child
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn prints_its_device_and_ends_as_told() {
    let bench = Bench::new("a100x1");
    let uuid = bench.uuid(3);
    let (code, text) = bench.run(&uuid, "--exit 7 --tag first");
    assert_eq!(code, Some(7));
    let run = bench.folder.runs().unwrap().pop().unwrap();
    assert_eq!(text, format!("RUN {uuid} {}\n", run.pid));
    assert_eq!(
        (run.uuid, run.tag.as_str(), run.end.is_some()),
        (uuid.clone(), "first", true)
    );
    assert_eq!(bench.run("", ""), (Some(100), "NODEVICE\n".to_owned()));
    assert_eq!(
        bench
            .command(&uuid, "--kill TERM")
            .status()
            .unwrap()
            .signal(),
        Some(15)
    );
    let by_variable = bench
        .command(&uuid, "")
        .env("SIM_CUDA", "--exit 5")
        .arg("input.dat")
        .status()
        .unwrap();
    assert_eq!(by_variable.code(), Some(5));
}

#[test]
fn the_second_on_a_device_collides_until_the_first_is_killed() {
    let bench = Bench::new("a100x1");
    let uuid = bench.uuid(0);
    let first = bench.holder(&uuid, "");
    let (code, text) = bench.run(&uuid, "");
    assert_eq!(code, Some(99));
    assert!(
        text.starts_with(&format!("COLLISION {uuid} "))
            && text.ends_with(&format!(" with {}\n", first.id()))
    );
    assert_eq!(bench.run(&bench.uuid(1), "").0, Some(0));
    assert_eq!(bench.folder.collisions().unwrap().len(), 1);
    kill(first);
    assert_eq!(bench.run(&uuid, "").0, Some(0));
    assert_eq!(bench.folder.running().unwrap(), []);
}

#[test]
fn sharers_share_up_to_their_number() {
    let bench = Bench::new("a100x1");
    let uuid = bench.uuid(0);
    let first = bench.holder(&uuid, "--max 2");
    let second = bench.holder(&uuid, "--shared");
    assert_eq!(bench.run(&uuid, "--max 2").0, Some(99));
    kill(first);
    assert_eq!(bench.run(&uuid, "").0, Some(99));
    assert_eq!(bench.run(&uuid, "--shared").0, Some(0));
    kill(second);
}

#[test]
fn fifty_racing_for_seven_devices_give_one_context_each() {
    let bench = Bench::new("a100x1");
    let end = bench.folder.path("end");
    let flags = format!("--until-file {}", end.display());
    let children: Vec<Child> = (0..50)
        .map(|n| bench.command(&bench.uuid(n % 7), &flags).spawn().unwrap())
        .collect();
    let known = || bench.folder.runs().unwrap().len() + bench.folder.collisions().unwrap().len();
    until("all have arrived", || known() == 50);
    std::fs::write(&end, "").unwrap();
    let mut codes: HashMap<Option<i32>, u32> = HashMap::new();
    for child in children {
        *codes
            .entry(child.wait_with_output().unwrap().status.code())
            .or_default() += 1;
    }
    assert_eq!(codes, HashMap::from([(Some(0), 7), (Some(99), 43)]));
    assert_eq!(bench.folder.collisions().unwrap().len(), 43);
}

#[test]
fn the_ready_file_holds_the_outcome() {
    let bench = Bench::new("pre470");
    let ready = bench.folder.path("ready");
    let uuid = bench.uuid(2);
    let child = bench
        .command(&uuid, &format!("--run forever --ready {}", ready.display()))
        .spawn()
        .unwrap();
    until("it is ready", || ready.exists());
    assert_eq!(
        std::fs::read_to_string(&ready).unwrap(),
        format!("RUN {uuid} {}\n", child.id())
    );
    assert_eq!(bench.folder.running_on(&uuid).unwrap().len(), 1);
    kill(child);
}

/// The command as run by another user, or in a pid namespace of its own.
fn under(prefix: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(prefix[0]);
    wrapped
        .args(&prefix[1..])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped.stdout(Stdio::piped()).stdin(Stdio::null());
    wrapped
}

#[test]
fn a_program_in_a_container_is_seen_by_its_pid_outside() {
    let prefix = ["unshare", "-U", "-r", "-p", "-f", "--kill-child", "--"];
    if !Command::new(prefix[0])
        .args(&prefix[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        harness::skip::say("no pid namespaces for this user here");
        return;
    }
    let bench = Bench::new("a100x1");
    let uuid = bench.uuid(0);
    let container = under(&prefix, &bench.command(&uuid, "--run forever"))
        .spawn()
        .unwrap();
    until("the context exists", || {
        !bench.folder.running().unwrap().is_empty()
    });
    let seen = bench.folder.running().unwrap().remove(0);
    assert!(!seen.foreign && seen.pid > 1);
    assert_eq!(
        std::fs::read_to_string(format!("/proc/{}/comm", seen.pid)).unwrap(),
        "sim-cuda\n"
    );
    let (code, text) = bench.run(&uuid, "");
    assert_eq!(
        (code, text.ends_with(&format!(" with {}\n", seen.pid))),
        (Some(99), true)
    );
    let second = under(&prefix, &bench.command(&uuid, "")).output().unwrap();
    assert_eq!(
        second.status.code(),
        Some(99),
        "two containers do not miss each other"
    );
    kill(container);
    until("it is gone", || bench.folder.running().unwrap().is_empty());
}

#[test]
fn users_with_any_umask_work_in_one_folder() {
    if !Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        harness::skip::say("cannot run as another user");
        return;
    }
    let bench = Bench::new("a100x1");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.folder.root().parent().unwrap(), open).unwrap();
    // Other users cannot reach the build folder everywhere.
    let program = bench.folder.path("sim-cuda");
    // By another process: a program forked meanwhile by another test would keep the copy
    // open for writing (ETXTBSY).
    assert!(
        Command::new("cp")
            .arg(sim_cuda())
            .arg(&program)
            .status()
            .unwrap()
            .success()
    );
    let uuid = bench.uuid(0);
    let as_user = |uid: u32, flags: &str| {
        let (uid, script) = (
            format!("--reuid={uid}"),
            format!("umask 077; exec {} {flags}", program.display()),
        );
        let mut command = Command::new("setpriv");
        command
            .args([uid.as_str(), "--clear-groups", "sh", "-c", script.as_str()])
            .env("SIM_NODE", bench.folder.root());
        command
            .env("CUDA_VISIBLE_DEVICES", &uuid)
            .stdout(Stdio::piped())
            .env_remove("SIM_CUDA");
        command
    };
    let first = as_user(65533, "--run forever").spawn().unwrap();
    until("the context exists", || {
        !bench.folder.running().unwrap().is_empty()
    });
    assert_eq!(as_user(65534, "").status().unwrap().code(), Some(99));
    assert_eq!(bench.run(&uuid, "").0, Some(99));
    assert_eq!(bench.folder.running().unwrap()[0].uid, 65533);
    kill(first);
    assert_eq!(as_user(65534, "").status().unwrap().code(), Some(0));
}

/// A library that could open no file of a context took its program for gone, and a device
/// in use was given away.
#[test]
fn whoever_has_few_descriptors_sees_every_context_or_fails() {
    let sandbox = harness::Sandbox::new("mig4");
    let _strangers = sandbox.occupy(&sandbox.uuids(), "");
    for number in 3..=24 {
        let limit = number.to_string();
        let limited = |words: &[&str]| {
            let command = sandbox.command("launch").args(["--nofile", &limit]);
            command.args(words).run().code()
        };
        for words in [&["getgpu", "--no-reserve"][..], &["cudawrap", "--", "true"]] {
            assert_ne!(limited(words), Some(0), "{number} descriptors: {words:?}");
        }
    }
}
