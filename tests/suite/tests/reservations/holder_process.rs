//! The holder process is small, carries nothing of its caller and always ends. Also what
//! becomes of a reservation when getgpu or the holder is killed at the worst moment.

use std::fs;
use std::time::Duration;

use getgpu_tests::{OTHER, bytes, free_again, listing};
use harness::skip::{self, Need};
use harness::{Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

fn proc(pid: i32, file: &str) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{file}")).unwrap()).into_owned()
}

#[test]
fn the_holder_is_small_and_carries_nothing_of_its_caller() {
    let sandbox = Sandbox::new("a100x8");
    let script = "umask 077; ulimit -c 0; exec 7<config.toml 8>>noise; trap '' TERM HUP; x=$(launch --block 15 getgpu --for 30); echo $$ $x";
    let shell = sandbox.shell("bash", script).env("SECRET", "value");
    let shell = shell.directory(sandbox.root());
    fs::write(sandbox.path("noise"), "").unwrap();
    let line = shell.run().line();
    let (caller, uuid) = line.split_once(' ').unwrap();
    let pid = sandbox.holders()[0].pid;
    wait::until("it has been told", || {
        fs::read_link(format!("/proc/{pid}/fd/4")).is_err()
    });
    assert_eq!(proc(pid, "environ"), "");
    let words = proc(pid, "cmdline").replace('\0', " ");
    let begin = format!("getgpu --holder {uuid} caller={caller}(bash) ");
    assert!(words.starts_with(&begin), "{words}");
    assert!(words.contains(" for=30 "), "{words}");
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(directory.as_os_str(), "/");
    let stat = proc(pid, "stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_ne!(fields[3], fields[0], "session of its own");
    assert_ne!(fields[3], caller);
    assert_eq!(fields[4], "0", "no terminal");
    let open = [0, 1, 2, 3, 4].map(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok());
    let [null, lock] = ["/dev/null".into(), sandbox.lock()].map(Some);
    assert_eq!(open, [null.clone(), null.clone(), null, lock, None]);
    assert_eq!(fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), 4);
    assert!(!proc(pid, "maps").contains("nvidia"), "no NVML");
    let status = proc(pid, "status");
    let resident = status.split("VmRSS:").nth(1).unwrap().trim_start();
    let (resident, _) = resident.split_once(" kB").unwrap();
    println!("resident: {resident} KiB");
    if !cfg!(debug_assertions) {
        let kib: u32 = resident.parse().unwrap();
        assert!(kib < 3 << 10, "{resident}");
    }
    // Signals that the caller ignored or blocked are neither here.
    let blocked = status.split("SigBlk:\t").nth(1).unwrap();
    let blocked = u64::from_str_radix(&blocked[..16], 16).unwrap();
    assert_eq!(blocked >> (Signal::SIGTERM as u32 - 1) & 1, 0, "{status}");
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    free_again(&sandbox);
}

/// The numbers of the processes whose end the holder waits for.
fn watched(sandbox: &Sandbox) -> usize {
    let holder = sandbox.holders()[0].pid;
    let open = fs::read_dir(format!("/proc/{holder}/fd"))
        .unwrap()
        .flatten();
    let targets = open.filter_map(|fd| fs::read_link(fd.path()).ok());
    let is_pidfd = |to: &std::path::PathBuf| to.to_string_lossy().contains("pidfd");
    targets.filter(is_pidfd).count()
}

/// Found before anything is waited for: behind that, another process would have adopted
/// getgpu, and the reservation would be shown as that one's.
#[test]
fn a_caller_killed_while_getgpu_waits_is_still_the_caller() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[0].clone();
    let program = sandbox.leased().visible(&uuid).spawn();
    sandbox.until_running(1);
    let shell = sandbox.shell("bash", "getgpu --wait > waited; exit 1");
    let shell = shell.directory(sandbox.root()).visible(&uuid).spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    let caller = format!("caller={}(bash)", shell.pid());
    shell.kill();
    program.kill();
    wait::until("it is reserved", || sandbox.holders().len() == 1);
    let words = sandbox.holders()[0].words.clone();
    assert!(words.contains(&caller), "{caller}: {words:?}");
}

#[test]
fn a_process_under_another_uid_keeps_the_device_of_its_parent() {
    let Some(sandbox) = Sandbox::given(
        &[Need::Root, Need::Tool("setpriv")],
        "h200x1",
        "linger = '100ms'",
    ) else {
        return;
    };
    // Neither is below the caller when it looks, and the child, which is another user's
    // before its parent names the device, knows nothing of it: it counts by its parent
    // alone.
    let script = format!(
        "d=$(getgpu) || exit; export DEVICE=$d; mkfifo -m 666 work/ready; setsid -f dash -c '
            setpriv --reuid={OTHER} --regid={OTHER} --clear-groups dash -c \"echo >work/ready; exec sleep 1000\" &
            read ready <work/ready; echo $$ $!; exec env CUDA_VISIBLE_DEVICES=$DEVICE sleep 1000'"
    );
    let shell = sandbox.shell("dash", &script);
    let shell = shell.directory(sandbox.root()).spawn();
    wait::until("both run", || shell.stdout().ends_with('\n'));
    let text = shell.stdout();
    let pids = text.split_whitespace().map(|pid| pid.parse().unwrap());
    let pids: Vec<i32> = pids.collect();
    wait::until("the holder has seen both", || watched(&sandbox) == 2);
    kill(Pid::from_raw(pids[0]), Signal::SIGKILL).unwrap();
    wait::until("the parent has exited", || watched(&sandbox) == 1);
    let half = Duration::from_millis(500);
    wait::throughout(half, "its child has the device", || sandbox.locked());
    kill(Pid::from_raw(pids[1]), Signal::SIGKILL).unwrap();
    sandbox.assert_clean();
}

#[test]
fn who_is_killed_in_nvml_holds_nothing_and_leaves_no_process() {
    let sandbox = Sandbox::new("h200x1");
    sandbox.faults("[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndoes = 'hang'");
    for program in ["getgpu", "cudawrap -- true"] {
        // They end a program which has not said otherwise.
        use Signal::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
        for signal in [SIGKILL, SIGTERM, SIGINT, SIGHUP] {
            let program = sandbox.words(program).spawn();
            wait::until("it tries a device", || sandbox.locked());
            program.signal(signal);
            assert_eq!(program.wait().signal(), Some(signal as i32));
            sandbox.assert_clean();
            let none = || sandbox.processes().is_empty();
            wait::until("the process that asks NVML has exited", none);
        }
    }
}

#[test]
fn a_stopped_holder_is_released_all_the_same() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.line("--for=600");
    let holder = sandbox.holders()[0].pid;
    kill(Pid::from_raw(holder), Signal::SIGSTOP).unwrap();
    sandbox.ask(&format!("--release {uuid}")).answers("");
    sandbox.assert_clean();
}

/// Whatever strangers call their processes, and whatever these do with a signal, the
/// others' holders end and root has an answer.
#[test]
fn strangers_that_look_like_holders_do_not_delay_roots_release() {
    if skip::lacks(&[Need::Root]) || getgpu_tests::wrapped::lacks_python() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[0].clone();
    std::os::unix::fs::symlink("/usr/bin/python3", sandbox.path("work/getgpu-hold")).unwrap();
    let python = "import fcntl, signal, struct, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nf = open(sys.argv[1], 'r+b', buffering=0)\n\
                  fcntl.fcntl(f, 37, struct.pack('hhqqi4x', 0, 0, int(sys.argv[2]), 720720, 0))\nopen(sys.argv[3], 'w').close()\nsignal.pause()\n";
    let start = bytes::span(&uuid) + bytes::RESERVATION;
    let stranger = |number: i32| {
        let ready = format!("work/ready{number}");
        let (lock, start) = (sandbox.text("run/lock"), start.to_string());
        let words = ["-c", python, &lock, &start, &sandbox.text(&ready)];
        let like = format!("--holder {uuid} caller=1(x) start=1 hold=0 tag=slurm-17");
        let python = sandbox.words("@/work/getgpu-hold").args(words);
        let running = python.args(like.split(' ')).uid(OTHER).spawn();
        sandbox.until_file(&ready);
        running
    };
    let strangers: Vec<_> = (0..4).map(stranger).collect();
    sandbox.line("--hold=0 --tag slurm-17");
    let released = sandbox.ask("--release slurm-17");
    released.refuses(4, "does not end");
    let holders = sandbox.holders();
    let strangers_only = holders.iter().all(|holder| holder.uid == OTHER);
    assert!(strangers_only, "the real one has not ended: {holders:#?}");
    drop(strangers);
}
