//! Whether a device is busy where NVML shows little: other pid namespaces, integrated GPUs,
//! GPU memory that is a NUMA node, ignored processes, graphics on MIG devices.

use std::os::unix::fs::symlink;

use getgpu_tests::{PLAIN, assert_devices, listing, until_none_is_free};
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

/// A library in a container sees no process of the host: the memory is the witness.
#[test]
fn a_library_that_is_blind_across_namespaces_is_not_believed() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let _programs = sandbox.occupy(&uuids[..3], "");
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    sandbox.faults("foreign_pidns_blind = true");
    let inside = "mount -t proc proc /proc; getgpu --no-reserve; getgpu --count-free";
    let outcome = sandbox
        .command("unshare")
        .args(["-mpf", "--kill-child", "sh", "-c", inside])
        .run();
    assert_eq!(
        outcome.exits(0).stdout,
        format!("{}\n1\n", uuids[3]),
        "{outcome:#?}"
    );
}

/// On a large GPU a bare context is below one per cent of the memory, and in a container
/// nothing else is seen of it.
#[test]
fn a_bare_context_on_a_large_gpu_is_seen_from_a_container() {
    let sandbox = Sandbox::new("h200x1");
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    sandbox.faults("foreign_pidns_blind = true");
    let inside = |command: &str| {
        let script = format!("mount -t proc proc /proc; {command}");
        sandbox
            .command("unshare")
            .args(["-mpf", "--kill-child", "sh", "-c", &script])
            .run()
    };
    inside("getgpu --no-reserve").line();
    let _program = sandbox.occupy(&sandbox.uuids(), &format!("--memory {}", 600 << 20));
    let outcome = inside("getgpu --no-reserve");
    outcome.refuses("getgpu", 1, "1 of 1 in use (unknown to NVML 1)");
    let ran = inside("cudawrap -- echo ran");
    ran.exits(75).prints("");
    // A site that knows better says so.
    sandbox.set_settings("idle_memory = '700M'");
    inside("getgpu --no-reserve").line();
}

/// The remedy that docs/ADMIN.md has for it.
#[test]
fn an_idle_mig_device_above_the_floor_of_containers_needs_idle_memory() {
    let gpu = "driver = '580.95.05'\n[[gpu]]\nmodel = 'RTX-PRO-6000'\nmig = true\n";
    let idle = "device = [{ gi = 3, profile = '1g.24gb', idle_mib = 72 }]\n";
    let sandbox = Sandbox::new(&format!("{gpu}{idle}"));
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    sandbox.faults("foreign_pidns_blind = true");
    let inside = || {
        let script = "mount -t proc proc /proc; getgpu --explain --no-reserve";
        sandbox
            .command("unshare")
            .args(["-mpf", "--kill-child", "sh", "-c", script])
            .run()
    };
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
    assert_eq!(sandbox.getgpu(["--no-reserve"]).run().line(), uuid);
    let linked = sandbox.path("bin/simulate");
    symlink(sandbox.path("bin/cudawrap"), &linked).unwrap();
    symlink(
        sandbox.path("bin/sim-cuda"),
        sandbox.path("bin/CUDAWRAP_simulate"),
    )
    .unwrap();
    let outcome = sandbox.command(&linked).run();
    assert!(
        outcome.exits(0).stdout.starts_with(&format!("RUN {uuid} ")),
        "{outcome:#?}"
    );
    outcome.says(&[]);
    for arguments in [["--min-memory", "1G"], ["--share", "10G"]] {
        let line =
            "no device of the request exists here: 1 of unknown memory: NVML does not report any";
        sandbox.getgpu(arguments).run().refuses("getgpu", 3, line);
        sandbox
            .command("cudawrap")
            .args(arguments)
            .args(["--", "true"])
            .run()
            .refuses("cudawrap", 125, line);
    }
    // A fraction needs no figure.
    assert_eq!(
        sandbox
            .getgpu(["--no-reserve", "--share", "1/2"])
            .run()
            .line(),
        uuid
    );
    let _program = sandbox.occupy(&[uuid], "");
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
    if !skip::lacks(&[Need::Mounts]) {
        // Without the host's processes there is no witness at all.
        sandbox.faults("foreign_pidns_blind = true");
        let script = "mount -t proc proc /proc; getgpu --no-reserve";
        let outcome = sandbox
            .command("unshare")
            .args(["-mpf", "--kill-child", "sh", "-c", script])
            .run();
        outcome.refuses("getgpu", 1, "1 of 1 in use (unknown to NVML 1)");
    }
}

/// GH200: the system uses the GPU's memory, so memory in use is nobody's.
#[test]
fn gpu_memory_that_is_a_numa_node_makes_no_device_busy() {
    let gpu = "driver = '570.86.15'\n[[gpu]]\nmodel = 'GH200-96GB'\nidle_mib = 20000\n";
    let plain = Sandbox::new(gpu);
    plain
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
    let sandbox = Sandbox::new(&format!("{gpu}numa_node = 1\n"));
    let uuid = sandbox.getgpu(["--no-reserve"]).run().line();
    // In a MIG device the memory is the parent's.
    let mig =
        "mig = true\ndevice = [{ gi = 1, profile = '3g.40gb', idle_mib = 20000 }]\nnuma_node = 1\n";
    let parts = Sandbox::new(&format!(
        "driver = '570.86.15'\n[[gpu]]\nmodel = 'GH200-96GB'\n{mig}"
    ));
    parts.getgpu(["--no-reserve"]).run().line();
    let _program = sandbox.occupy(&[uuid], "");
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
}

/// Some drivers list a process of another pid namespace with pid 0.
#[test]
fn a_process_without_a_pid_makes_its_device_busy() {
    let sandbox = Sandbox::new("mig4");
    for pid in ["0", "4194305", "4294967295"] {
        let entry = |uuid: &String| format!("[[process]]\ndevice = '{uuid}'\npid = {pid}\n");
        sandbox.faults(&sandbox.uuids().iter().map(entry).collect::<String>());
        sandbox
            .getgpu(PLAIN)
            .run()
            .refuses("getgpu", 1, "4 of 4 in use (unknown to NVML 4)");
    }
}

/// What an MPS server or a desktop uses itself is not work; what its clients use is.
#[test]
fn an_ignored_process_hides_a_gib_and_no_clients() {
    let sandbox = Sandbox::new("h200x1");
    let uuid = sandbox.uuids()[0].clone();
    symlink("/bin/sleep", sandbox.path("bin/nvidia-cuda-mps-server")).unwrap();
    let server = sandbox
        .command("nvidia-cuda-mps-server")
        .args(["600"])
        .spawn();
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
    sandbox.getgpu(["--no-reserve"]).run().line();
    sandbox.faults(&entry("compute", pid, 9000));
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
    // Drivers before 510 do not have the third version of the list of clients, those before
    // 470 have the first one only.
    for (driver, hidden) in [
        ("550.54.15", &[][..]),
        ("470.256.02", harness::BEFORE_510),
        ("460.106.00", harness::BEFORE_470),
    ] {
        let node = format!("driver = '{driver}'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n");
        let old = Sandbox::builder(&node).hide(hidden).build();
        let clients =
            (entry("compute", pid, 60) + &entry("mps", 77, 60)).replace(&uuid, &old.uuids()[0]);
        old.faults(&clients);
        old.getgpu(["--explain", "--no-reserve"])
            .run()
            .exits(1)
            .mentions("busy: used by pid 77");
    }
}

/// The devices of a node by profile, and the faults by which a process draws on some.
fn drawn_on(sandbox: &Sandbox, profile: &str) -> (Vec<String>, String) {
    let node = sandbox.folder().node().unwrap();
    let devices = node.mig_devices().map(|(_, device)| device);
    let drawn = devices.filter(|device| device.profile.ends_with(profile));
    let uuids: Vec<String> = drawn.map(|device| device.uuid.clone()).collect();
    let entry = |uuid: &String| {
        format!("[[process]]\ndevice = '{uuid}'\npid = 77\nkind = 'graphics'\nmemory_mib = 100\n")
    };
    let faults = uuids.iter().map(entry).collect();
    (uuids, faults)
}

fn others(sandbox: &Sandbox, uuids: &[String]) -> Vec<String> {
    let mut others = sandbox.uuids();
    others.retain(|uuid| !uuids.contains(uuid));
    others
}

/// Less memory than the rule about memory sees: the graphics list alone shows the program.
#[test]
fn graphics_on_a_mig_device_make_it_busy() {
    let sandbox = Sandbox::new("rtx-pro-6000");
    let (drawn, faults) = drawn_on(&sandbox, "+gfx");
    assert_eq!(drawn.len(), 4);
    sandbox.faults(&faults);
    let free = others(&sandbox, &drawn);
    assert_eq!(listing::free_devices(&sandbox), free.len().to_string());
    assert_devices(&until_none_is_free(&sandbox, &[]), &free);
    sandbox.getgpu(["--release-all"]).run().exits(0);
    let linked = sandbox
        .command("cudawrap")
        .args(["--profile", "4g.96gb+gfx", "--", "true"])
        .run();
    linked.refuses("cudawrap", 75, "1 of 1 in use (other programs 1)");
    // A grant of one device, which is asked about by its UUID alone.
    sandbox
        .getgpu(["--no-reserve"])
        .env("CUDA_VISIBLE_DEVICES", &drawn[0])
        .run()
        .refuses("getgpu", 1, "1 of 1 in use (other programs 1)");
}

/// NVML gives the profile in the device's name alone.
#[test]
fn graphics_count_on_a_mig_device_of_an_unknown_profile() {
    let sandbox = Sandbox::new("mig4");
    let (drawn, faults) = drawn_on(&sandbox, "gb");
    let nameless = "[[rule]]\nfunction = 'nvmlDeviceGetName'\nreturns = 999\n";
    sandbox.faults(&format!("{faults}{nameless}"));
    assert_eq!(drawn.len(), 4);
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "4 of 4 in use (other programs 4)");
    // A profile without graphics is not asked for them.
    sandbox.faults(&faults);
    assert_eq!(listing::free_devices(&sandbox), "4");
}

#[test]
fn an_untold_graphics_list_is_unknown_on_gfx_profiles_only() {
    let sandbox = Sandbox::new("rtx-pro-6000");
    let (drawn, _) = drawn_on(&sandbox, "+gfx");
    let free = others(&sandbox, &drawn);
    for (code, count) in [(3, 11), (13, 11), (4, free.len()), (999, free.len())] {
        sandbox.faults(&format!(
            "[[rule]]\nfunction = 'nvmlDeviceGetGraphicsRunningProcesses_v3'\nreturns = {code}\n"
        ));
        assert_eq!(listing::free_devices(&sandbox), count.to_string(), "{code}");
    }
    assert_devices(&until_none_is_free(&sandbox, &[]), &free);
}

/// The suffix is part of a profile's name.
#[test]
fn profiles_with_suffixes_are_chosen_by_their_full_name() {
    let sandbox = Sandbox::new("rtx-pro-6000");
    let profiles = [
        "1g.24gb",
        "1g.24gb+gfx",
        "1g.24gb+me",
        "1g.24gb-me",
        "1g.24gb+me.all",
        "2g.48gb",
        "2g.48gb-me",
        "4g.96gb+gfx",
    ];
    for profile in profiles {
        let node = sandbox.folder().node().unwrap();
        let devices = node.mig_devices().map(|(_, device)| device);
        let same = devices.filter(|device| device.profile == profile);
        let expected: Vec<String> = same.map(|device| device.uuid.clone()).collect();
        let picks = until_none_is_free(&sandbox, &["--profile", profile]);
        assert_devices(&picks, &expected);
        sandbox.getgpu(["--release-all"]).run().exits(0);
    }
}
