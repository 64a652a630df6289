//! Whether a device is busy where NVML shows little: containers, integrated GPUs, ignored
//! processes, graphics on MIG devices. NUMA nodes are in `numa_node`, pid namespaces in `drivers`.

use std::os::unix::fs::symlink;

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, assert_devices, listing, until_none_is_free};
use harness::skip::{self, Need};
use harness::{Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// Fails unless another program has the only device.
#[track_caller]
fn in_use(sandbox: &Sandbox) {
    let line = "1 of 1 in use (other programs 1)";
    sandbox.ask("").refuses(1, line);
}

/// The remedy that docs/ADMIN.md has for it.
#[test]
fn an_idle_mig_device_above_containers_floor_needs_idle_memory() {
    let gpu = "driver = '580.95.05'\n[[gpu]]\nmodel = 'RTX-PRO-6000'\nmig = true\n";
    let idle = "device = [{ gi = 3, profile = '1g.24gb', idle_mib = 72 }]\n";
    let sandbox = Sandbox::new(&format!("{gpu}{idle}"));
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    sandbox.faults("foreign_pidns_blind = true");
    let inside = || sandbox.contained("getgpu --explain --no-reserve").run();
    let hidden = "72 MiB in use and no process shown: processes outside this container are hidden";
    inside().exits(1).mentions(hidden);
    sandbox.set_settings("idle_memory = '80M'");
    inside().exits(0);
    // A bare context.
    let _program = sandbox.occupy(&sandbox.uuids(), &format!("--memory {}", 100 << 20));
    inside().exits(1).mentions("172 MiB in use");
}

/// DGX Spark, Jetson Thor: NVML reports no memory, and the lists of processes are right.
#[test]
fn an_integrated_gpu_is_judged_by_its_processes() {
    let sandbox =
        Sandbox::new("driver = '580.95.05'\n[[gpu]]\nmodel = 'GB10'\nintegrated = true\n");
    let uuid = sandbox.uuids()[0].clone();
    assert_eq!(sandbox.line("--no-reserve"), uuid);
    let linked = wrap(&sandbox, "opt", "simulate", "sim-cuda");
    let outcome = sandbox.command(&linked).run();
    outcome.exits(0).says(&[]).shows(&format!("RUN {uuid} "));
    for arguments in [["--min-memory", "1G"], ["--share", "10G"]] {
        let line =
            "no device of the request exists here: 1 of unknown memory: NVML does not report any";
        sandbox.getgpu(arguments).run().refuses(3, line);
        let command = sandbox.command("cudawrap").args(arguments);
        let outcome = command.args(["--", "true"]).run();
        outcome.refuses(125, line);
    }
    // A fraction needs no figure.
    assert_eq!(sandbox.line("--no-reserve --share 1/2"), uuid);
    let _program = sandbox.occupy(&[uuid], "");
    in_use(&sandbox);
    if !skip::lacks(&[Need::Mounts]) {
        // Without the host's processes there is no witness at all.
        sandbox.faults("foreign_pidns_blind = true");
        let outcome = sandbox.contained("getgpu --no-reserve").run();
        outcome.refuses(1, "1 of 1 in use (unknown to NVML 1)");
    }
}

/// What an MPS server or a desktop uses itself is not work; what its clients use is.
#[test]
fn an_ignored_process_hides_a_gib_and_no_clients() {
    let sandbox = Sandbox::new("h200x1");
    let uuid = sandbox.uuids()[0].clone();
    symlink("/bin/sleep", sandbox.path("bin/nvidia-cuda-mps-server")).unwrap();
    let server = sandbox.words("nvidia-cuda-mps-server 600").spawn();
    let entry = |kind: &str, pid: u32, mib: u32| {
        format!(
            "[[process]]\ndevice = '{uuid}'\npid = {pid}\nkind = '{kind}'\nmemory_mib = {mib}\n"
        )
    };
    wait::until("the server has its name", || {
        std::fs::read_to_string(format!("/proc/{}/comm", server.pid()))
            .is_ok_and(|name| name.starts_with("nvidia-cuda"))
    });
    let pid = server.pid();
    sandbox.faults(&entry("compute", pid, 1000));
    sandbox.line("--no-reserve");
    sandbox.faults(&entry("compute", pid, 9000));
    in_use(&sandbox);
    // Its clients may be there where their list is not told.
    let lists = ["", "_v2", "_v3"].map(|version| {
        let name = format!("nvmlDeviceGetMPSComputeRunningProcesses{version}");
        format!("[[rule]]\nfunction = '{name}'\nreturns = 999\n")
    });
    sandbox.faults(&(entry("compute", pid, 1000) + &lists.concat()));
    let outcome = sandbox.ask("--explain --no-reserve");
    outcome.exits(1).mentions("NVML code 999");
    // Drivers before 510 do not have the third version of the list of clients, those before
    // 470 have the first one only.
    for driver in ["550.54.15", "470.256.02", "460.106.00"] {
        let node = format!("driver = '{driver}'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n");
        let old = Sandbox::new(&node);
        let clients =
            (entry("compute", pid, 60) + &entry("mps", 77, 60)).replace(&uuid, &old.uuids()[0]);
        old.faults(&clients);
        old.ask("--explain --no-reserve")
            .exits(1)
            .mentions("busy: used by pid 77");
    }
}

/// CUDA fails with 46 for all users but the server's, so the GPU was always the free one.
#[test]
fn an_mps_server_has_an_exclusive_gpu_for_its_user() {
    let Some(sandbox) = Sandbox::given(&[Need::Root], "h200x1", "") else {
        return;
    };
    let uuid = sandbox.uuids()[0].clone();
    symlink("/bin/sleep", sandbox.path("bin/nvidia-cuda-mps-server")).unwrap();
    let exclusive = "[[health]]\ngpu = 0\ncompute_mode = 3\n";
    for owner in [0, OTHER] {
        let server = sandbox.words("nvidia-cuda-mps-server 600").uid(owner);
        let server = server.spawn();
        let pid = server.pid();
        wait::until("the server has its name", || {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("nvidia-cuda"))
        });
        let listed = format!("[[process]]\ndevice = '{uuid}'\npid = {pid}\nmemory_mib = 60\n");
        // Where any number of programs may compute, it keeps none away.
        sandbox.faults(&listed);
        sandbox.line("--no-reserve");
        sandbox.faults(&format!("{listed}{exclusive}"));
        let own = sandbox.getgpu(["--no-reserve"]).uid(owner).run();
        own.exits(0);
        let other = sandbox.getgpu(["--no-reserve", "--explain"]);
        let other = other.uid(if owner == 0 { OTHER } else { 0 }).run();
        if owner == 0 {
            other.exits(0);
        } else {
            other.exits(1).mentions(&format!(
                "busy: in compute mode Exclusive_Process the MPS server of uid {OTHER} (pid {pid}) has it"
            ));
        }
    }
}

/// Nothing will ever end there, so the device would stay busy and the reason unknown.
#[test]
fn a_device_that_is_busy_without_a_program_is_named() {
    let sandbox = Sandbox::new("mig4");
    let uuid = &sandbox.uuids()[1];
    let cases = [
        (
            format!("[[memory]]\ndevice = '{uuid}'\nused_mib = 900\n"),
            "900 MiB in use and no process shown",
        ),
        (
            format!("[[process]]\ndevice = '{uuid}'\npid = 4000000\nmemory_mib = 60\n"),
            "used by pid 4000000 (?)",
        ),
    ];
    for (fault, why) in cases {
        sandbox.faults(&fault);
        sandbox.ask("--list").exits(0).shows(why);
        let check = sandbox.ask("--check");
        check.shows(&format!("{uuid}: busy without a program: {why}"));
        check.shows("idle_memory");
    }
    // A program that is seen will end.
    sandbox.faults("");
    let _program = sandbox.occupy(std::slice::from_ref(uuid), "");
    let check = sandbox.ask("--check");
    assert!(!check.stdout.contains("without a program"), "{check:?}");
}

/// A reboot of the node is no remedy for a container that is older than the driver.
#[test]
fn a_container_that_is_older_than_the_driver_is_started_again() {
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], "mig4", "") else {
        return;
    };
    sandbox.faults("[[rule]]\nfunction = 'nvmlInit_v2'\nreturns = 18\n");
    let host = sandbox.ask("");
    if !host.stderr.contains("this container") {
        host.mentions("reload of the nvidia module");
    }
    let contained = sandbox.contained("getgpu").run();
    contained.mentions("this container was started before");
}

/// Less memory than the rule about memory sees: the graphics list alone shows the program.
#[test]
fn graphics_on_a_mig_device_make_it_busy() {
    let sandbox = Sandbox::new("rtx-pro-6000");
    let node = sandbox.folder().node().unwrap();
    let is_drawn_on = |uuid: &String| {
        let mut devices = node.mig_devices().map(|(_, device)| device);
        devices.any(|device| device.uuid == *uuid && device.profile.ends_with("+gfx"))
    };
    let (drawn, free): (Vec<_>, Vec<_>) = sandbox.uuids().into_iter().partition(is_drawn_on);
    assert_eq!(drawn.len(), 4);
    let entry = |uuid: &String| {
        format!("[[process]]\ndevice = '{uuid}'\npid = 77\nkind = 'graphics'\nmemory_mib = 100\n")
    };
    sandbox.faults(&drawn.iter().map(entry).collect::<String>());
    assert_eq!(listing::free_devices(&sandbox), free.len().to_string());
    assert_devices(&until_none_is_free(&sandbox, &[]), &free);
    sandbox.ask("--release-all").exits(0);
    let linked = sandbox
        .words("cudawrap --profile 4g.96gb+gfx -- true")
        .run();
    linked.refuses(75, "1 of 1 in use (other programs 1)");
    // A grant of one device, which is asked about by its UUID alone.
    let one = sandbox.ask_within(&drawn[0], "--no-reserve");
    one.refuses(1, "1 of 1 in use (other programs 1)");
}

/// It is not certain whose processes the handle of a compute instance lists.
#[test]
fn another_compute_instances_processes_make_a_device_not_busy() {
    let instance = |ci| format!("{{ gi = 1, ci = {ci}, profile = '1c.3g.20gb' }}");
    let devices = [instance(0), instance(1)].join(", ");
    let sandbox = Sandbox::new(&format!(
        "driver = '580.65.06'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\ndevice = [{devices}]\n"
    ));
    let uuids = sandbox.uuids();
    let _program = sandbox.occupy(&uuids[..1], "");
    for listed in ["siblings_listed = false", "siblings_listed = true"] {
        sandbox.faults(listed);
        sandbox.ask("--count-free").answers("1\n");
        let shown = listing::json(&sandbox);
        let counts = listing::devices(&shown)
            .iter()
            .map(|device| device["processes"].as_array().map(Vec::len));
        assert_eq!(counts.collect::<Vec<_>>(), [Some(1), Some(0)], "{listed}");
    }
}

/// A program that draws and computes is in two lists.
#[test]
fn a_process_is_told_once() {
    let sandbox = Sandbox::new("h200x1");
    let uuid = &sandbox.uuids()[0];
    let entry = |(kind, pid): (&str, u32)| {
        format!("[[process]]\ndevice = '{uuid}'\npid = {pid}\nkind = '{kind}'\nmemory_mib = 60\n")
    };
    let entries = [("compute", 77), ("compute", 78), ("graphics", 77)].map(entry);
    sandbox.faults(&entries.concat());
    let listed = listing::json(&sandbox);
    let processes = listing::devices(&listed)[0]["processes"]
        .as_array()
        .unwrap();
    let pids = processes.iter().map(|process| process["pid"].as_u64());
    assert!(pids.eq([77, 78].map(Some)), "{listed}");
}

/// As under WSL: every device is unknown, and a setting that the messages name helps.
#[test]
fn where_no_processes_are_listed_a_setting_lets_empty_memory_decide() {
    let sandbox = Sandbox::new("gpus4");
    let lists = ["Compute", "Graphics", "MPSCompute"].map(|kind| {
        let name = format!("nvmlDeviceGet{kind}RunningProcesses");
        let each = ["", "_v2", "_v3"]
            .map(|version| format!("[[rule]]\nfunction = '{name}{version}'\nreturns = 3\n"));
        each.concat()
    });
    let used = format!(
        "memory = [{{ device = '{}', used_mib = 9000 }}]\n",
        sandbox.uuids()[1]
    );
    sandbox.faults(&format!("{used}{}", lists.concat()));
    let line = "setting `memory_decides` lets empty memory decide";
    sandbox.ask("--explain").exits(1).mentions(line);
    sandbox
        .ask("--check")
        .shows(line)
        .shows("memory_decides = true in ");
    sandbox.set_settings("memory_decides = true");
    let mut free = sandbox.uuids();
    free.remove(1);
    assert_devices(&until_none_is_free(&sandbox, &[]), &free);
    sandbox
        .ask("--explain")
        .mentions("9000 MiB in use and no process shown");
}

#[test]
fn a_container_that_sees_only_the_parent_of_mig_devices_is_told_so() {
    let node = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n";
    let Some(sandbox) = Sandbox::given(&[Need::Mounts], node, "") else {
        return;
    };
    let inside = sandbox.contained("getgpu --ignore-grant").run();
    inside.refuses(3, "no device on this node: its GPUs are in MIG mode");
    inside.mentions("this container was not given one: name it when the container is started");
    let check = sandbox.contained("getgpu --check").run();
    check.shows("this container was not given one");
    assert!(!check.stdout.contains("-cgi"), "{check:#?}");
}

/// A list looks at the memory of all devices before their processes.
#[test]
fn a_program_that_ends_while_a_list_is_made_is_no_hidden_one() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[2].clone();
    let programs = sandbox.occupy(std::slice::from_ref(&uuid), "");
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndevice = '{uuid}'\nfirst = 1\ndoes = 'stop'"
    ));
    let list = sandbox.words("getgpu --list --json").spawn();
    let stopped = || sandbox.processes_in('T').first().copied();
    wait::until("the processes are asked for", || stopped().is_some());
    drop(programs);
    sandbox.until_running(0);
    kill(Pid::from_raw(stopped().unwrap()), Signal::SIGCONT).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&list.wait().exits(0).stdout).unwrap();
    assert_eq!(listing::device(&listed, &uuid)["state"], "free");
}
