//! A device that CUDA_VISIBLE_DEVICES names is leased in every form of the variable. If
//! another user has it, cudawrap prints a warning and runs the program, or refuses.

use std::time::Duration;

use getgpu_tests::wrapped::{Facts, wrap};
use getgpu_tests::{OTHER, all_at_once, bytes, ending, first_line, listing, somebody};
use harness::skip::{self, Need};
use harness::{Running, Sandbox, Signal, wait};
use nix::sys::signal::kill;

#[test]
fn a_device_that_the_variable_names_is_leased_in_every_form() {
    let [mig, whole] = ["mig4", "gpus4"].map(Sandbox::new);
    let (device, gpu) = (&mig.uuids()[1], &whole.uuids()[2]);
    let old = listing::instance(&listing::json(&mig)["devices"][1]);
    #[rustfmt::skip]
    let cases = [
        (&mig, device.as_str(), device, "GPU 0 MIG device 1"),
        (&mig, &old, device, "GPU 0 MIG device 1"),
        (&whole, "2", gpu, "GPU 2"),
        (&whole, &gpu[..12], gpu, "GPU 2"),
    ];
    for sandbox in [&mig, &whole] {
        wrap(sandbox, "opt", "app", "sim-cuda");
    }
    for (sandbox, value, uuid, place) in cases {
        for start in ["@/opt/app", "cudawrap -- sim-cuda"] {
            let command = sandbox.words(&format!("{start} --run forever"));
            let program = command.visible(value).spawn();
            sandbox.until_running(1);
            assert!(
                first_line(&program).starts_with(&format!("RUN {uuid}")),
                "{value}"
            );
            assert_eq!(listing::free_devices(sandbox), "3", "{value}");
            let outcome = somebody(sandbox, &["--explain", "--no-reserve"]).run();
            outcome.mentions(&format!("{uuid} ({place}): leased by "));
            drop(program);
            wait::until("it has exited", || sandbox.running() == 0);
        }
    }
}

/// All that the variable names is wanted; an option that leaves out some of it is obeyed.
#[test]
fn an_option_that_chooses_counts_for_a_device_that_is_named() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let two = format!("{},{}", uuids[0], uuids[1]);
    #[rustfmt::skip]
    let cases = [
        ("--min-memory 100G", "1 smaller than asked for"),
        ("--model H100", "1 not of the model asked for"),
        ("--type mig", "1 not of the type asked for"),
        ("--gpu 1", "1 not on the GPU asked for"),
        ("--profile 1g.10gb", "1 not of the profile asked for"),
    ];
    for (options, why) in cases {
        for named in ["0", uuids[0].as_str()] {
            let command = sandbox.words(&format!("cudawrap {options} -- true"));
            command.visible(named).run().refuses(125, why);
        }
        let command = sandbox.words(&format!("cudawrap -n 2 {options} -- true"));
        command.visible(&two).run().exits(125);
        // Nobody typed it.
        let (name, value) = options[2..].split_once(' ').unwrap();
        let variable = format!("CUDAWRAP_{}", name.replace('-', "_").to_uppercase());
        let command = sandbox.words("cudawrap -- true").env(&variable, value);
        command.visible(&uuids[0]).run().exits(0).says(&[]);
    }
    for options in [
        "--min-memory 1G --model A100 --type gpu --gpu 0",
        "-n 1 --gpu 0 --gpu 1",
    ] {
        let command = sandbox.words(&format!("cudawrap {options} -- true"));
        command.visible("0").run().exits(0).says(&[]);
    }
}

/// Pipelines write `CUDA_VISIBLE_DEVICES=$((slot-1))`: all programs with such an index used
/// to run on the first MIG device of its GPU.
#[test]
fn a_gpu_in_mig_mode_stands_for_its_mig_devices() {
    for settings in ["", "when_taken = 'fail'"] {
        let sandbox = Sandbox::with("a100x8", settings);
        wrap(&sandbox, "opt", "app", "sim-cuda");
        let listed = listing::json(&sandbox);
        let gpu = |at: usize| {
            listed["devices"][7 * at]["gpu_uuid"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let short = gpu(4)[..12].to_owned();
        #[rustfmt::skip]
        let cases = [
            ("0", vec![0]), (&gpu(2), vec![2]), (&short, vec![4]), ("6,7", vec![6, 7]),
        ];
        for (value, gpus) in cases {
            let of_gpus = |uuid: &str| {
                let mut devices = listed["devices"].as_array().unwrap().iter();
                let device = devices.find(|device| device["uuid"] == uuid).unwrap();
                gpus.contains(&device["gpu"].as_u64().unwrap())
            };
            let many = 7 * gpus.len();
            let programs: Vec<_> = (0..many)
                .map(|number| {
                    let way = ["@/opt/app", "cudawrap -- sim-cuda"][number % 2];
                    sandbox
                        .words(&format!("{way} --run forever"))
                        .visible(value)
                        .spawn()
                })
                .collect();
            sandbox.until_running(many);
            for program in &programs {
                let line = first_line(program);
                let words: Vec<&str> = line.split(' ').collect();
                assert!(words[0] == "RUN" && of_gpus(words[1]), "{value}: {line}");
                assert_eq!(program.stderr(), "");
            }
            let one_more = sandbox.words("@/opt/app").visible(value).run();
            one_more.refuses(75, &format!("no free device: {many} of {many} in use"));
            // The words behind a link are the program's.
            one_more.mentions("; CUDAWRAP_IGNORE_GRANT=1 chooses among all devices");
            drop(programs);
            wait::until("they have exited", || sandbox.running() == 0);
        }
    }
}

/// Nothing is unchanged without a word but what hides all devices.
#[test]
fn a_name_that_cannot_be_resolved_is_said_and_when_taken_decides() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "probe");
    let gpu = listing::json(&sandbox)["devices"][0]["gpu_uuid"].clone();
    let gpu = gpu.as_str().unwrap();
    let broken = "[[rule]]\nfunction = 'nvmlDeviceGetCount_v2'\nreturns = 999\n";
    let gone = "no such device on this node";
    #[rustfmt::skip]
    let cases = [
        ("", "9", gone), ("", "getgpu", gone), ("", "9,0", gone),
        (broken, "0", "NVML"), (broken, gpu, "NVML"), (broken, "0,1", "NVML"),
    ];
    for (faults, value, why) in cases {
        sandbox.faults(faults);
        sandbox.set_settings("");
        let run = |line: &str| sandbox.words(line).visible(value).run();
        let ran = run("@/opt/app");
        let facts = Facts::parse(&ran.exits(0).stdout);
        assert_eq!(facts.visible(), Some(value));
        assert_eq!(ran.stderr.lines().count(), 1, "{value}: {ran:#?}");
        ran.mentions(why)
            .mentions(": the program runs on what CUDA_VISIBLE_DEVICES names");
        sandbox.set_settings("when_taken = 'fail'");
        run("@/opt/app").refuses(125, why);
        run("CUDAWRAP_DISABLE=1 @/opt/app").exits(0).says(&[]);
    }
}

#[test]
fn a_linked_program_runs_unchanged_where_all_devices_are_hidden() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    for value in ["", "-1"] {
        let linked = sandbox.words("@/opt/app").visible(value).run();
        linked.exits(100).prints("NODEVICE\n").says(&[]);
        let typed = sandbox.words("cudawrap -- true").visible(value).run();
        typed.refuses(125, "it names no device");
        let ignored = "CUDAWRAP_IGNORE_GRANT=1 @/opt/app";
        sandbox
            .words(ignored)
            .visible(value)
            .run()
            .exits(0)
            .says(&[]);
    }
    let gone = "MIG-GPU-7a1b2c3d-0001-5abc-8def-000000000009/1/0";
    let outcome = sandbox.words("cudawrap -- true").visible(gone).run();
    outcome
        .exits(125)
        .mentions(": no such device on this node")
        .mentions("re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again");
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
    let run = |outside: &str, uid: u32| {
        let user = format!("setpriv --reuid={uid} --regid={uid} --clear-groups");
        let line = format!("{outside} {user} cudawrap -- sim-cuda --run 0.05");
        sandbox.words(&line).visible(&uuid).run()
    };
    let container = "unshare -p -f --kill-child --mount-proc";
    let warning = "reserved on the host: running there because this container was given it";
    let (own, root) = (run(container, OTHER), run(container, 0));
    for outcome in [&own, &root] {
        assert!(outcome.exits(0).stdout.starts_with(&format!("RUN {uuid}")));
    }
    assert!(!own.stderr.contains(warning), "{own:?}");
    root.mentions(&format!("cudawrap: {uuid}: {warning}"));
    // On the host there is proof, so root's uid alone opens nothing.
    for (outside, uid) in [(container, OTHER + 1), ("env", 0)] {
        run(outside, uid).refuses(75, &format!("{uuid}: in use by "));
    }
    // A share of it as much as all of it.
    let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
    let share = format!("{container} {user} cudawrap --share 1/2 -- sim-cuda --run 0.05");
    sandbox.words(&share).visible(&uuid).run().exits(0);
}

/// What of a device another user has reserved is no room for a share in a container, also beside
/// what its own user has reserved there.
#[test]
fn a_share_in_a_container_takes_nothing_that_another_user_has_reserved() {
    if skip::lacks(&[Need::Mounts, Need::Tool("setpriv")]) {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let uuid = &sandbox.uuids()[0];
    let reserve = |uid| sandbox.ask_as(uid, "--share 1/2 --for=600").line();
    let reserved = [OTHER + 1, OTHER].map(reserve);
    assert_eq!(reserved, [uuid.as_str(); 2]);
    let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
    let container = format!("unshare -p -f --kill-child --mount-proc {user}");
    for share in ["", "--share 1/2 "] {
        let line = format!("{container} cudawrap {share}-- true");
        let run = sandbox.words(&line).visible(uuid).run();
        run.refuses(75, &format!("{uuid}: in use by "));
    }
}

/// `when_taken` decides also for a share that is larger than the device.
#[test]
fn a_linked_program_whose_share_is_too_large_runs_or_fails_as_the_site_says() {
    for (settings, status) in [("run", 0), ("fail", 125)] {
        let settings = format!("share = '900G'\nwhen_taken = '{settings}'");
        let sandbox = Sandbox::with("h200x1", &settings);
        wrap(&sandbox, "opt", "app", "sim-cuda");
        let uuid = &sandbox.uuids()[0];
        let outcome = sandbox.words("@/opt/app").visible(uuid).run();
        outcome.exits(status).mentions(&format!("{uuid} has "));
    }
}

/// Two calls that name two devices in different orders: one of them gets both.
#[test]
fn of_calls_that_name_the_same_devices_in_any_order_one_has_them() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let orders = [[&*uuids[0], &*uuids[1]], [&*uuids[1], &*uuids[0]]];
    for _ in 0..20 {
        let start = |order: &[&str; 2]| {
            let words = "cudawrap -n 2 -- sim-cuda --run 0.3";
            sandbox.words(words).visible(order.join(",")).spawn()
        };
        let calls: Vec<Running> = orders.iter().map(start).collect();
        let codes: Vec<_> = calls.into_iter().map(|call| call.wait().code()).collect();
        assert!(codes.contains(&Some(0)), "{codes:?}");
    }
    sandbox.assert_exclusive();
}

/// NVML showed the caller's own device idle when it was reserved: nothing is told of programs that
/// are there, neither at once nor after a wait.
#[test]
fn of_ones_own_device_no_line_is_told_after_a_wait() {
    let Some(sandbox) = Sandbox::given(&[Need::Root], "h200x1", "") else {
        return;
    };
    let uuid = sandbox.line("--hold=0");
    let program = sandbox.words("sim-cuda --run forever --shared");
    let _foreign = program.visible(&uuid).uid(OTHER).spawn();
    sandbox.until_running(1);
    let on = |words: &str| sandbox.words(words).visible(&uuid);
    let own = on("cudawrap -- sim-cuda --run forever --shared").spawn();
    sandbox.until_running(2);
    let waiter = on("cudawrap --wait=60 -- true").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    drop(own);
    let waited = waiter.wait();
    assert!(
        !waited.exits(0).stderr.contains("also used by"),
        "{waited:?}"
    );
}

/// A claim of a process that is stopped, or that waits for a slow NVML, does not end in time: then
/// the device counts as in use, and the call does not wait for ever.
#[test]
fn a_claim_on_a_named_device_is_given_time_to_end() {
    let cases = [
        "cudawrap -- true",
        "cudawrap --share 1/2 -- true",
        "cudawrap --share 1GB -- true",
    ];
    all_at_once(cases, |words| {
        for region in [bytes::LEASE, bytes::RESERVATION] {
            let sandbox = Sandbox::new("mig4");
            let (uuid, stranger) = (&sandbox.uuids()[0], bytes::open(&sandbox));
            let start = bytes::span(uuid) + region;
            bytes::lock(&stranger, nix::libc::F_WRLCK, start, bytes::UNITS).unwrap();
            let outcome = sandbox.words(words).visible(uuid).run();
            outcome.refuses(75, &format!("{uuid}: in use by another program"));
            assert!(outcome.elapsed >= Duration::from_millis(200), "{words}");
        }
    });
}

/// A reservation that is about to end is waited for, and not for long: its getgpu-hold may be
/// stopped.
#[test]
fn a_named_device_whose_reservation_does_not_end_is_refused() {
    let sandbox = Sandbox::new("mig4");
    let (uuid, holder) = ending(&sandbox);
    let named = sandbox.words("cudawrap -- true").visible(&uuid);
    let outcome = named.limit(Duration::from_secs(30)).run();
    outcome.refuses(75, &format!("{uuid}: "));
    kill(holder, Signal::SIGCONT).unwrap();
    sandbox.assert_clean();
}
