//! The variables that an MPS client gets, and whose daemon it uses: one for each user,
//! device and job.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use getgpu_tests::listing;
use getgpu_tests::mps::{CONTROL, Node, starts_in_log, words};
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Command, wait};

const PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";

#[test]
fn a_burst_has_one_daemon_and_each_its_part() {
    Node::each(|node| {
        let (clients, facts) = node.clients(32, |_, command| command);
        let (place, daemons) = (node.place(), node.daemons());
        let counts = [daemons.len(), node.keepers().len(), starts_in_log(&place)];
        assert_eq!(counts, [1; 3]);
        for path in ["..", ".", "pipe", "log"].map(|name| place.join(name)) {
            let meta = fs::symlink_metadata(&path).unwrap();
            assert_eq!(meta.mode() & 0o7777, 0o700, "{path:?}");
            assert_eq!(meta.uid(), nix::unistd::geteuid().as_raw(), "{path:?}");
        }
        assert!(place.join("pipe").as_os_str().len() < 90);
        let environment = words(daemons[0], "environ");
        let visible = format!("CUDA_VISIBLE_DEVICES={}", node.uuid);
        assert!(environment.contains(&visible), "{environment:?}");
        let of_the_caller =
            |entry: &String| entry.starts_with("SIM_NODE") || entry.starts_with("HOME");
        assert!(!environment.iter().any(of_the_caller), "{environment:?}");
        let listing = listing::json(&node.sandbox);
        let total = listing["devices"][0]["memory_total"].as_u64().unwrap();
        for facts in facts {
            assert_eq!(facts.visible(), Some(node.uuid.as_str()));
            let path = |name: &str| place.join(name).display().to_string();
            let memory = format!("0={}M", (total / 32) >> 20);
            for (name, value) in [
                ("PIPE_DIRECTORY", &*path("pipe")),
                ("LOG_DIRECTORY", &path("log")),
                ("ACTIVE_THREAD_PERCENTAGE", "3.12"),
                ("PINNED_DEVICE_MEM_LIMIT", &memory),
            ] {
                assert_eq!(facts.env(&format!("CUDA_MPS_{name}")), value);
            }
            let [(_, flags)] = &facts.descriptors_of(&place.join("lock"))[..] else {
                panic!("{facts:#?}")
            };
            let flags = i32::from_str_radix(flags.split(' ').next().unwrap(), 8).unwrap();
            assert_eq!(flags & 0o3, 0, "read-only");
            assert_eq!(facts.get("children"), Some(""));
            assert_eq!(facts.descriptors_of(&node.sandbox.lock()).len(), 2);
        }
        node.go();
        for client in clients {
            client.running.wait().exits(0);
        }
        node.until_gone();
    });
}

#[test]
fn users_have_daemons_of_their_own() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    Node::each(|node| {
        let _clients = node.clients(6, |n, command| command.uid(1001 + n % 2));
        for uid in [1001, 1002] {
            let [daemon] = node.daemons_of(uid)[..] else {
                panic!("daemons of {uid}")
            };
            assert_eq!(fs::metadata(format!("/proc/{daemon}")).unwrap().uid(), uid);
        }
        node.go();
        wait::until("all is gone", || {
            node.keepers().is_empty()
                && [1001, 1002].iter().all(|uid| !node.place_of(*uid).exists())
        });
    });
}

/// In compute mode Exclusive_Process one daemon is the one program of the device.
#[test]
fn an_exclusive_device_is_shared_by_one_users_clients_only() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let node = Node::stand_in();
    let mode = "[[health]]\ngpu = 0\ncompute_mode = 3\n";
    node.sandbox.faults(mode);
    let _clients = node.clients(2, |_, command| command);
    let stranger = node.share("1/32", &["true"]).uid(1001).run();
    stranger.refuses(75, "1 of 1 in use (unhealthy 1)");
    node.sandbox.set_settings("mps = true");
    let count = |uid| {
        let count = node.sandbox.words("getgpu --count-free --share 1/32");
        count.uid(uid).run().line()
    };
    assert_eq!([0, 1001].map(count), ["30", "0"]);
    node.sandbox.set_settings("");
    node.go();
    node.until_gone();
    node.share("1/32", &["true"]).uid(1001).run().exits(0);
}

#[test]
fn jobs_have_daemons_of_their_own() {
    let node = Node::stand_in();
    // A cgroup ends with its job, and with it a daemon that another job of the same user
    // would still need.
    let (_clients, facts) = node.clients(3, |number, command| match number {
        0 => command,
        _ => command.env("SLURM_JOB_ID", format!("{}", 4710 + number)),
    });
    let pipes: Vec<&str> = facts.iter().map(|facts| facts.env(PIPE)).collect();
    let place = node.place();
    let (parent, name) = (place.parent().unwrap().display(), &node.uuid);
    let expected = ["", "4711.", "4712."].map(|job| format!("{parent}/{job}{name}/pipe"));
    assert_eq!(pipes, expected);
    assert_eq!(node.daemons_of_all().len(), 3);
    node.go();
    wait::until("all daemons are gone", || {
        node.daemons_of_all().is_empty() && node.keepers().is_empty()
    });
    assert!(pipes.iter().all(|pipe| !Path::new(pipe).exists()));
}

#[test]
fn a_daemon_that_listens_a_little_later_is_waited_for() {
    let node = Node::bare();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -d ]; then (sleep 0.4; exec {0} -d) >/dev/null 2>&1 & exit 0; fi\nexec {0} \"$@\"\n",
        node.sandbox.text("bin/mps-control")
    );
    node.sandbox.file(&format!("bin/{CONTROL}"), &script, 0o755);
    let outcome = node.share("1/2", &["echo", "run"]).run();
    outcome.exits(0).prints("run\n");
    node.until_gone();
}

#[test]
fn a_device_that_the_caller_names_has_a_daemon_too() {
    let node = Node::stand_in();
    let sandbox = &node.sandbox;
    let app = wrap(sandbox, "opt", "app", "probe");
    let seen = |command: Command, visible: &str| {
        let facts = Facts::of(command.visible(visible));
        ["CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]
            .map(|name| facts.env(name).to_owned())
    };
    let linked = || {
        let command = sandbox.command(&app).env("CUDAWRAP_SHARE", "1/4");
        command.env("CUDAWRAP_MPS", "1")
    };
    let quarter = [node.uuid.clone(), "25".to_owned()];
    // An index counts among the devices that the daemon sees, so it is not left there.
    for visible in ["0", &node.uuid, &node.uuid[..10]] {
        assert_eq!(seen(linked(), visible), quarter, "{visible}");
        let wrapped = node.share("1/4", &["probe"]);
        assert_eq!(seen(wrapped, visible), quarter, "{visible}");
    }
    // A part that was reserved is a share.
    let reserved = sandbox.line("--share=1/4");
    let wrapped = sandbox.words("cudawrap --mps -- probe");
    assert_eq!(seen(wrapped, &reserved), quarter);
    sandbox.ask("--release-all").exits(0);
    let several = sandbox.words("cudawrap --mps --share=1/2 -n2 -- true");
    sandbox.set_node("gpus4");
    let line = "MPS: 2 devices: a program can be a client on one device only";
    several.run().refuses(125, line);
    sandbox.set_node("h200x1");
    node.until_gone();
}

/// Also where NVML is not asked before the device is leased.
#[test]
fn a_client_is_told_its_part_of_memory_whatever_made_the_part() {
    let mut node = Node::stand_in();
    let app = wrap(&node.sandbox, "opt", "app", "probe");
    for kind in ["h200x1", "h200x1-mig"] {
        node.sandbox.set_node(kind);
        node.uuid = node.sandbox.uuids().remove(0);
        let sandbox = &node.sandbox;
        let listing = listing::json(sandbox);
        let total = listing["devices"][0]["memory_total"].as_u64().unwrap();
        let quarter = format!("0={}M", (total / 4) >> 20);
        let check = |command: Command, what: &str| {
            let facts = Facts::of(command.visible(&node.uuid));
            let told = ["ACTIVE_THREAD_PERCENTAGE", "PINNED_DEVICE_MEM_LIMIT"]
                .map(|name| facts.env(&format!("CUDA_MPS_{name}")));
            assert_eq!(told, ["25", &*quarter], "{kind}, {what}");
        };
        let wrapped = || sandbox.words("cudawrap --mps -- probe");
        let rank = |command: Command| {
            let command = command.env("OMPI_COMM_WORLD_LOCAL_RANK", "1");
            command.env("OMPI_COMM_WORLD_LOCAL_SIZE", "4")
        };
        let linked = || sandbox.command(&app).env("CUDAWRAP_MPS", "1");
        check(rank(wrapped()), "a rank");
        check(rank(linked()), "a rank under a link");
        if kind == "h200x1" {
            // A batch job's GPU that no variable names.
            let told = rank(wrapped().env("SLURM_JOB_GPUS", "0")).env("SLURM_JOB_ID", "7");
            let limit = Facts::of(told)
                .env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
                .to_owned();
            assert_eq!(limit, quarter);
        }
        sandbox.ask("--share=1/4 --hold").exits(0);
        check(wrapped(), "a reserved part");
        check(linked(), "a reserved part under a link");
        sandbox.ask("--release-all").exits(0);
        let inside = ["--share=1/4", "--", "cudawrap", "--mps", "--", "probe"];
        check(sandbox.command("cudawrap").args(inside), "inside a share");
        node.until_gone();
    }
}

#[test]
fn a_client_has_no_child_and_unchanged_streams_and_signals() {
    let node = Node::stand_in();
    let run = |how: &str, number: usize| {
        let out = node.sandbox.path(&format!("work/facts{number}"));
        let script = format!(
            "exec {how} cudawrap --share 1/2 --mps -- probe --out {}",
            out.display()
        );
        node.sandbox.shell("bash", &script).run().exits(0);
        Facts::read(&out)
    };
    #[rustfmt::skip]
    let ways = [
        "", "launch --subreaper", "launch --ignore 17", "launch --block 17", "launch --streams 000",
        "launch --nofile 16",
    ];
    for (number, how) in ways.into_iter().enumerate() {
        let facts = run(how, number);
        assert_eq!(facts.get("children"), Some(""), "{how}");
        assert_eq!(facts.get("wait"), run("", 99).get("wait"), "{how}");
        let locks = facts.descriptors_of(&node.place().join("lock"));
        assert_eq!(locks.len(), 1, "{how}");
        let subreaper = facts.get("subreaper") == Some("1");
        assert_eq!(subreaper, how.ends_with("subreaper"), "{how}");
    }
    node.until_gone();
}
