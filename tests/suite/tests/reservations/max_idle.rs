//! `max_idle`, which getgpu --monitor applies: a held device that nobody uses is warned of
//! on its caller's terminal and then reported or given back, and a lease is reported. Use,
//! a lease inside a reservation and a driver in doubt each keep it.

use std::fs;
use std::time::Duration;

use getgpu_tests::OTHER;
use harness::skip::{self, Need};
use harness::{Running, Sandbox, Signal, Terminal, wait};
use nix::fcntl::{Flock, FlockArg};

/// A shell with a controlling terminal that runs until it is killed.
struct Session {
    shell: Running,
    terminal: Terminal,
}

impl Session {
    /// Runs a script that makes the file `held`.
    fn start(sandbox: &Sandbox, script: &str) -> Self {
        let terminal = Terminal::new(100, 24);
        let script = format!("echo $$ >pid; {script}");
        let shell = sandbox.words("setsid --ctty sh -c").args([script]);
        let shell = shell.stdin(terminal.slave()).limit(Duration::MAX).spawn();
        sandbox.until_file("work/held");
        Self { shell, terminal }
    }

    /// One that holds a device, beside what the script does.
    fn holding(sandbox: &Sandbox, script: &str) -> Self {
        let script = format!("X=$(getgpu --hold) && echo >held; {script}; exec sleep 1000");
        Self::start(sandbox, &script)
    }

    fn end(self, sandbox: &Sandbox) {
        // setsid has forked: the shell is not our child.
        let pid = fs::read_to_string(sandbox.path("work/pid")).unwrap();
        let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
        drop(self.shell);
    }
}

/// What a monitor needs.
const MONITOR: [Need; 2] = [Need::Root, Need::HostPids];

/// A node with one device and these settings, where the test is root's; none: it has been
/// said.
fn node(settings: &str) -> Option<Sandbox> {
    (!skip::lacks(&MONITOR)).then(|| Sandbox::with("h200x1", settings))
}

fn monitor(sandbox: &Sandbox) -> Running {
    let monitor = sandbox.words("getgpu --monitor");
    monitor.limit(Duration::MAX).spawn()
}

/// A reservation ends.
const END: &str = "max_idle = '2s'\nidle_action = 'end'";

#[test]
fn an_empty_reservation_ends_after_a_warning() {
    let settings = END.replace("2s", "3s");
    let Some(sandbox) = node(&settings) else {
        return;
    };
    let _monitor = monitor(&sandbox);
    let held = Session::holding(&sandbox, ":");
    held.terminal.until_shows("the reservation ends in");
    assert_eq!(sandbox.holders().len(), 1, "the warning came too late");
    held.terminal.until_shows(
        "the reservation has ended: unused for 3 s (max_idle): unset CUDA_VISIBLE_DEVICES",
    );
    wait::until("it has ended", || sandbox.holders().is_empty());
    held.end(&sandbox);
}

/// As every limit of a group or a user, which `--check` finds as well.
#[test]
fn each_user_has_the_limit_that_is_theirs() {
    let daemon = nix::unistd::User::from_name("daemon");
    let Ok(Some(daemon)) = daemon else {
        return skip::say("there is no user daemon here");
    };
    let settings = format!(
        "idle_action = 'end'\n[user.{OTHER}]\nmax_idle = '2s'\n[group.daemon]\nmax_idle = '2s'\n"
    );
    let Some(sandbox) = Sandbox::given(&MONITOR, "gpus4", &settings) else {
        return;
    };
    let line = "max_idle is set, and no getgpu --monitor runs: nothing applies it";
    sandbox.ask("--check").shows(line);
    let hold = |uid: u32| {
        let shell = sandbox
            .words("sh -c")
            .args(["getgpu -q --hold >/dev/null; exec sleep 1000"]);
        shell.uid(uid).limit(Duration::MAX).spawn()
    };
    let _all = [OTHER, daemon.uid.as_raw(), OTHER + 1, 0].map(hold);
    wait::until("all are held", || sandbox.holders().len() == 4);
    let _monitor = monitor(&sandbox);
    wait::until("two have ended", || sandbox.holders().len() == 2);
    let listing = sandbox.ask("--list --json").output();
    let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
    let holders = getgpu_tests::listing::devices(&listing).iter();
    let mut left: Vec<u64> = holders
        .flat_map(|device| device["holders"].as_array().unwrap())
        .map(|holder| holder["uid"].as_u64().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(left, [0, u64::from(OTHER) + 1]);
}

#[test]
fn by_default_it_is_reported_and_stays() {
    let settings = "max_idle = '2s'";
    let Some(sandbox) = node(settings) else {
        return;
    };
    let _monitor = monitor(&sandbox);
    let held = Session::holding(&sandbox, ":");
    held.terminal
        .until_shows("give it back with getgpu --release");
    assert_eq!(sandbox.holders().len(), 1);
    held.end(&sandbox);
}

#[test]
fn an_idle_lease_is_told_and_never_ended() {
    let Some(sandbox) = node(END) else { return };
    let _monitor = monitor(&sandbox);
    let script = "exec cudawrap -- sh -c 'echo >held; exec sleep 1000'";
    let leased = Session::start(&sandbox, script);
    leased
        .terminal
        .until_shows("leased and unused for 2 s (max_idle)");
    wait::throughout(Duration::from_secs(1), "it is never ended", || {
        sandbox.locked()
    });
    leased.end(&sandbox);
}

/// By its utilisation: a notebook that keeps its memory, or a trainer that hangs.
#[test]
fn a_program_that_computes_nothing_is_told_and_listed() {
    let (at_rest, computing) = ("[[health]]\nutilization = 0\n", "");
    let cases = [
        ("gpus4", at_rest, true),
        ("gpus4", computing, false),
        // A100s do not tell it of MIG devices, H200s do.
        ("mig4", at_rest, false),
        ("h200x1-mig", at_rest, true),
        ("h200x1-mig", computing, false),
    ];
    getgpu_tests::all_at_once(cases, |(layout, faults, is_idle)| {
        let Some(sandbox) = Sandbox::given(&MONITOR, layout, END) else {
            return;
        };
        sandbox.faults(faults);
        let script = "exec cudawrap -- sh -c 'echo >held; exec sim-cuda --run forever'";
        let leased = Session::start(&sandbox, script);
        sandbox.until_running(1);
        let monitor = monitor(&sandbox);
        let list = || sandbox.ask("--list --json").output();
        let since = || -> Option<u64> {
            let listing: serde_json::Value = serde_json::from_str(&list()).unwrap();
            let devices = getgpu_tests::listing::devices(&listing).iter();
            devices
                .filter_map(|device| device["idle_since"].as_u64())
                .next()
        };
        if is_idle {
            let line = "leased and idle for 2 s: its programs compute nothing (max_idle)";
            leased.terminal.until_shows(line);
            assert!(since().is_some(), "{}", list());
            sandbox.ask("--list").shows(" SINCE IDLE\n");
            sandbox.faults("");
            wait::until("it computes again", || since().is_none());
            sandbox.faults(faults);
            wait::until("it computes nothing", || since().is_some());
            drop(monitor);
            wait::until("no monitor knows it any more", || since().is_none());
        } else {
            wait::throughout(Duration::from_secs(4), layout, || since().is_none());
            assert!(!leased.terminal.shows("idle"), "{layout}");
        }
        assert!(sandbox.locked(), "it is never ended");
        leased.end(&sandbox);
    });
}

/// One after the other, the 56 would take longer than NVML may.
#[test]
fn all_mig_devices_of_a_node_are_told() {
    let node = "driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 8\nmig = true\nlayout = '7x1g.18gb'\n";
    let settings = format!("{END}\nnvml_timeout = '8s'");
    let Some(sandbox) = Sandbox::given(&MONITOR, node, &settings) else {
        return;
    };
    let uuids = sandbox.uuids().into_iter();
    let processes = uuids.map(|uuid| format!("[[process]]\ndevice = '{uuid}'\npid = 1\n"));
    let faults = "[[health]]\nutilization = 0\n".to_owned() + &processes.collect::<String>();
    let script = "exec cudawrap -n 56 -- sh -c 'echo >held; exec sleep 1000'";
    let leased = Session::start(&sandbox, script);
    sandbox.faults(&faults);
    let _monitor = monitor(&sandbox);
    leased.terminal.until_shows("its programs compute nothing");
    leased.end(&sandbox);
}

/// What cannot be told of one device keeps nothing from being told of another.
#[test]
fn a_driver_that_hangs_at_one_device_keeps_no_empty_one() {
    let settings = format!("{END}\nnvml_timeout = '6s'");
    let Some(sandbox) = Sandbox::given(&MONITOR, "h200x1-mig", &settings) else {
        return;
    };
    sandbox.faults("[[rule]]\nfunction = 'nvmlGpmMigSampleGet'\ndoes = 'hang'\n");
    // The one that is used is looked at first.
    let script = "X=$(getgpu --hold); CUDA_VISIBLE_DEVICES=$X sim-cuda --run forever & \
                  Y=$(getgpu --hold) && echo >held; exec sleep 1000";
    let session = Session::start(&sandbox, script);
    sandbox.until_running(1);
    assert_eq!(sandbox.holders().len(), 2);
    let _monitor = monitor(&sandbox);
    session.terminal.until_shows("the reservation has ended");
    wait::until("it has ended", || sandbox.holders().len() == 1);
    session.end(&sandbox);
}

#[test]
fn a_process_a_lease_and_doubt_each_keep_it() {
    let fault = "[[rule]]\nfunction = 'nvmlDeviceGetMemoryInfo_v2'\nreturns = 15\n\
                 [[rule]]\nfunction = 'nvmlDeviceGetMemoryInfo'\nreturns = 15\n";
    // A program of its own, one that has not touched the device yet, a driver in doubt.
    let cases = [
        ("CUDA_VISIBLE_DEVICES=$X sim-cuda --run forever", ""),
        ("CUDA_VISIBLE_DEVICES=$X cudawrap -- sleep 1000", ""),
        ("true", fault),
    ];
    getgpu_tests::all_at_once(cases, |(script, faults)| {
        let Some(sandbox) = node(END) else { return };
        let held = Session::holding(&sandbox, &format!("{{ {script}; }} & :"));
        sandbox.faults(faults);
        let _monitor = monitor(&sandbox);
        wait::throughout(Duration::from_secs(5), script, || {
            sandbox.holders().len() == 1
        });
        let told = held.terminal.shows("the reservation");
        assert!(!told, "{script}");
        held.end(&sandbox);
    });
}

/// What root holds until it is released has its reasons, such as maintenance.
#[test]
fn what_is_held_until_released_is_never_ended() {
    let Some(sandbox) = node(END) else { return };
    let _monitor = monitor(&sandbox);
    sandbox.line("-q --hold=0");
    let what = "it is the site's own";
    wait::throughout(Duration::from_secs(5), what, || {
        sandbox.holders().len() == 1
    });
}

#[test]
fn only_one_monitor_runs_and_only_roots() {
    let settings = "max_idle = '1h'";
    let Some(sandbox) = node(settings) else {
        return;
    };
    sandbox.ask_as(OTHER, "--monitor").refuses(2, "only root");
    let check = || sandbox.ask("--check");
    let line = "max_idle is set, and no getgpu --monitor runs: nothing applies it";
    assert!(check().stdout.contains(line));
    // Anybody may lock the directory, and a cleaner of temporary files does.
    let directory = fs::File::open(sandbox.lock().parent().unwrap()).unwrap();
    let _strangers = Flock::lock(directory, FlockArg::LockExclusiveNonblock).unwrap();
    let first = monitor(&sandbox);
    wait::until("it runs", || !check().stdout.contains(line));
    let second = sandbox.ask("--monitor");
    second.refuses(1, "another one runs already");
    let plain = sandbox.ask_as(OTHER, "--check");
    assert!(!plain.stdout.contains("--monitor"), "{}", plain.stdout);
    drop(first);
    assert!(check().stdout.contains(line));
}

/// It would see none of the host's leases there, and keep the host's own monitor away.
#[test]
fn no_monitor_runs_in_a_pid_namespace_of_its_own() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "h200x1", "") else {
        return;
    };
    let inside = sandbox.contained("timeout 10 getgpu --monitor").run();
    let line = "getgpu: --monitor: not in a pid namespace of its own, from which it sees no other process: start it on the host";
    inside.exits(2).says(&[line]);
}

#[test]
fn the_metrics_are_written_for_a_collector() {
    let settings = "max_idle = '2s'";
    let Some(sandbox) = node(settings) else {
        return;
    };
    let file = sandbox.path("work/getgpu.prom");
    let option = format!("--monitor={}", file.display());
    let _monitor = sandbox.getgpu([option]).limit(Duration::MAX).spawn();
    sandbox.until_file("work/getgpu.prom");
    let text = fs::read_to_string(&file).unwrap();
    for part in ["getgpu_device_state{", "getgpu_slurm_jobs_without_part 0\n"] {
        assert!(text.contains(&format!("\n{part}")), "{text}");
    }
}
