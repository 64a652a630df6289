//! A device that CUDA_VISIBLE_DEVICES names is leased in every form of the variable. If
//! another user has it, cudawrap prints a warning and runs the program, or refuses.

use std::time::Duration;

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, bytes, first_line, listing, somebody};
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

#[test]
fn a_device_that_the_variable_names_is_leased_in_every_form() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let listing = listing::json(&sandbox);
    let device = &listing["devices"][1];
    let uuid = device["uuid"].as_str().unwrap();
    let old = format!(
        "MIG-{}/{}/{}",
        device["gpu_uuid"].as_str().unwrap(),
        device["gpu_instance"],
        device["compute_instance"]
    );
    for value in [uuid.to_owned(), old] {
        for command in [sandbox.command(&app), sandbox.words("cudawrap -- sim-cuda")] {
            let program = command.args(["--run", "forever"]).visible(&value).spawn();
            sandbox.until_running(1);
            assert!(
                first_line(&program).starts_with(&format!("RUN {uuid}")),
                "{value}"
            );
            let outcome = somebody(&sandbox, &["--explain", "--no-reserve"]).run();
            outcome.mentions(&format!("{uuid} (GPU 0 MIG device 1): leased by "));
            drop(program);
            wait::until("it has exited", || sandbox.running() == 0);
        }
    }
    let whole = Sandbox::new("gpus4");
    let app = wrap(&whole, "opt", "app", "sim-cuda");
    let prefix = &whole.uuids()[2][..12];
    for value in ["2", prefix] {
        let program = whole
            .command(&app)
            .args(["--run", "forever"])
            .visible(value)
            .spawn();
        whole.until_running(1);
        assert_eq!(listing::free_devices(&whole), "3", "{value}");
        whole
            .ask("--explain --no-reserve")
            .mentions(&format!("{} (GPU 2): leased by ", whole.uuids()[2]));
        drop(program);
        wait::until("it has exited", || whole.running() == 0);
    }
}

#[test]
fn a_linked_program_runs_unchanged_with_several_devices_or_none() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let uuids = sandbox.uuids();
    let both = format!("{},{}", uuids[0], uuids[1]);
    let program = sandbox
        .command(&app)
        .args(["--run", "forever"])
        .visible(&both)
        .spawn();
    sandbox.until_running(1);
    assert!(!sandbox.locked(), "nothing is leased");
    drop(program);
    for value in ["", "-1"] {
        sandbox
            .command(&app)
            .visible(value)
            .run()
            .exits(100)
            .prints("NODEVICE\n")
            .says(&[]);
        sandbox
            .words("cudawrap -- true")
            .visible(value)
            .run()
            .refuses(125, "it names no device");
    }
    let gone = "MIG-GPU-7a1b2c3d-0001-5abc-8def-000000000009/1/0";
    let outcome = sandbox.words("cudawrap -- true").visible(gone).run();
    outcome
        .exits(125)
        .mentions(": no such device on this node")
        .mentions("re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again");
}

#[test]
fn a_named_device_that_is_in_use_gives_a_warning_or_a_refusal() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let reserved = somebody(&sandbox, &["--for=60"]).run().line();
    let root = nix::unistd::geteuid().is_root();
    if root {
        let outcome = sandbox.command(&app).visible(&reserved).run();
        outcome
            .exits(0)
            .mentions(&format!("cudawrap: {reserved}: in use by "));
        outcome.mentions("running there because CUDA_VISIBLE_DEVICES names it");
        sandbox.set_settings("when_taken = 'fail'");
        sandbox
            .command(&app)
            .visible(&reserved)
            .run()
            .exits(75)
            .prints("");
        sandbox.set_settings("");
    }
    // Under its own name another user's reservation is as good as a lease; one of our own
    // is used.
    let outcome = sandbox
        .words("cudawrap -- sim-cuda")
        .visible(&reserved)
        .run();
    if root {
        outcome.refuses(75, &format!("cudawrap: {reserved}: in use by "));
    } else {
        outcome.exits(0).says(&[]);
    }
    let lessee = sandbox
        .words("cudawrap -- sim-cuda --shared --run forever")
        .spawn();
    sandbox.until_running(1);
    let leased = first_line(&lessee).split(' ').nth(1).unwrap().to_owned();
    let outcome = sandbox
        .command(&app)
        .args(["--shared"])
        .visible(&leased)
        .run();
    outcome.exits(0).mentions(&format!(
        "(pid {}, sim-cuda): running there because",
        lessee.pid()
    ));
    let outcome = sandbox.words("cudawrap -- true").visible(&leased).run();
    outcome.refuses(75, &format!("cudawrap: {leased}: in use by "));
}

/// In another pid namespace /proc cannot prove whose a reservation is, so the uid that
/// signs it decides; a container's uid 0 may be anybody, so cudawrap warns and runs.
#[test]
fn the_uid_tells_whose_a_reservation_is_across_pid_namespaces() {
    if skip::lacks(&[Need::Mounts, Need::Tool("setpriv")]) {
        return;
    }
    // It must outlive the pauses between the programs.
    let sandbox = Sandbox::with("mig4", "linger = '60s'");
    let uuid = sandbox.ask_as(OTHER, "--for=600").line();
    let container = ["unshare", "-p", "-f", "--kill-child", "--mount-proc"];
    let run = |outside: &[&str], uid: u32| {
        let user = format!("--reuid={uid} --regid={uid} --clear-groups");
        let words = [outside, &["setpriv"]].concat();
        let program = ["cudawrap", "--", "sim-cuda", "--run", "0.05"];
        sandbox
            .command(words[0])
            .args(&words[1..])
            .args(user.split(' '))
            .args(program)
            .visible(&uuid)
            .run()
    };
    let warning = "reserved on the host: running there because this container was given it";
    let own = run(&container, OTHER);
    assert!(own.exits(0).stdout.starts_with(&format!("RUN {uuid}")));
    assert!(!own.stderr.contains(warning), "{own:?}");
    run(&container, OTHER + 1).refuses(75, &format!("{uuid}: in use by "));
    let root = run(&container, 0);
    assert!(root.exits(0).stdout.starts_with(&format!("RUN {uuid}")));
    root.mentions(&format!("cudawrap: {uuid}: {warning}"));
    // On the host there is proof, so root's uid alone opens nothing.
    run(&["env"], 0).refuses(75, &format!("{uuid}: in use by "));
}

#[test]
fn a_claim_on_a_named_device_is_given_time_to_end() {
    for (region, status) in [(bytes::LEASE, 75), (bytes::RESERVATION, 0)] {
        let sandbox = Sandbox::new("mig4");
        let (uuid, stranger) = (&sandbox.uuids()[0], bytes::open(&sandbox));
        let start = bytes::span(uuid) + region;
        bytes::lock(&stranger, nix::libc::F_WRLCK, start, bytes::UNITS).unwrap();
        let outcome = sandbox.words("cudawrap -- true").visible(uuid).run();
        assert!(outcome.exits(status).elapsed >= Duration::from_millis(200));
    }
}
