//! What the sandbox reports about leftovers and clashes is true, or every other test
//! proves nothing. Each check sees a clean sandbox and one that is not.

use std::time::Duration;

use harness::{Sandbox, Signal, skip};

#[test]
fn a_reservation_is_seen_as_left_over_and_ends_with_its_sandbox() {
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
fn the_machine_does_not_show_through() {
    let sandbox = Sandbox::new("a100x1");
    let seen = sandbox.command("probe").run().stdout;
    let names = seen
        .lines()
        .filter_map(|line| line.strip_prefix("env ")?.split(' ').next());
    let expected = "GETGPU_CONFIG GETGPU_LOCK HOME LC_ALL LD_LIBRARY_PATH PATH SIM_NODE";
    assert_eq!(names.collect::<Vec<_>>().join(" "), expected);
    if !skip::lacks(&[skip::Need::Root]) {
        let other = sandbox.ask_as(1001, "--no-reserve").line();
        assert!(sandbox.uuids().contains(&other), "users get everywhere");
    }
}

/// A program of another sandbox that starts at this moment is still a fork of the tests,
/// with every descriptor that these have open for an instant.
#[test]
#[allow(unsafe_code)]
fn a_starting_program_with_a_sandboxs_lock_open_is_not_ended() {
    let sandbox = Sandbox::new("mig4");
    sandbox.ask("--no-reserve").exits(0);
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

#[test]
#[ignore = "killed by the next one"]
fn a_test_that_is_killed() {
    let sandbox = Sandbox::new("mig4");
    sandbox.line("--hold=0");
    let _program = sandbox.leased().spawn();
    sandbox.until_running(1);
    println!("{}", sandbox.root().display());
    nix::sys::signal::raise(Signal::SIGKILL).unwrap();
}

#[test]
fn the_processes_of_a_test_that_is_killed_end_with_it() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "sandbox_checks::a_test_that_is_killed";
    let words = ["--ignored", "--exact", "--nocapture", name];
    let output = again.args(words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let root = text
        .lines()
        .find(|line| line.contains("/getgpu-test-"))
        .unwrap();
    let is_of_it = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let open = std::fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut files = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        String::from_utf8_lossy(&words).contains(root) || files.any(|file| file.starts_with(root))
    };
    harness::wait::until("nothing is left of it", || {
        let mut all = std::fs::read_dir("/proc").unwrap().flatten();
        !all.any(is_of_it) && !std::path::Path::new(root).exists()
    });
}
