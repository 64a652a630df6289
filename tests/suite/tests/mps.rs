//! `cudawrap --mps` as programs and users see it: the variables, whose daemon it is, and
//! what is refused. What has to do with the daemon runs with a stand-in for
//! nvidia-cuda-mps-control, and with the real one where it is installed, which runs
//! without a driver.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use getgpu_tests::mps::{CONTROL, Client, Node, starts_in_log, words};
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Command, wait};

#[test]
fn a_burst_has_one_daemon_and_each_its_part() {
    Node::each(|node| {
        let mut clients: Vec<Client> = (0..32)
            .map(|n| node.client(&format!("client{n}"), |c| c))
            .collect();
        let facts: Vec<Facts> = clients.iter_mut().map(Client::facts).collect();
        let (place, daemons) = (node.place(), node.daemons());
        assert_eq!(
            (daemons.len(), node.keepers().len(), starts_in_log(&place)),
            (1, 1, 1)
        );
        for path in [
            place.parent().unwrap(),
            &place,
            &place.join("pipe"),
            &place.join("log"),
        ] {
            let meta = fs::symlink_metadata(path).unwrap();
            assert_eq!(
                (meta.mode() & 0o7777, meta.uid()),
                (0o700, nix::unistd::geteuid().as_raw()),
                "{path:?}"
            );
        }
        assert!(place.join("pipe").as_os_str().len() < 90);
        let environment = words(daemons[0], "environ");
        assert!(
            environment.contains(&format!("CUDA_VISIBLE_DEVICES={}", node.uuid)),
            "{environment:?}"
        );
        assert!(
            !environment
                .iter()
                .any(|entry| entry.starts_with("SIM_NODE") || entry.starts_with("HOME"))
        );
        let listing = node.sandbox.getgpu(["--list", "--json"]).run().stdout;
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        let total = listing["devices"][0]["memory_total"].as_u64().unwrap();
        for facts in facts {
            let get = |name: &str| facts.get(&format!("env {name}")).unwrap_or("").to_owned();
            assert_eq!(facts.visible(), Some(node.uuid.as_str()));
            assert_eq!(
                get("CUDA_MPS_PIPE_DIRECTORY"),
                place.join("pipe").display().to_string()
            );
            assert_eq!(
                get("CUDA_MPS_LOG_DIRECTORY"),
                place.join("log").display().to_string()
            );
            assert_eq!(get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "3.12");
            assert_eq!(
                get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
                format!("0={}M", (total / 32) >> 20)
            );
            let [(_, flags)] = &facts.descriptors_of(&place.join("lock"))[..] else {
                panic!("{facts:#?}")
            };
            assert_eq!(
                i32::from_str_radix(flags.split(' ').next().unwrap(), 8).unwrap() & 0o3,
                0,
                "read-only"
            );
            assert_eq!(
                (
                    facts.get("children"),
                    facts.descriptors_of(&node.sandbox.lock()).len()
                ),
                (Some(""), 2)
            );
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
        let mut clients: Vec<Client> = (0..6)
            .map(|n| node.client(&format!("client{n}"), |c| c.uid(1001 + n % 2)))
            .collect();
        clients.iter_mut().for_each(|client| drop(client.facts()));
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

#[test]
fn jobs_have_daemons_of_their_own() {
    let node = Node::stand_in();
    // A cgroup ends with its job, and with it a daemon that another job of the same user
    // would still need.
    let mut clients: Vec<_> = [None, Some("4711"), Some("4712")]
        .into_iter()
        .enumerate()
        .map(|(number, job)| {
            node.client(&format!("client{number}"), |command| match job {
                Some(job) => command.env("SLURM_JOB_ID", job),
                None => command,
            })
        })
        .collect();
    let pipes: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            client
                .facts()
                .get("env CUDA_MPS_PIPE_DIRECTORY")
                .unwrap()
                .to_owned()
        })
        .collect();
    let place = node.place();
    let (parent, name) = (
        place.parent().unwrap().display(),
        place.file_name().unwrap().to_str().unwrap().to_owned(),
    );
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
    node.sandbox.file(
        &format!("bin/{}", getgpu_tests::mps::CONTROL),
        &script,
        0o755,
    );
    let outcome = node.share("1/2", &["echo", "run"]).run();
    outcome.exits(0).prints("run\n");
    node.until_gone();
}

#[test]
fn the_place_is_short_wherever_temporary_files_are() {
    let node = Node::stand_in();
    let long = node
        .sandbox
        .path(&format!("work/{}/{}", "d".repeat(120), "e".repeat(120)));
    fs::create_dir_all(&long).unwrap();
    let mut client = node.client("client", |c| {
        c.env("TMPDIR", &long).env("XDG_RUNTIME_DIR", &long)
    });
    let facts = client.facts();
    assert_eq!(
        facts.get("env CUDA_MPS_PIPE_DIRECTORY"),
        Some(&*node.place().join("pipe").display().to_string())
    );
    node.go();
    node.until_gone();
}

#[test]
fn without_the_control_program_nothing_is_run() {
    let node = Node::bare();
    let there = skip::tool(CONTROL);
    if there.is_some() && skip::lacks(&[Need::Mounts]) {
        return;
    }
    let hidden = there
        .map(|path| format!("mount --bind /dev/null {} && ", path.display()))
        .unwrap_or_default();
    let script = format!("{hidden}exec cudawrap --share 1/2 --mps -- echo run");
    let words = if hidden.is_empty() {
        vec!["bash", "-c"]
    } else {
        vec!["unshare", "-m", "bash", "-c"]
    };
    let outcome = node
        .sandbox
        .command(words[0])
        .args(&words[1..])
        .args([&script])
        .run();
    outcome
        .refuses("cudawrap", 125, &format!("MPS: {CONTROL} is not installed"))
        .mentions("package nvidia-cuda-mps");
    assert!(!node.sandbox.locked() && !node.place().exists());
}

#[test]
fn a_daemon_that_does_not_start_is_told_with_the_end_of_its_log() {
    let node = Node::bare();
    let text = "#!/bin/sh\necho 'no such device' >> $CUDA_MPS_LOG_DIRECTORY/control.log\necho 'cannot do it'\nexit 1\n";
    node.sandbox.file(&format!("bin/{CONTROL}"), text, 0o755);
    for _ in 0..2 {
        let outcome = node
            .sandbox
            .command("cudawrap")
            .args(["--share", "1/2", "--mps", "--", "echo", "run"])
            .run();
        outcome.refuses(
            "cudawrap",
            125,
            &format!(
                "{}: the MPS daemon cannot be started: cannot do it",
                node.uuid
            ),
        );
        outcome.mentions("hint: its log ends with: no such device");
    }
    // Nor under a link.
    let app = wrap(&node.sandbox, "opt", "app", "probe");
    let linked = node
        .sandbox
        .command(&app)
        .env("CUDAWRAP_SHARE", "1/2")
        .env("CUDAWRAP_MPS", "1")
        .run();
    linked.refuses("cudawrap", 125, "the MPS daemon cannot be started");
    node.until_gone();
    assert!(!node.sandbox.locked());
}

#[test]
fn a_directory_that_another_user_has_planted_is_refused() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let (node, uid) = (Node::stand_in(), 1077);
    let planted = Path::new("/tmp").join(format!("getgpu-mps-{uid}"));
    let start = || {
        let command = node
            .sandbox
            .command("cudawrap")
            .args(["--share", "1/2", "--mps", "--", "echo", "run"]);
        command.uid(uid).run()
    };
    let own = |path: &Path, uid| std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    let told = |why: &str| {
        start()
            .refuses(
                "cudawrap",
                125,
                &format!("MPS directory {}: {why}", planted.display()),
            )
            .clone()
    };
    fs::create_dir(&planted).unwrap();
    own(&planted, 1002);
    told("it belongs to uid 1002, not to you").mentions("hint: it has to be moved out of the way");
    own(&planted, uid);
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o770)).unwrap();
    told("others can enter it");
    fs::remove_dir(&planted).unwrap();
    std::os::unix::fs::symlink(node.sandbox.path("work"), &planted).unwrap();
    own(&planted, uid);
    told("it is not a directory");
    fs::remove_file(&planted).unwrap();
    assert_eq!(start().exits(0).stdout, "run\n");
    wait::until("nothing is left", || !planted.exists());
}

#[test]
fn without_a_share_there_is_no_daemon() {
    let node = Node::stand_in();
    let sandbox = &node.sandbox;
    let run = |words: &[&str]| sandbox.command("cudawrap").args(words).run();
    for words in [
        &["--mps", "--", "true"][..],
        &["--mps", "--type=gpu", "true"],
    ] {
        run(words).refuses(
            "cudawrap",
            125,
            "--mps: without a share the program has the device to itself",
        );
    }
    let whole = sandbox
        .command("cudawrap")
        .args(["--mps", "--", "true"])
        .visible(&node.uuid)
        .run();
    whole.refuses("cudawrap", 125, "--mps: without a share");
    // As a setting or a variable it is without effect on a whole device.
    let app = wrap(sandbox, "opt", "app", "probe");
    let pipe = |command: Command| {
        let facts = Facts::parse(
            &command
                .env("CUDA_MPS_PIPE_DIRECTORY", "/own")
                .run()
                .exits(0)
                .stdout,
        );
        facts
            .get("env CUDA_MPS_PIPE_DIRECTORY")
            .unwrap_or("")
            .to_owned()
    };
    let named = |words: &[&str]| {
        sandbox
            .command("cudawrap")
            .args(words)
            .args(["--", "probe"])
    };
    let ours = node.place().join("pipe").display().to_string();
    assert_eq!(
        pipe(named(&["--share=1/2"])),
        "/own",
        "without MPS the user's own daemon is left alone"
    );
    sandbox.set_settings("mps = true");
    assert_eq!(pipe(named(&[])), "/own");
    assert_eq!(pipe(sandbox.command(&app)), "/own");
    assert_eq!(pipe(named(&["--share=1/2"])), ours);
    assert_eq!(
        pipe(sandbox.command(&app).env("CUDAWRAP_SHARE", "1/2")),
        ours
    );
    assert_eq!(
        pipe(
            sandbox
                .command(&app)
                .env("CUDAWRAP_SHARE", "1/2")
                .env("CUDAWRAP_MPS", "0")
        ),
        "/own"
    );
    sandbox.set_settings("[program.\"app\"]\nmps = true\nshare = '1/4'");
    assert_eq!(pipe(sandbox.command(&app)), ours);
    assert_eq!(pipe(named(&["--share=1/2"])), "/own");
    assert_eq!(
        pipe(named(&["--share=1/2"]).env("CUDAWRAP_MPS", "true")),
        ours
    );
    named(&["--share=1/2"])
        .env("CUDAWRAP_MPS", "maybe")
        .run()
        .refuses("cudawrap", 125, "CUDAWRAP_MPS: `maybe`");
    node.until_gone();
}

#[test]
fn a_device_that_the_caller_names_has_a_daemon_too() {
    let node = Node::stand_in();
    let sandbox = &node.sandbox;
    let app = wrap(sandbox, "opt", "app", "probe");
    let seen = |command: Command, visible: &str| {
        let facts = Facts::parse(&command.visible(visible).run().exits(0).stdout);
        let get = |name: &str| facts.get(&format!("env {name}")).unwrap_or("").to_owned();
        (
            get("CUDA_VISIBLE_DEVICES"),
            get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        )
    };
    let linked = || {
        sandbox
            .command(&app)
            .env("CUDAWRAP_SHARE", "1/4")
            .env("CUDAWRAP_MPS", "1")
    };
    let quarter = (node.uuid.clone(), "25".to_owned());
    // An index counts among the devices that the daemon sees, so it is not left there.
    for visible in ["0", &node.uuid, &node.uuid[..10]] {
        assert_eq!(seen(linked(), visible), quarter, "{visible}");
        assert_eq!(
            seen(node.share("1/4", &["probe"]), visible),
            quarter,
            "{visible}"
        );
    }
    // A part that was reserved is a share.
    let reserved = sandbox.getgpu(["--share=1/4"]).run().line();
    assert_eq!(
        seen(
            sandbox.command("cudawrap").args(["--mps", "--", "probe"]),
            &reserved
        ),
        quarter
    );
    sandbox.getgpu(["--release-all"]).run().exits(0);
    let several = sandbox
        .command("cudawrap")
        .args(["--mps", "--share=1/2", "-n2", "--", "true"]);
    sandbox.set_node("gpus4");
    several.run().refuses(
        "cudawrap",
        125,
        "MPS: 2 devices: a program can be a client on one device only",
    );
    sandbox.set_node("h200x1");
    node.until_gone();
}

#[test]
fn a_client_has_no_child_and_its_streams_and_signals_as_they_were() {
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
    let ways = [
        "",
        "launch --subreaper",
        "launch --ignore 17",
        "launch --block 17",
        "launch --streams 000",
        "launch --nofile 16",
    ];
    for (number, how) in ways.into_iter().enumerate() {
        let facts = run(how, number);
        assert_eq!(facts.get("children"), Some(""), "{how}");
        assert_eq!(facts.get("wait"), run("", 99).get("wait"), "{how}");
        assert_eq!(
            facts.descriptors_of(&node.place().join("lock")).len(),
            1,
            "{how}"
        );
        assert_eq!(
            facts.get("subreaper").map(|value| value == "1"),
            Some(how.ends_with("subreaper")),
            "{how}"
        );
    }
    node.until_gone();
}
