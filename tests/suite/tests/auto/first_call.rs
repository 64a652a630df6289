//! Programs that nobody wrapped: the driver loads libcudawrap.so at their first CUDA call,
//! and they get a device as a linked program does and hold it until they exit.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use getgpu_tests::hooked::{VARIABLE, all_said, bytes, cuda, hook, said};
use getgpu_tests::listing;
use getgpu_tests::wrapped::python;
use getgpu_tests::{OTHER, root};
use harness::skip::{self, Need};
use harness::{Sandbox, Signal};

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
    let (before, after, go) = (
        sandbox.text("work/before"),
        sandbox.text("work/after"),
        sandbox.text("work/go"),
    );
    let words = [
        "version",
        &format!("ready={before}"),
        &format!("until={go}"),
        "init",
        "visible",
        "uuid",
        "context",
    ];
    let end = [format!("ready={after}"), "hold".into()];
    let words: Vec<&str> = words
        .into_iter()
        .chain(end.iter().map(String::as_str))
        .collect();
    let program = cuda(&sandbox, &words).spawn();
    sandbox.until_file("work/before");
    assert_eq!(leases(&sandbox), [], "cuDriverGetVersion takes nothing");
    std::fs::write(&go, "").unwrap();
    sandbox.until_file("work/after");
    let held = leases(&sandbox);
    let [(uuid, pid, name)] = held.as_slice() else {
        panic!("{held:?}")
    };
    assert_eq!((*pid, name.as_str()), (i64::from(program.pid()), "cuda"));
    let text = program.stdout();
    assert!(
        text.contains(&format!(
            "visible {uuid}\nuuid {}\ncontext 0\n",
            bytes(uuid)
        )),
        "{text}"
    );
    assert_eq!(program.stderr(), "");
    program.kill();
    sandbox.assert_clean(Duration::from_secs(2));
    sandbox.assert_exclusive();
}

#[test]
fn what_the_variable_names_is_kept_and_leased_if_one_device() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    for (value, seen, locked) in [
        (uuids[2].clone(), uuids[2].clone(), true),
        (uuids[..2].join(","), uuids[..2].join(","), false),
        ("-1".into(), "-1".into(), false),
        (String::new(), "empty".into(), false),
    ] {
        let outcome = cuda(&sandbox, &["init", "visible", "descriptors"])
            .visible(&value)
            .run();
        outcome.exits(0).says(&[]);
        assert_eq!(said(&outcome, "visible"), seen);
        let lock = sandbox.lock().display().to_string();
        assert_eq!(
            said(&outcome, "descriptors").contains(&lock),
            locked,
            "{value}"
        );
    }
    let _taken = sandbox.leased().visible(&uuids[1]).spawn();
    sandbox.until_running(1);
    let outcome = cuda(&sandbox, &["init", "visible"])
        .visible(&uuids[1])
        .run();
    outcome.mentions("running there because CUDA_VISIBLE_DEVICES names it");
    assert_eq!(said(&outcome, "visible"), uuids[1]);
}

#[test]
fn a_program_keeps_what_cudawrap_or_getgpu_has_given_it() {
    let sandbox = Sandbox::new("mig4");
    let lock = sandbox.lock().display().to_string();
    let count = |text: &str| text.matches(&lock).count();
    let outcome = sandbox
        .words("cudawrap -- cuda descriptors init descriptors visible uuid")
        .env(VARIABLE, hook(&sandbox))
        .run();
    let shown = all_said(&outcome, "descriptors");
    assert_eq!([count(shown[0]), count(shown[1])], [2, 2], "{outcome:#?}");
    assert_eq!(bytes(said(&outcome, "visible")), said(&outcome, "uuid"));
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) cuda init visible uuid";
    let outcome = sandbox
        .shell("bash", script)
        .env(VARIABLE, hook(&sandbox))
        .run();
    outcome.says(&[]);
    assert_eq!(bytes(said(&outcome, "visible")), said(&outcome, "uuid"));
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
    for options in [&["--auto"][..], &["--share", "1/2"], &[]] {
        let sandbox = Sandbox::new("mig4");
        let ready = sandbox.text("work/ready");
        let parent = sandbox
            .command("cudawrap")
            .args(options)
            .args(["--", &python, "-c", PARENT, &ready])
            .env(VARIABLE, hook(&sandbox))
            .spawn();
        sandbox.until_file("work/ready");
        let before = leases(&sandbox);
        parent.kill();
        let after = leases(&sandbox);
        assert_eq!(after.len(), 1, "{options:?}: {before:?} {after:?}");
        let (uuid, pid, _) = &after[0];
        assert!(before.iter().all(|(held, _, _)| held == uuid), "{before:?}");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(*pid).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
        sandbox.assert_clean(Duration::from_secs(2));
    }
}

#[test]
fn shares_and_what_is_seen_follow_the_settings_of_the_program() {
    let sandbox = Sandbox::with("mig4", "[program.cuda]\nshare = '1/2'\n");
    let uuids = sandbox.uuids();
    let memory = "XLA_PYTHON_CLIENT_MEM_FRACTION";
    let show = format!("env={memory}");
    let outcome = cuda(&sandbox, &["init", &show, "visible"]).run();
    assert_eq!(said(&outcome, "env"), format!("{memory}=0.45"));
    // With several threads CUDA_VISIBLE_DEVICES alone is set.
    let outcome = cuda(&sandbox, &["threads=2", &show, "visible"]).run();
    assert_eq!(said(&outcome, "env"), format!("{memory}=unset"));
    assert!(uuids.iter().any(|uuid| uuid == said(&outcome, "visible")));
    let outcome = cuda(&sandbox, &["init", "visible"])
        .env("CUDAWRAP_VISIBLE", "first")
        .env("CUDAWRAP_SHARE", "1/1")
        .run();
    let seen: Vec<&str> = said(&outcome, "visible").split(',').collect();
    assert_eq!(seen.len(), uuids.len(), "{outcome:#?}");
    let seen: BTreeSet<&str> = seen.into_iter().collect();
    assert_eq!(seen, uuids.iter().map(String::as_str).collect());
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
    let words = ["init", "visible", "descriptors"];
    alone(cuda(&sandbox, &words).env("CUDAWRAP_DISABLE", "1"));
    for name in [
        "nvidia-cuda-mps-server",
        "ompi_info",
        "ucx_info",
        "lstopo",
        "lstopo-no-graphics",
    ] {
        let path = sandbox.path("bin").join(name);
        std::fs::hard_link(sandbox.path("bin/cuda"), &path).unwrap();
        alone(
            sandbox
                .command(name)
                .args(words)
                .env(VARIABLE, hook(&sandbox)),
        );
    }
    sandbox.set_settings("auto_except = ['c?d*']");
    alone(cuda(&sandbox, &words));
    sandbox.set_settings("auto = 'off'");
    // A slip in a user's own file does not undo it.
    sandbox.file("home/.config/getgpu/config.toml", "nonsense", 0o644);
    alone(cuda(&sandbox, &words));
    sandbox.set_settings("");
    let outcome = cuda(&sandbox, &words).run();
    outcome.mentions("CUDA finds no device in this program");
    sandbox.file("home/.config/getgpu/config.toml", "auto = 'off'", 0o644);
    cuda(&sandbox, &words)
        .run()
        .mentions("`auto` can be set by the administrator only");
}

#[test]
fn a_setuid_program_is_left_alone() {
    let Some(sandbox) = root("mig4") else { return };
    let copy = sandbox.path("work/cuda");
    sandbox
        .shell(
            "sh",
            &format!(
                "cp {} {1} && chown {OTHER} {1} && chmod 4755 {1}",
                sandbox.text("bin/cuda"),
                copy.display()
            ),
        )
        .run()
        .exits(0);
    let library = format!("library={}", sandbox.text("lib/libcuda.so.1"));
    let words = [&library, "visible", "hook", "visible"];
    let outcome = sandbox
        .command(&copy)
        .args(words)
        .env(VARIABLE, hook(&sandbox))
        .uid(OTHER + 1)
        .run();
    outcome.exits(0).says(&[]);
    assert_eq!(all_said(&outcome, "visible"), ["unset", "unset"]);
    // Nothing is even started.
    std::fs::remove_file(sandbox.path("bin/cudawrap")).unwrap();
    let script = format!("#!/bin/sh\ntouch {}\n", sandbox.text("work/started"));
    sandbox.file("bin/cudawrap", &script, 0o755);
    let run = |program: &Path| {
        let command = sandbox.command(program).args(words);
        command.env(VARIABLE, hook(&sandbox)).uid(OTHER + 1).run();
        sandbox.path("work/started").exists()
    };
    assert!(!run(&copy));
    assert!(run(&sandbox.path("bin/cuda")), "without setuid it is");
}

#[test]
fn a_wrapped_program_that_may_not_be_read_keeps_its_device() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::with("mig4", "when_taken = 'fail'");
    // The lock of the node, which only root makes.
    sandbox.ask("--no-reserve").exits(0);
    let program = sandbox.path("work/closed");
    fs::copy(sandbox.path("bin/cuda"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).unwrap();
    for words in [&["--"][..], &["--share", "1/2", "--"]] {
        let outcome = sandbox
            .command("cudawrap")
            .args(words)
            .args([&program])
            .args(["init", "visible", "uuid"])
            .env(VARIABLE, hook(&sandbox))
            .uid(OTHER)
            .run();
        outcome.exits(0).says(&[]);
        assert_eq!(bytes(said(&outcome, "visible")), said(&outcome, "uuid"));
    }
}
