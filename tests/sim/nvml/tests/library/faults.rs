//! Each fault of `faults.toml` does what it says, and no more.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sim_node::{Folder, MIB, Record};

use crate::common::*;

#[test]
fn a_rule_fails_one_function_of_one_gpu_for_some_calls() {
    let faults = "[[rule]]\nfunction = 'nvmlDeviceGetHandleByIndex_v2'\ngpu = 1\nfrom = 2\nfirst = 2\nreturns = 15\n";
    on_node(
        "a_rule_fails_one_function_of_one_gpu_for_some_calls",
        "a100x8",
        faults,
        |_| {
            nvmlInit_v2();
            assert_eq!(
                [1, 1, 1, 1].map(|index| gpu(index).err()),
                [None, Some(15), Some(15), None]
            );
            assert!(gpu(0).is_ok());
        },
    );
}

#[test]
fn a_gpu_is_lost_half_way() {
    let faults = "[[rule]]\nfunction = '*'\ngpu = 0\nfrom = 3\nreturns = 15\n";
    on_node("a_gpu_is_lost_half_way", "a100x8", faults, |_| {
        nvmlInit_v2();
        let first = gpu(0).unwrap();
        let device = mig(first, 0).unwrap();
        assert_eq!([uuid(device), uuid(first)], [Err(15), Err(15)]);
        assert!(uuid(gpu(1).unwrap()).is_ok());
    });
}

#[test]
fn a_rule_may_count_the_whole_node() {
    let faults = "[[rule]]\nfunction = 'nvmlInit_v2'\nfirst = 1\nnode_wide = true\nreturns = 999\n";
    let test = "a_rule_may_count_the_whole_node";
    if Folder::from_env().is_some() {
        std::process::exit(if nvmlInit_v2() == 0 { 0 } else { 3 });
    }
    let (_dir, folder) = folder("a100x1", faults);
    let run = || {
        again(test, &folder)
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .code()
    };
    assert_eq!([run(), run(), run()], [Some(3), Some(0), Some(0)]);
    folder.set_faults(faults).unwrap();
    assert_eq!(
        [run(), run()],
        [Some(3), Some(0)],
        "new faults count from the beginning"
    );
}

#[test]
fn init_fails_without_a_node() {
    on_node(
        "init_fails_without_a_node",
        "a100x1",
        "[[rule]]\nfunction='nvmlInit_v2'\nreturns=9\n",
        |folder| {
            assert_eq!(nvmlInit_v2(), 9);
            assert_eq!(gpu(0), Err(1));
            folder.set_faults("").unwrap();
            assert_eq!(nvmlInit_v2(), 0);
            nvmlShutdown();
            std::fs::remove_file(folder.path("node.toml")).unwrap();
            assert_eq!(nvmlInit_v2(), 999);
        },
    );
}

#[test]
fn latency_is_per_init_and_per_gpu() {
    let faults = "[latency]\ninit_ms = 40\nattach_ms = 60\n";
    on_node("latency_is_per_init_and_per_gpu", "a100x8", faults, |_| {
        let timed = |call: &dyn Fn()| {
            let start = Instant::now();
            call();
            start.elapsed()
        };
        let slow = |time: Duration, ms: u64| time >= Duration::from_millis(ms);
        assert!(slow(timed(&|| assert_eq!(nvmlInit_v2(), 0)), 40));
        assert!(slow(timed(&|| assert!(gpu(0).is_ok())), 60));
        assert!(
            slow(timed(&|| assert!(by_uuid("MIG-none").is_err())), 7 * 60),
            "a search opens all GPUs"
        );
    });
}

#[test]
fn hidden_devices_close_up() {
    on_node("hidden_devices_close_up", "a100x1", "", |folder| {
        let node = folder.node().unwrap();
        let device = |n: usize| node.gpus[0].devices[n].uuid.clone();
        folder
            .set_faults(&format!(
                "[[hide]]\ndevices = ['{}', '{}']\n",
                device(0),
                device(3)
            ))
            .unwrap();
        nvmlInit_v2();
        let seen = |n| mig(gpu(0).unwrap(), n).and_then(uuid);
        assert_eq!(
            [seen(0), seen(1), seen(2)],
            [1, 2, 4].map(|n| Ok(device(n)))
        );
        assert_eq!(
            [seen(5), by_uuid(&device(0)).map(|_| String::new())],
            [Err(6), Err(6)]
        );
    });
}

#[test]
fn without_the_monitor_capability_gpus_in_mig_mode_tell_nothing() {
    let test = "without_the_monitor_capability_gpus_in_mig_mode_tell_nothing";
    on_node(test, "mixed", "no_monitor = true\n", |_| {
        nvmlInit_v2();
        let parent = gpu(0).unwrap();
        assert_eq!((processes(parent, 0).0, memory(parent)), (4, Err(4)));
        let device = mig(parent, 0).unwrap();
        assert!(processes(device, 0).0 == 0 && memory(device).is_ok());
        assert!(processes(gpu(2).unwrap(), 0).0 == 0 && memory(gpu(2).unwrap()).is_ok());
    });
}

#[test]
fn the_monitor_capability_may_be_for_root_alone() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let test = "the_monitor_capability_may_be_for_root_alone";
    on_node(test, "mixed", "monitor_is_for_root = true\n", |folder| {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.root().parent().unwrap(), open).unwrap();
        for (uid, code) in [(0, 0), (1001, 4)] {
            nix::unistd::seteuid(uid.into()).unwrap();
            nvmlInit_v2();
            let parent = gpu(0).unwrap();
            assert_eq!(
                (processes(parent, 9).0, memory(parent).err().unwrap_or(0)),
                (code, code)
            );
            assert_eq!(processes(mig(parent, 0).unwrap(), 0).0, 0);
            nvmlShutdown();
        }
    });
}

#[test]
fn only_some_functions_know_mps_domains() {
    let test = "only_some_functions_know_mps_domains";
    on_node(test, "mixed", "", |folder| {
        // SAFETY: this process has one thread that reads the environment.
        unsafe { std::env::set_var("NVML_MPS_DEVICE_ENUMERATION", "1") };
        nvmlInit_v2();
        let domain = gpu(0).unwrap();
        assert!(memory(domain).is_ok());
        assert_ne!(uuid(domain).unwrap(), folder.node().unwrap().gpus[0].uuid);
        assert_eq!((processes(domain, 9).0, mig(domain, 0)), (3, Err(3)));
    });
}

#[test]
fn lists_may_grow_between_calls() {
    on_node(
        "lists_may_grow_between_calls",
        "a100x1",
        "processes_grow = 3\n",
        |_| {
            nvmlInit_v2();
            let device = mig(gpu(0).unwrap(), 0).unwrap();
            let answers = [0, 3, 20].map(|room| processes(device, room));
            assert_eq!(
                answers.map(|(code, count, _)| (code, count)),
                [(7, 3), (7, 6), (0, 9)]
            );
        },
    );
}

#[test]
fn texts_may_be_garbage() {
    on_node(
        "texts_may_be_garbage",
        "a100x1",
        "[[rule]]\nfunction='nvmlDeviceGetUUID'\ndoes='garbage'\n",
        |_| {
            nvmlInit_v2();
            assert!(uuid(gpu(0).unwrap()).unwrap().contains('\u{fffd}'));
        },
    );
}

#[test]
fn lies_fill_the_room_that_they_are_given_and_no_more() {
    let faults = "[[rule]]\nfunction='nvmlDeviceGetName'\ndoes='unterminated'\nfirst=1\n\
        [[rule]]\nfunction='nvmlDeviceGetName'\ndoes='noise'\n\
        [[rule]]\nfunction='nvmlDeviceGetComputeRunningProcesses_v2'\ndoes='noise'\n";
    let test = "lies_fill_the_room_that_they_are_given_and_no_more";
    on_node(test, "a100x1", faults, |_| {
        nvmlInit_v2();
        let gpu = gpu(0).unwrap();
        let name = || {
            let mut room = [7u8; 120];
            // SAFETY: there is room for as many bytes as are said.
            let code = unsafe { nvmlDeviceGetName(gpu, room.as_mut_ptr().cast(), 100) };
            assert_eq!((code, &room[100..]), (0, &[7; 20][..]));
            room[..100].to_vec()
        };
        let full = name();
        assert!(full.starts_with(b"NVIDIA A100") && !full.contains(&0));
        let noise: Vec<Vec<u8>> = (0..20).map(|_| name()).collect();
        assert!(
            noise
                .iter()
                .any(|text| *text != noise[0] && !text.contains(&0))
        );
        let lists: Vec<_> = (0..40).map(|_| processes(gpu, 9)).collect();
        let codes = [0, 7].map(|code| lists.iter().any(|list| list.0 == code));
        let more = lists.iter().any(|list| list.0 == 0 && list.1 > 9);
        assert!(codes == [true; 2] && more, "{lists:?}");
    });
}

#[test]
fn a_banner_goes_to_stdout() {
    let test = "a_banner_goes_to_stdout";
    if Folder::from_env().is_some() {
        nvmlInit_v2();
        return;
    }
    let (_dir, folder) = folder("a100x1", "banner = 'THIS IS A STUB'\n");
    let output = again(test, &folder).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("THIS IS A STUB\n"));
}

#[test]
fn calls_may_hang_stop_or_abort() {
    let test = "calls_may_hang_stop_or_abort";
    if Folder::from_env().is_some() {
        nvmlInit_v2();
        nvmlShutdown();
        return;
    }
    let cases = [
        ("nvmlInit_v2", "hang"),
        ("nvmlShutdown", "hang"),
        ("nvmlShutdown", "stop"),
        ("nvmlInit_v2", "abort"),
    ];
    for (function, does) in cases {
        let (_dir, folder) = folder(
            "a100x1",
            &format!("[[rule]]\nfunction = '{function}'\ndoes = '{does}'\n"),
        );
        let mut child = again(test, &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("it has called", || has_called(&folder, function));
        match does {
            "abort" => assert_eq!(child.wait().unwrap().signal(), Some(6)),
            "stop" => until("it is stopped", || state(&child) == Some('T')),
            _ => {
                until("it sleeps", || state(&child) == Some('S'));
                assert_eq!(child.try_wait().unwrap(), None);
            }
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
}

/// A child in a pid namespace of its own, on a device that this process, outside it, has
/// a context on.
fn from_another_pid_namespace(test: &str, faults: &str) -> Option<bool> {
    let (_dir, folder) = folder("a100x1", faults);
    let uuid = folder.node().unwrap().device_uuids()[0].clone();
    let record = Record {
        uuid,
        pid: std::process::id(),
        memory: 100 * MIB,
        max: 1,
        ..Record::default()
    };
    let _context = folder.register(&record).unwrap().unwrap();
    let inside = again(test, &folder);
    let mut unshare = Command::new("unshare");
    unshare
        .args(["-U", "-r", "-p", "-f", "--"])
        .arg(inside.get_program())
        .args(inside.get_args());
    unshare
        .env("SIM_NODE", folder.root())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let possible = Command::new("unshare")
        .args(["-U", "-r", "-p", "-f", "true"])
        .status()
        .is_ok_and(|s| s.success());
    possible.then(|| unshare.status().unwrap().success())
}

#[test]
fn other_pid_namespaces_may_be_blind_but_see_the_memory() {
    let test = "other_pid_namespaces_may_be_blind_but_see_the_memory";
    if let Some(folder) = Folder::from_env() {
        nvmlInit_v2();
        let device = mig(gpu(0).unwrap(), 0).unwrap();
        assert_eq!(memory(device).unwrap().used, 112 * MIB);
        let faults = folder.faults().unwrap();
        let listed: Vec<bool> = processes(device, 4).2.iter().map(|p| p.pid == 0).collect();
        let expected = match (faults.foreign_pidns_blind, faults.foreign_pidns_nameless) {
            (true, _) => vec![],
            (false, nameless) => vec![nameless],
        };
        assert_eq!(listed, expected);
        return;
    }
    for faults in [
        "",
        "foreign_pidns_blind = true\n",
        "foreign_pidns_nameless = true\n",
    ] {
        match from_another_pid_namespace(test, faults) {
            Some(passed) => assert!(passed, "{faults}"),
            None => {
                // Past the capture of the test runner, so that a run shows it.
                let line = format!("SKIPPED: {test}: no pid namespaces for this user here\n");
                std::io::stderr().write_all(line.as_bytes()).unwrap();
            }
        }
    }
}
