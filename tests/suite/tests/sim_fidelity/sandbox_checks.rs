//! What the sandbox reports about leftovers and clashes is true, or every other test
//! proves nothing. Each check sees a clean sandbox and one that is not.

use std::time::Duration;

use harness::{Sandbox, Signal, skip};

#[test]
fn a_reservation_is_seen_as_something_left_behind_and_ends_with_the_sandbox() {
    let sandbox = Sandbox::new("a100x1");
    sandbox.assert_clean(Duration::ZERO);
    let uuid = sandbox.getgpu([] as [&str; 0]).run().line();
    let holders = sandbox.holders();
    assert_eq!(holders.len(), 1);
    assert!(holders[0].words.contains(&uuid), "{holders:?}");
    assert!(sandbox.locked() && sandbox.processes() == [holders[0].pid]);
    assert!(std::panic::catch_unwind(|| sandbox.assert_clean(Duration::from_millis(50))).is_err());
    drop(sandbox);
    assert!(
        !std::path::Path::new(&format!("/proc/{}", holders[0].pid))
            .join("exe")
            .exists()
    );
}

#[test]
fn a_clash_of_two_programs_is_seen() {
    let sandbox = Sandbox::new("a100x1");
    let uuid = sandbox.uuids()[0].clone();
    let first = sandbox
        .command("sim-cuda")
        .visible(&uuid)
        .args(["--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    sandbox.assert_exclusive();
    sandbox.command("sim-cuda").visible(&uuid).run().exits(99);
    assert!(std::panic::catch_unwind(|| sandbox.assert_exclusive()).is_err());
    first.signal(Signal::SIGKILL);
    assert_eq!(first.wait().signal(), Some(9));
}

#[test]
fn the_machine_does_not_show_through() {
    let sandbox = Sandbox::new("a100x1");
    let names: Vec<String> = sandbox
        .command("probe")
        .run()
        .stdout
        .lines()
        .filter_map(variable)
        .collect();
    assert_eq!(
        names,
        [
            "GETGPU_CONFIG",
            "GETGPU_LOCK",
            "HOME",
            "LC_ALL",
            "LD_LIBRARY_PATH",
            "PATH",
            "SIM_NODE"
        ]
    );
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let other = sandbox.getgpu(["--no-reserve"]).uid(1001).run().line();
    assert!(
        sandbox.uuids().contains(&other),
        "other users get everywhere"
    );
}

fn variable(line: &str) -> Option<String> {
    line.strip_prefix("env ")?
        .split(' ')
        .next()
        .map(str::to_owned)
}

/// `println!` is captured by the test runner, so that nobody would see what was not tried.
#[test]
fn no_test_says_that_it_is_skipped_where_the_runner_hides_it() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["tests", "common", "getgpu", "cudawrap", "create-cudawrap"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 200, "{}", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let hidden = ["println!(\"", "print!(\""].map(|start| format!("{start}SKIPPED"));
        assert!(
            !hidden.iter().any(|hidden| text.contains(hidden)),
            "{}: say it by skip::say",
            file.display()
        );
    }
}

/// A program of another sandbox that starts at this moment is still a fork of the tests,
/// with every descriptor that these have open for an instant.
#[test]
#[allow(unsafe_code)]
fn a_program_about_to_start_is_not_ended_with_a_sandbox_whose_lock_the_tests_had_open() {
    let sandbox = Sandbox::new("mig4");
    sandbox.getgpu(["--no-reserve"]).run().exits(0);
    let lock = std::fs::File::options()
        .read(true)
        .write(true)
        .open(sandbox.lock())
        .unwrap();
    let (told, tell) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let (forked, fork) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let mut starts = std::process::Command::new("true");
    // SAFETY: write(2) and read(2) alone, which are async-signal-safe.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut starts, move || {
            nix::unistd::write(&fork, b"x")?;
            nix::unistd::read(&told, &mut [0])?;
            Ok(())
        });
    }
    let started = std::thread::spawn(move || starts.status());
    nix::unistd::read(&forked, &mut [0]).unwrap();
    drop((lock, sandbox));
    nix::unistd::write(&tell, b"x").unwrap();
    let ended = started.join().unwrap().unwrap();
    assert!(ended.success(), "{ended:?}");
}
