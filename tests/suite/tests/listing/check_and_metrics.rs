//! `--check` with a remedy for each finding, metrics for a collector, and a line for each
//! lease in the system log.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap;
use harness::skip::{self, Need, lacks};
use harness::{Outcome, Sandbox, wait};
use serde_json::Value;

/// The lines of findings: problems with their remedies, and how many are well.
fn findings(outcome: &Outcome) -> (Vec<(String, String)>, usize) {
    let mut problems: Vec<(String, String)> = Vec::new();
    let mut fine = 0;
    for line in outcome.stdout.lines() {
        if let Some(problem) = line.strip_prefix("problem  ") {
            problems.push((problem.to_owned(), String::new()));
        } else if let Some(remedy) = line.strip_prefix("  remedy: ") {
            problems.last_mut().unwrap().1 = remedy.to_owned();
        } else {
            assert!(line.starts_with("ok       "), "{line}");
            fine += 1;
        }
    }
    (problems, fine)
}

/// `getgpu --check` without the record of what is wrapped on this machine.
fn check(sandbox: &Sandbox, arguments: &str) -> Outcome {
    let getgpu = sandbox.bare(sandbox.path("bin/getgpu")).args(["--check"]);
    getgpu.args(arguments.split_whitespace()).run()
}

#[test]
fn a_node_that_is_set_up_has_no_problem() {
    if lacks(&[Need::Bare]) {
        return;
    }
    let sandbox = Sandbox::new("a100x8");
    let outcome = check(&sandbox, "");
    let (problems, fine) = findings(outcome.exits(0).says(&[]));
    assert!(problems.is_empty() && fine >= 7, "{outcome:#?}");
    outcome.shows("56 MIG devices and 0 whole GPUs on 8 GPUs");
    check(&sandbox, "-q").exits(0).prints("");
    let json = check(&sandbox, "--json");
    let json: Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    let json = json.as_array().unwrap();
    assert!(json.len() == fine && json.iter().all(|one| one["ok"] == true));
}

#[test]
fn limits_that_hold_for_nobody_are_told() {
    if lacks(&[Need::Bare]) {
        return;
    }
    let limits = [
        "group.nosuchgroup",
        "group.root",
        "user.nosuchuser",
        "user.12345",
    ];
    let limits = limits.map(|table| format!("[{table}]\nmax_per_user = 3\nmax_wait = \"1h\"\n"));
    let sandbox = Sandbox::with("mig4", &limits.concat());
    let outcome = check(&sandbox, "");
    let lines = outcome.exits(0).stdout.lines();
    let told: Vec<&str> = lines
        .filter(|line| line.contains("limits nobody"))
        .collect();
    let [group, user] = &told[..] else {
        panic!("{outcome:#?}")
    };
    assert!(group.contains("[group.nosuchgroup]"), "{group}");
    assert!(user.contains("[user.nosuchuser]"), "{user}");
}

#[test]
fn every_problem_is_told_with_a_remedy() {
    if lacks(&[Need::Bare]) {
        return;
    }
    let problem = |sandbox: &Sandbox, arguments: &str, part: &str| {
        let outcome = check(sandbox, arguments);
        outcome.exits(1).mentions("getgpu: --check: ");
        outcome.says(&[outcome.stderr.trim_end()]);
        let (problems, _) = findings(&outcome);
        let found = problems.iter().find(|(text, _)| text.contains(part));
        let (_, remedy) = found.unwrap_or_else(|| panic!("{part}: {outcome:#?}"));
        assert!(!remedy.is_empty(), "{part}: {outcome:#?}");
    };
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings("nope = 1");
    problem(&sandbox, "", "nope");
    sandbox.set_settings("[slurm]\noptions = '--gpu 2 --foo'");
    problem(&sandbox, "", "slurm.options: --foo: no such option");
    // What the prolog says itself.
    sandbox.set_settings("[slurm]\noptions = '--share 1/8'");
    problem(&sandbox, "", "slurm.options: ");
    sandbox.set_settings("[slurm]\noptions = '--list'");
    problem(
        &sandbox,
        "",
        "slurm.options: with these options getgpu chooses no device",
    );
    sandbox.set_settings("[slurm]\noptions = '--gpu 3'");
    problem(&sandbox, "", "slurm.options: `--gpu 3`: ");
    sandbox.set_settings("[slurm]\noptions = '--gpu 0'");
    sandbox.ask("--check").exits(0);
    sandbox.set_settings("allowed = ['MIG-00000000-0000-0000-0000-000000000000', 'bad']");
    problem(&sandbox, "", "`bad` is not the UUID of a device");
    problem(&sandbox, "", "no device is handed out");
    sandbox.set_settings("nvml_timeout = 1");
    sandbox.faults("[[rule]]\nfunction = 'nvmlDeviceGetCount_v2'\ndoes = 'hang'\n");
    problem(&sandbox, "", "NVML did not answer within 1 s");
    sandbox.faults("[[rule]]\nfunction = '*'\ngpu = 0\nreturns = 15\n");
    problem(&sandbox, "", "driver: ");
    // Everything answers but who uses the devices: they can never be given.
    #[rustfmt::skip]
    let cases = [
        ("ComputeRunningProcesses_v3", 18, " and 3 others: never free"),
        ("ComputeRunningProcesses_v3", 15, "GPU 0: the GPU is lost"),
        ("MemoryInfo_v2", 4, "DeviceGetMemoryInfo"),
    ];
    for (function, code, part) in cases {
        let rule = format!("function = 'nvmlDeviceGet{function}'\nreturns = {code}\n");
        sandbox.faults(&format!("[[rule]]\n{rule}"));
        problem(&sandbox, "", part);
    }
    sandbox.faults("");
    // A program that uses a device is no fault of the node.
    let _program = sandbox.occupy(&sandbox.uuids()[..1], "");
    sandbox.line("--hold");
    check(&sandbox, "").exits(0);
    std::fs::remove_file(sandbox.lock()).unwrap();
    std::fs::write(sandbox.lock(), "").unwrap();
    problem(&sandbox, "", "it is not a FIFO");
    let empty =
        Sandbox::new("driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n");
    problem(&empty, "", "GPU 0 is in MIG mode but has no MIG devices");
    check(&empty, "").shows("0 MIG devices and 0 whole GPUs on 1 GPU\n");
    // A wrapped program without its hidden one.
    let broken = Sandbox::new("mig4");
    let app = wrap(&broken, "opt", "app", "probe");
    let directory = broken.text("opt");
    check(&broken, &directory).exits(0);
    std::fs::remove_file(app.with_file_name("CUDAWRAP_app")).unwrap();
    problem(&broken, &directory, "app");
    // Nor does a caller that ignores the end of children hide it.
    let ignored = "env --ignore-signal=CHLD getgpu --check @/opt";
    let ignored = broken.words(ignored).run();
    assert_eq!(findings(ignored.exits(1)).0.len(), 1, "{ignored:#?}");
    // A remedy is one that works: nothing can be repaired where nothing is.
    let missing = check(&broken, &broken.text("opt/nowhere"));
    let (problems, _) = findings(missing.exits(1));
    let [(text, remedy)] = &problems[..] else {
        panic!("{problems:?}")
    };
    assert!(text.contains("no such file") && !remedy.contains("--repair"));
    let bare = broken.words("getgpu --check").env_remove("SIM_NODE");
    bare.run().exits(1);
}

#[test]
fn metrics_are_what_the_listing_says() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let reserved = sandbox.line("--share 1/4 --hold");
    let other = usize::from(uuids[0] == reserved);
    let _busy = sandbox.occupy(&uuids[other..=other], "");
    let text = sandbox.ask("--list --format prometheus").says(&[]).output();
    let mut values: BTreeMap<&str, f64> = BTreeMap::new();
    let mut announced = "";
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            announced = comment.split(' ').nth(1).unwrap();
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with(announced), "{line} below {announced}");
        let before = values.insert(name, value.parse().unwrap());
        assert!(before.is_none(), "twice: {line}");
    }
    // One state each.
    #[rustfmt::skip]
    let sums = [
        ("getgpu_device_state{", "state=\"free\"", 2.0), ("getgpu_device_state{", "", 4.0),
        ("getgpu_device_share_used{", &reserved, 0.25), ("getgpu_device_in_pool{", "", 4.0),
        ("getgpu_lock_shared", "", 1.0),
    ];
    for (name, label, sum) in sums {
        let is_one = |known: &str| known.contains(name) && known.contains(label);
        let those = values.iter().filter(|(known, _)| is_one(known));
        let found: f64 = those.map(|(_, value)| value).sum();
        assert!((found - sum).abs() < 1e-9, "{name} {label}: {text}");
    }
    let alone = sandbox.ask("--format prometheus");
    alone.refuses(2, "--format prometheus goes with --list");
}

/// The system's log is a socket at /dev/log: here the test's own, in a /dev of the
/// program's own.
#[test]
fn the_systems_log_has_a_line_for_each_lease_and_reservation() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "mig4", "log = 'syslog'") else {
        return;
    };
    let socket = UnixDatagram::bind(sandbox.path("work/log")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let apart = |script: &str| {
        let script = format!(
            "mount -t tmpfs -o mode=755 dev /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && \
             ln -s {} /dev/log && {{ {script}; }}",
            sandbox.text("work/log")
        );
        sandbox.apart(&script)
    };
    let run = |script: &str| apart(script).run();
    let line = || {
        let mut bytes = [0; 2048];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let has = |by: &str, parts: &str| {
        let said = line();
        let parts = parts.split('|');
        for part in parts.chain([format!("<30>{by}[").as_str()]) {
            assert!(said.contains(part), "{part} in {said}");
        }
    };
    let uuid = run("getgpu --for 0.2 --share 1/4").line();
    let given = "user=|share=0.25|waited=|for=sh";
    has("getgpu", &format!("reserved |{uuid}|{given}"));
    let ended = " user=| share=0.25| for=sh | held=";
    has("getgpu", &format!("]: released |{uuid}|{ended}"));
    run("SLURM_JOB_ID=71 SLURM_STEP_ID=0 SLURM_PROCID=3 cudawrap --tag night-7 -- sh -c 'exit 3'")
        .exits(3);
    let leased = "leased MIG-|user=|program=sh|share=1 tag=night-7 job=71.0 task=3|waited=";
    has("cudawrap", leased);
    // Who gives a reservation up, and who gets none.
    run("getgpu --hold --tag mine; getgpu --release mine").exits(0);
    has("getgpu", " tag=mine");
    has("getgpu", "]: released MIG-| tag=mine ");
    sandbox.ask("-n 4 --hold").exits(0);
    run("CUDAWRAP_TAG=night-8 getgpu; cudawrap --tag night-8 -- true").exits(75);
    for by in ["getgpu", "cudawrap"] {
        has(by, "]: refused user=| tag=night-8: no free device");
    }
    sandbox.ask("--release-all").exits(0);
    // The end of a lease is the monitor's to say: of a program that is killed, when the
    // child that keeps the lease has exited.
    if nix::unistd::geteuid().is_root() && !skip::lacks(&[Need::HostPids]) {
        // It sees the program while that runs: what it knows of the device shows that.
        sandbox.assert_clean();
        sandbox.set_settings("log = 'syslog'\nmax_idle = '1h'");
        let script = "getgpu --monitor & cudawrap --tag night-9 -- sh -c \
            'until [ -e over ]; do sleep 0.05; done & until [ -e seen ]; do sleep 0.05; done; kill -KILL $$'; \
            : >killed; until [ -e told ]; do sleep 0.05; done; kill $!";
        let monitored = apart(script).spawn();
        has("cudawrap", "]: leased ");
        wait::until("the monitor has seen it", || {
            let listed = listing::json(&sandbox);
            let mut devices = listing::devices(&listed).iter();
            devices.any(|device| device["empty_since"].is_u64())
        });
        let seen = Instant::now();
        sandbox.file("work/seen", "", 0o644);
        sandbox.until_file("work/killed");
        let look = Duration::from_millis(1500);
        wait::throughout(look, "its child keeps the lease", || sandbox.locked());
        let least = seen.elapsed().as_secs_f64() - 0.1;
        sandbox.file("work/over", "", 0o644);
        let ended = line();
        let held = ended.rsplit_once(" held=").unwrap().1;
        let held: f64 = held.trim_end_matches('s').parse().unwrap();
        assert!(
            ended.contains("]: released MIG-") && held >= least,
            "{least}: {ended}"
        );
        assert!(ended.contains(" tag=night-9 "), "{ended}");
        sandbox.file("work/told", "", 0o644);
        monitored.wait();
    }
    // Nobody listens: the program runs all the same.
    drop(socket);
    run("cudawrap -- sh -c 'exit 4'").exits(4).says(&[]);
    sandbox.set_settings("log = 'nowhere'");
    run("cudawrap -- true").refuses(125, "nowhere");
}

/// NVML sees nothing wrong there, and yet each program ends at once.
#[test]
fn a_device_on_which_leases_end_at_once_is_told() {
    if skip::lacks(&[Need::Root, Need::HostPids]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let lease = |uuid: &str, run: &str| {
        let words = format!("cudawrap -- sim-cuda --run {run}");
        sandbox.words(&words).visible(uuid).spawn()
    };
    let line = format!("{}: 5 leases ended there within two seconds", uuids[3]);
    let _lasting = lease(&uuids[0], "forever");
    let _monitor = sandbox
        .words("getgpu --monitor")
        .limit(Duration::MAX)
        .spawn();
    let held = sandbox.lock().with_extension("watched");
    wait::until("it has looked at the node", || held.exists());
    for _ in 0..5 {
        assert!(!check(&sandbox, "").stdout.contains(&line));
        lease(&uuids[3], "1100ms").wait().exits(0);
    }
    wait::until("the monitor has told it", || {
        check(&sandbox, "").stdout.contains(&line)
    });
    assert_eq!(
        sandbox.ask("--count-free").output().trim(),
        "3",
        "nothing acts on it"
    );
}
