//! Looks at real processes, which name a device that is in no machine.

use std::process::{Child, Command};

use getgpu_lock::OfdLock;
use harness::skip::{Need, lacks};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

/// A process that ends with the test.
struct Process(Child);

impl Process {
    /// Runs a program under a name, with these variables alone.
    fn start(name: &str, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(name);
        std::os::unix::fs::symlink(format!("/bin/{}", words[0]), &program).unwrap();
        let mut command = Command::new(&program);
        std::os::unix::process::CommandExt::arg0(&mut command, words[0]);
        command.args(&words[1..]).env_clear();
        command.envs(variables.iter().copied());
        Self(command.spawn().unwrap())
    }

    fn stat(&self) -> Stat {
        Stat::read(self.0.id() as i32).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks, as the holder of the device for a caller that is not there.
fn scan<T>(uuid: &str, look: impl FnOnce(&mut ProcScanner<'_>) -> T) -> T {
    let args = HolderArgs::parse([uuid, "caller=4194304(gone)"]).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let lock = HeldLock::new(&args, OfdLock::new(file.into()));
    look(&mut ProcScanner::new(&args, &lock))
}

#[test]
fn the_children_of_a_reused_process_number_are_not_noted() {
    scan("MIG-0d1e2f30-1111-5222-8333-444455556666", |scanner| {
        let own = Stat::read(std::process::id() as i32).unwrap();
        let process = Process::start("sleep", &["sleep", "60"], &[]);
        let child = process.stat();
        for (start, is_noted) in [(own.start - 1, false), (own.start, true)] {
            scanner.view.seen = HashSet::from([(own.pid, start)]);
            scanner.note_descendants();
            let mut noted = scanner.view.seen.iter();
            assert_eq!(noted.any(|(pid, _)| *pid == child.pid), is_noted);
        }
    });
}

/// The child would be met by a later look at the next few of all processes, and may have
/// ended before. The device is this run's own: all processes of the user are looked at.
#[test]
fn a_program_that_is_met_is_looked_at_with_its_descendants() {
    let uuid = &format!("MIG-0d1e2f30-1111-5222-8333-5555{:08x}", std::process::id());
    let script = "env -u CUDA_VISIBLE_DEVICES /bin/sleep 60 & echo >&2; wait";
    let variables = [
        ("CUDA_VISIBLE_DEVICES", uuid.as_str()),
        ("PATH", "/usr/bin:/bin"),
    ];
    let parent = Process::start("sh", &["sh", "-c", script], &variables);
    scan(uuid, |scanner| {
        let own = Stat::read(std::process::id() as i32).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while children(parent.stat().pid).is_empty() {
            assert!(Instant::now() < until, "no child");
        }
        scanner.rest = vec![parent.stat().pid];
        scanner.rolled = Duration::from_secs(60);
        let found = scanner.roll();
        assert!(
            scanner.next_full > Instant::now(),
            "one per cent of the time: the next look is an hour and more away"
        );
        assert!(scanner.view.now >= own.start, "the time is in clock ticks");
        let mut pids: Vec<i32> = found.users.iter().map(|stat| stat.pid).collect();
        let child = children(parent.stat().pid)[0];
        let _ = nix::sys::signal::kill(Pid::from_raw(child), Signal::SIGKILL);
        let mut expected = vec![parent.stat().pid, child];
        pids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(pids, expected);
    });
}

/// A process of another user is met only below one that names the device.
#[test]
fn a_child_of_another_user_is_met_below_what_names_the_device() {
    if lacks(&[Need::Root]) {
        return;
    }
    let uuid = "MIG-0d1e2f30-1111-5222-8333-444455559999";
    let script = "setpriv --reuid=1001 --clear-groups /bin/sleep 60 & echo $! >&2; wait";
    let path = ("PATH", "/usr/bin:/bin");
    for (variables, is_met) in [
        (&[path, ("CUDA_VISIBLE_DEVICES", uuid)][..], true),
        (&[path], false),
    ] {
        let process = Process::start("sh", &["sh", "-c", script], variables);
        let parent = process.stat().pid;
        let until = Instant::now() + Duration::from_secs(60);
        let child = loop {
            assert!(Instant::now() < until, "no child");
            let of_other = |pid: &i32| procfs::euid(*pid) == Some(1001);
            if let Some(child) = children(parent).into_iter().find(of_other) {
                break child;
            }
        };
        scan(uuid, |scanner| {
            let everything = scanner.everything();
            let met = everything.iter().any(|(stat, _)| stat.pid == child);
            assert_eq!(met, is_met, "{variables:?}");
        });
        kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
    }
}

/// cudawrap that was told to ignore the variable has nothing to do with the device in it; a
/// program has, whatever variables of cudawrap it inherits.
#[test]
fn only_what_chooses_a_device_can_ignore_a_grant() {
    let uuid = "MIG-0d1e2f30-1111-5222-8333-444455558888";
    let device = ("CUDA_VISIBLE_DEVICES", uuid);
    let ignoring = ("CUDAWRAP_IGNORE_GRANT", "1");
    let found = |name, variables: &[(&str, &str)]| {
        let process = Process::start(name, &["sleep", "60"], variables);
        let evidence = scan(uuid, |scanner| {
            scanner.evidence(&process.stat(), ArgumentUse::Ignored)
        });
        (evidence.environment == EnvMatch::Device, evidence.chooses)
    };
    assert_eq!(found("cudawrap", &[device]), (true, true));
    assert_eq!(found("cudawrap", &[device, ignoring]), (false, false));
    assert_eq!(found("app", &[device, ignoring]), (true, false));
}

/// A holder has the UUIDs of its reservation in its arguments, and what has exited has nothing.
#[test]
fn neither_a_holder_nor_what_has_exited_is_a_program() {
    let uuid = "MIG-0d1e2f30-1111-5222-8333-444455559999";
    let found = |process: &Process| {
        scan(uuid, |scanner| {
            scanner.evidence(&process.stat(), ArgumentUse::Counts)
        })
    };
    let names = [HOLDER_NAME, "app"].map(|name| {
        let process = Process::start(name, &["sh", "-c", "kill -STOP $$", uuid], &[]);
        found(&process).argument
    });
    assert_eq!(names, [false, true]);
    let device = ("CUDA_VISIBLE_DEVICES", uuid);
    let process = Process::start("app", &["sleep", "60"], &[device]);
    assert_eq!(found(&process).environment, EnvMatch::Device);
    let pid = Pid::from_raw(process.0.id() as i32);
    kill(pid, Signal::SIGKILL).unwrap();
    while process.stat().alive() {
        std::thread::yield_now();
    }
    assert_eq!(found(&process), Evidence::default());
}
