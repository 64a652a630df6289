//! Programs that nobody wrapped: the driver loads libcudawrap.so at their first CUDA call,
//! and they get a device as a linked program does and hold it until they exit.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use getgpu_tests::hooked::{VARIABLE, all_said, bytes, cuda, hook, said};
use getgpu_tests::listing;
use getgpu_tests::wrapped::{put, python};
use getgpu_tests::{OTHER, assert_devices, root};
use harness::skip;
use harness::{Sandbox, Signal, copy_program};

/// The leases as `--list` shows them: device, pid and program.
fn leases(sandbox: &Sandbox) -> Vec<(String, i64, String)> {
    let list = listing::json(sandbox);
    let devices = listing::devices(&list).iter();
    let of = |device: &serde_json::Value| {
        let holders = device["holders"].as_array().unwrap().clone();
        let uuid = device["uuid"].as_str().unwrap().to_owned();
        holders.into_iter().map(move |holder| {
            let program = holder["program"].as_str().unwrap_or_default().to_owned();
            (uuid.clone(), holder["pid"].as_i64().unwrap_or(0), program)
        })
    };
    devices.flat_map(of).collect()
}

#[test]
fn the_first_cuda_call_takes_a_device_until_the_program_exits() {
    let sandbox = Sandbox::new("mig4");
    let words = "version ready=before until=go init visible uuid context ready=after hold";
    let program = cuda(&sandbox, words).spawn();
    sandbox.until_file("work/before");
    assert_eq!(leases(&sandbox), [], "cuDriverGetVersion takes nothing");
    sandbox.file("work/go", "", 0o644);
    sandbox.until_file("work/after");
    let held = leases(&sandbox);
    let [(uuid, pid, name)] = held.as_slice() else {
        panic!("{held:?}")
    };
    assert_eq!((*pid, name.as_str()), (i64::from(program.pid()), "cuda"));
    let (bytes, text) = (bytes(uuid), program.stdout());
    let lines = format!("visible {uuid}\nuuid {bytes}\ncontext 0\n");
    assert!(text.contains(&lines), "{text}");
    assert_eq!(program.stderr(), "");
    program.kill();
    sandbox.assert_clean();
    sandbox.assert_exclusive();
}

#[test]
fn what_the_variable_names_is_kept_and_leased_if_one_device() {
    let sandbox = Sandbox::new("mig4");
    let (uuids, lock) = (sandbox.uuids(), sandbox.text("run/lock"));
    let (one, two) = (&uuids[2], uuids[..2].join(","));
    #[rustfmt::skip]
    let cases = [
        (&**one, &**one, true), (&two, &two, false), ("-1", "-1", false), ("", "empty", false),
    ];
    for (value, seen, locked) in cases {
        let command = cuda(&sandbox, "init visible descriptors");
        let outcome = command.visible(value).run();
        outcome.exits(0).says(&[]);
        assert_eq!(said(&outcome, "visible"), seen);
        let holds = said(&outcome, "descriptors").contains(&lock);
        assert_eq!(holds, locked, "{value}");
    }
    let _taken = sandbox.leased().visible(&uuids[1]).spawn();
    sandbox.until_running(1);
    let command = cuda(&sandbox, "init visible");
    let outcome = command.visible(&uuids[1]).run();
    outcome.mentions("running there because CUDA_VISIBLE_DEVICES names it");
    assert_eq!(said(&outcome, "visible"), uuids[1]);
}

#[test]
fn a_program_keeps_what_cudawrap_or_getgpu_has_given_it() {
    let sandbox = Sandbox::new("mig4");
    let (lock, hook) = (sandbox.text("run/lock"), hook(&sandbox));
    let line = "cudawrap -- cuda descriptors init descriptors visible uuid";
    let outcome = sandbox.words(line).env(VARIABLE, &hook).run();
    let shown = all_said(&outcome, "descriptors").into_iter();
    let counts = shown.map(|text| text.matches(&lock).count());
    assert!(counts.eq([2, 2]), "{outcome:#?}");
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) cuda init visible uuid";
    let reserved = sandbox.shell("bash", script).env(VARIABLE, &hook).run();
    for outcome in [outcome, reserved] {
        outcome.says(&[]);
        assert_eq!(bytes(said(&outcome, "visible")), said(&outcome, "uuid"));
    }
}

/// Python starts children with all descriptors closed, closefrom(3) does the same, and such
/// a child would lose its device with the parent.
#[test]
fn a_child_without_the_descriptors_joins_its_ancestors_lease() {
    let Some(python) = python() else {
        return skip::say("python3 is not installed");
    };
    const PARENT: &str = "import ctypes, subprocess, sys
ctypes.CDLL('libcuda.so.1').cuInit(0)
subprocess.run(['setsid', 'cuda', 'init', f'ready={sys.argv[1]}', 'hold'], close_fds=True)";
    for options in ["--auto --", "--share 1/2 --", "--"] {
        let sandbox = Sandbox::new("mig4");
        let parent = sandbox.words(&format!("cudawrap {options} {python} -c"));
        let parent = parent.args([PARENT, &sandbox.text("work/ready")]);
        let parent = parent.env(VARIABLE, hook(&sandbox)).spawn();
        sandbox.until_file("work/ready");
        let before = leases(&sandbox);
        parent.kill();
        let after = leases(&sandbox);
        assert_eq!(after.len(), 1, "{options:?}: {before:?} {after:?}");
        let (uuid, pid, _) = &after[0];
        assert!(before.iter().all(|(held, _, _)| held == uuid), "{before:?}");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(*pid).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
        sandbox.assert_clean();
    }
}

#[test]
fn shares_and_what_is_seen_follow_the_settings_of_the_program() {
    let sandbox = Sandbox::with("mig4", "[program.cuda]\nshare = '1/2'\n");
    let uuids = sandbox.uuids();
    let memory = "XLA_PYTHON_CLIENT_MEM_FRACTION";
    let show = format!("env={memory}");
    let outcome = cuda(&sandbox, &format!("init {show} visible")).run();
    assert_eq!(said(&outcome, "env"), format!("{memory}=0.45"));
    // With several threads CUDA_VISIBLE_DEVICES alone is set.
    let outcome = cuda(&sandbox, &format!("threads=2 {show} visible")).run();
    assert_eq!(said(&outcome, "env"), format!("{memory}=unset"));
    assert!(uuids.iter().any(|uuid| uuid == said(&outcome, "visible")));
    let command = cuda(&sandbox, "init visible").env("CUDAWRAP_VISIBLE", "first");
    let outcome = command.env("CUDAWRAP_SHARE", "1/1").run();
    let seen = said(&outcome, "visible").split(',').map(str::to_owned);
    assert_devices(&seen.collect::<Vec<_>>(), &uuids);
}

#[test]
fn programs_that_are_to_be_left_alone_are() {
    let sandbox = Sandbox::new("mig4");
    let alone = |command: harness::Command| {
        let outcome = command.run();
        outcome.exits(0).says(&[]);
        assert_eq!(said(&outcome, "visible"), "unset", "{outcome:#?}");
        assert!(!said(&outcome, "descriptors").contains("run/lock"));
    };
    let words = "init visible descriptors";
    alone(cuda(&sandbox, words).env("CUDAWRAP_DISABLE", "1"));
    let names = "nvidia-cuda-mps-server ompi_info ucx_info lstopo lstopo-no-graphics";
    for name in names.split(' ') {
        put(&sandbox, &sandbox.path("bin").join(name), "cuda");
        let command = sandbox.words(&format!("{name} {words}"));
        alone(command.env(VARIABLE, hook(&sandbox)));
    }
    sandbox.set_settings("auto_except = ['c?d*']");
    alone(cuda(&sandbox, words));
    let line = "--auto: cuda is left alone on this node (auto_except)";
    let typed = sandbox.words(&format!("cudawrap --auto -- cuda {words}"));
    typed.run().mentions(line);
    // A script runs as its interpreter, by a name of its own.
    sandbox.set_settings("auto_except = ['mylauncher']");
    let launcher = sandbox.path("bin/mylauncher");
    std::os::unix::fs::symlink("cuda", launcher).unwrap();
    let command = sandbox.words(&format!("mylauncher {words}"));
    alone(command.env(VARIABLE, hook(&sandbox)));
    sandbox.set_settings("auto = 'off'");
    // A slip in a user's own file does not undo it.
    sandbox.file("home/.config/getgpu/config.toml", "nonsense", 0o644);
    alone(cuda(&sandbox, words));
    sandbox.set_settings("");
    let outcome = cuda(&sandbox, words).run();
    outcome.mentions("CUDA finds no device in this program");
    sandbox.file("home/.config/getgpu/config.toml", "auto = 'off'", 0o644);
    let outcome = cuda(&sandbox, words).run();
    outcome.mentions("`auto` can be set by the administrator only");
}

#[test]
fn a_setuid_program_is_left_alone() {
    let Some(sandbox) = root("mig4") else { return };
    let script = format!("cp ../bin/cuda . && chown {OTHER} cuda && chmod 4755 cuda");
    sandbox.shell("sh", &script).run().exits(0);
    let run = |program: &str| {
        let words = "library=@/lib/libcuda.so.1 visible hook visible";
        let command = sandbox.words(&format!("{program} {words}"));
        command.env(VARIABLE, hook(&sandbox)).uid(OTHER + 1).run()
    };
    let outcome = run("@/work/cuda");
    outcome.exits(0).says(&[]);
    assert_eq!(all_said(&outcome, "visible"), ["unset", "unset"]);
    // Nothing is even started.
    std::fs::remove_file(sandbox.path("bin/cudawrap")).unwrap();
    let started = sandbox.path("work/started");
    let script = format!("#!/bin/sh\ntouch {}\n", started.display());
    sandbox.file("bin/cudawrap", &script, 0o755);
    run("@/work/cuda");
    assert!(!started.exists());
    run("@/bin/cuda");
    assert!(started.exists(), "without setuid it is");
}

#[test]
fn a_wrapped_program_that_may_not_be_read_keeps_its_device() {
    let Some(sandbox) = root("mig4") else { return };
    sandbox.set_settings("when_taken = 'fail'");
    // The lock of the node, which only root makes.
    sandbox.ask("--no-reserve").exits(0);
    let program = sandbox.path("work/closed");
    copy_program(sandbox.path("bin/cuda"), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).unwrap();
    for options in ["--", "--share 1/2 --"] {
        let line = format!("cudawrap {options} @/work/closed init visible uuid");
        let command = sandbox.words(&line).env(VARIABLE, hook(&sandbox));
        let outcome = command.uid(OTHER).run();
        outcome.exits(0).says(&[]);
        assert_eq!(bytes(said(&outcome, "visible")), said(&outcome, "uuid"));
    }
}
