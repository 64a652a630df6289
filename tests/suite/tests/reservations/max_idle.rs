//! `max_idle`: a held device that nobody uses is warned of on its caller's terminal and
//! then reported or given back. Use, a lease and a driver in doubt each keep it.

use std::fs;
use std::io::Write;
use std::time::Duration;

use getgpu_tests::listing;
use harness::skip::{self, Need};
use harness::{Running, Sandbox, Signal, Terminal, wait};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// A shell with a controlling terminal that holds a device until it is killed.
struct Held {
    shell: Running,
    terminal: Terminal,
}

impl Held {
    fn start(sandbox: &Sandbox, script: &str) -> Self {
        let terminal = Terminal::new(80, 24);
        let script = format!("X=$(getgpu --hold) && echo $$ >held; {script}; exec sleep 1000");
        let shell = sandbox
            .command("setsid")
            .args(["--ctty", "sh", "-c", &script])
            .stdin(terminal.slave())
            .limit(Duration::MAX)
            .spawn();
        sandbox.until_file("work/held");
        Self { shell, terminal }
    }

    fn end(self, sandbox: &Sandbox) {
        // setsid has forked: the shell is not our child.
        let pid = std::fs::read_to_string(sandbox.path("work/held")).unwrap();
        let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
        drop(self.shell);
        sandbox.assert_clean(Duration::from_secs(10));
        wait::until("nobody watches", || watchers(sandbox).is_empty());
    }
}

/// The command lines of the processes that watch.
fn watchers(sandbox: &Sandbox) -> Vec<String> {
    let read = |pid: i32, file: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
    };
    let pids = sandbox.processes().into_iter();
    pids.filter(|pid| read(*pid, "comm").trim_end() == "getgpu-idle")
        .map(|pid| read(pid, "cmdline").replace('\0', " "))
        // The process that asks NVML for it has the same name until it exits.
        .filter(|line| !line.is_empty())
        .collect()
}

fn sandbox(settings: &str) -> Sandbox {
    Sandbox::builder("h200x1").settings(settings).build()
}

#[test]
fn an_empty_reservation_ends_after_a_warning() {
    let sandbox = sandbox("max_idle = '3s'\nidle_action = 'end'");
    let held = Held::start(&sandbox, ":");
    let empty_since = || {
        let device = &listing::json(&sandbox)["devices"][0];
        device["empty_since"].as_u64()
    };
    wait::until("the list knows since when", || empty_since().is_some());
    held.terminal.until_shows("the reservation ends in");
    assert_eq!(sandbox.holders().len(), 1, "the warning came too late");
    held.terminal
        .until_shows("the reservation has ended: unused for 3 s (max_idle)");
    sandbox.assert_clean(Duration::from_secs(10));
    wait::until("nobody watches", || watchers(&sandbox).is_empty());
    sandbox.getgpu(["--for", "0"]).run().exits(0).says(&[]);
    drop(held);
}

/// A getgpu that is killed behind its answer leaves no hold without its limit.
#[test]
fn it_is_watched_before_its_uuid_is_printed() {
    let sandbox = sandbox("max_idle = '1h'");
    let (_reader, full) = std::io::pipe().unwrap();
    let blocks = |blocks| {
        let flags = if blocks {
            OFlag::empty()
        } else {
            OFlag::O_NONBLOCK
        };
        fcntl(&full, FcntlArg::F_SETFL(flags)).unwrap();
    };
    blocks(false);
    while (&full).write(&[0; 4096]).is_ok() {}
    blocks(true);
    let getgpu = sandbox.getgpu(["--hold"]).stdout(full).spawn();
    wait::until("it is watched", || !watchers(&sandbox).is_empty());
    getgpu.signal(Signal::SIGKILL);
    sandbox.getgpu(["--release-all"]).run().exits(0);
    sandbox.assert_clean(Duration::from_secs(10));
    wait::until("nobody watches", || watchers(&sandbox).is_empty());
}

#[test]
fn by_default_it_is_reported_and_stays() {
    let sandbox = sandbox("max_idle = '1s'");
    let held = Held::start(&sandbox, ":");
    held.terminal
        .until_shows("give it back with getgpu --release");
    assert_eq!(sandbox.holders().len(), 1);
    held.end(&sandbox);
}

#[test]
fn a_process_a_lease_and_doubt_each_keep_it() {
    let fault = "[[rule]]\nfunction = 'nvmlDeviceGetMemoryInfo_v2'\nreturns = 15\n\
                 [[rule]]\nfunction = 'nvmlDeviceGetMemoryInfo'\nreturns = 15\n";
    // A program of its own, one that has not touched the device yet, a driver in doubt.
    let cases = [
        ("CUDA_VISIBLE_DEVICES=$X sim-cuda --run forever &", ""),
        ("CUDA_VISIBLE_DEVICES=$X cudawrap -- sleep 1000 &", ""),
        (":", fault),
    ];
    for (script, faults) in cases {
        let script = script.trim_end_matches('&');
        let sandbox = sandbox("max_idle = '1s'\nidle_action = 'end'");
        let background = if script == ":" {
            ":".to_owned()
        } else {
            format!("{{ {script}; }} & :")
        };
        let held = Held::start(&sandbox, &background);
        sandbox.faults(faults);
        wait::until(script, || {
            watchers(&sandbox)
                .iter()
                .any(|line| line.contains(" empty=no "))
        });
        wait::throughout(Duration::from_secs(2), script, || {
            let lines = watchers(&sandbox);
            sandbox.holders().len() == 1 && lines.iter().all(|line| line.contains(" empty=no "))
        });
        sandbox.kill_programs();
        for pid in sandbox.processes() {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim_end() == "sleep" {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
        held.end(&sandbox);
    }
}

#[test]
fn nobody_watches_where_the_site_sets_no_limit_nor_plain_reservations() {
    let plain = sandbox("");
    let held = Held::start(&plain, ":");
    assert_eq!(watchers(&plain), Vec::<String>::new());
    held.end(&plain);
    let limited = sandbox("max_idle = '1s'");
    limited.getgpu(["--for", "600"]).run().exits(0);
    assert_eq!(watchers(&limited), Vec::<String>::new());
    limited.getgpu(["--release-all"]).run().exits(0);
}

#[test]
fn settings_that_are_broken_for_a_while_end_no_watch() {
    let sandbox = sandbox("max_idle = '3s'\nidle_action = 'end'");
    let held = Held::start(&sandbox, ":");
    let whole = fs::read(sandbox.path("config.toml")).unwrap();
    // The first look, behind which they are read anew, comes within a tenth of the limit.
    fs::write(sandbox.path("config.toml"), "max_idle = ").unwrap();
    // In the middle of being executed anew, or with the process that asks NVML, there are
    // moments with none and with two of the name.
    wait::throughout(Duration::from_millis(1500), "it stays reserved", || {
        sandbox.holders().len() == 1
    });
    wait::until("somebody watches", || watchers(&sandbox).len() == 1);
    fs::write(sandbox.path("config.toml"), whole).unwrap();
    held.terminal.until_shows("the reservation has ended");
    sandbox.assert_clean(Duration::from_secs(10));
    drop(held);
}

/// A user reads the environment of every process of theirs.
#[test]
fn roots_environment_is_not_shown_to_the_user_it_reserves_for() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = sandbox("max_idle = '600s'");
    let script = "getgpu --hold=$$ --uid 1001 >uuid && echo $$ >held; exec sleep 1000";
    let shell = sandbox
        .shell("sh", script)
        .env("SECRET", "of-root")
        .limit(Duration::MAX)
        .spawn();
    sandbox.until_file("work/held");
    let uuid = fs::read_to_string(sandbox.path("work/uuid")).unwrap();
    let read = |pid: i32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let watches = |pid: &i32| {
        let line = read(*pid, "cmdline");
        line.contains("--idle-watch") && line.contains(uuid.trim())
    };
    let watcher = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(watches)
    };
    wait::until("it is watched", || watcher().is_some());
    let environment = read(watcher().unwrap(), "environ");
    assert!(environment.contains("GETGPU_CONFIG="), "{environment}");
    assert!(!environment.contains("of-root"), "{environment}");
    shell.signal(Signal::SIGKILL);
    sandbox.assert_clean(Duration::from_secs(10));
    wait::until("nobody watches", || watcher().is_none());
}
