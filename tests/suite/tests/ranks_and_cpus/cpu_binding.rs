//! `cudawrap --bind` as programs see it: which CPUs they may run on and which thread counts
//! their libraries read. Two cores of this machine stand near the simulated GPU; machines
//! of other forms are in the unit tests of `cudawrap/src/bind`.

use std::fs;

use getgpu_tests::listing;
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Command, Sandbox, Signal, wait};

use crate::cpu_masks::{cores, facts, mask, masked, mig, node, told};

const THREADS: [&str; 4] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];

#[test]
fn a_program_runs_on_the_cpus_near_its_device_if_that_is_asked_for_or_set() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let app = wrap(&sandbox, "opt", "app", "probe").display().to_string();
    let run = |words: &[&str]| masked(&sandbox, &cores, words);
    let (typed, plain) = (
        ["cudawrap", "--bind", "--", "probe"],
        ["cudawrap", "--", "probe"],
    );
    let bound = |command: Command| {
        let facts = facts(command);
        assert_eq!(mask(&facts), cores[1..]);
        assert!(
            THREADS
                .iter()
                .all(|name| told(&facts, name).as_deref() == Some("1")),
            "{facts:#?}"
        );
        assert_eq!(told(&facts, "OMP_PROC_BIND").as_deref(), Some("true"));
    };
    let free = |command: Command| {
        let facts = facts(command);
        assert_eq!(mask(&facts), cores);
        assert!(
            THREADS
                .iter()
                .chain(&["OMP_PROC_BIND"])
                .all(|name| told(&facts, name).is_none()),
            "{facts:#?}"
        );
    };
    bound(run(&typed));
    free(run(&plain));
    free(run(&[&app]));
    for words in [&plain[..], &[&app]] {
        bound(run(words).env("CUDAWRAP_BIND", "1"));
    }
    sandbox.set_settings("bind = true");
    for words in [&plain[..], &[&app]] {
        bound(run(words));
        free(run(words).env("CUDAWRAP_BIND", "0"));
        free(run(words).env("CUDAWRAP_DISABLE", "1"));
    }
    bound(run(&typed).env("CUDAWRAP_BIND", "0"));
    sandbox.set_settings("[program.'other*']\nbind = true");
    free(run(&[&app]));
    run(&plain)
        .env("CUDAWRAP_BIND", "soup")
        .run()
        .refuses("cudawrap", 125, "CUDAWRAP_BIND");
}

#[test]
fn the_mask_only_ever_gets_narrower_and_never_empty() {
    let Some(cores) = cores(2) else { return };
    let (near, both) = (
        cores[1].to_string(),
        format!("{},{},5000", cores[0], cores[1]),
    );
    let sandbox = Sandbox::new(&node(&[&both]));
    for cores in [&cores[..], &cores[..1], &cores[1..]] {
        let facts = facts(masked(
            &sandbox,
            cores,
            &["cudawrap", "--bind", "--", "probe"],
        ));
        assert_eq!(
            (mask(&facts), told(&facts, THREADS[0])),
            (cores.to_vec(), Some(cores.len().to_string()))
        );
    }
    sandbox.set_node(&node(&[&near]));
    let apart = |options: &str| {
        masked(
            &sandbox,
            &cores[..1],
            &["cudawrap", options, "--bind", "--", "probe"],
        )
        .run()
    };
    let outcome = apart("-v");
    let line = format!(
        "this process may run on none of the device's CPUs ({near}), only on {}: not bound",
        cores[0]
    );
    outcome.exits(0).mentions(&line);
    let facts = Facts::parse(&outcome.stdout);
    assert_eq!(
        (
            mask(&facts),
            told(&facts, THREADS[0]),
            told(&facts, "OMP_PROC_BIND")
        ),
        (vec![cores[0]], None, None)
    );
    apart("-q").exits(0).says(&[]);
}

#[test]
fn what_the_user_has_set_stays() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let command = masked(&sandbox, &cores, &["cudawrap", "--bind", "--", "probe"]);
    let facts = facts(
        command
            .env("OMP_NUM_THREADS", "7")
            .env("OMP_PROC_BIND", "close")
            .env("MKL_NUM_THREADS", ""),
    );
    let names = [
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ];
    assert_eq!(
        names.map(|name| told(&facts, name).unwrap()),
        ["7", "close", "", "1", "1"]
    );
    assert_eq!(mask(&facts), cores[1..]);
}

#[test]
fn several_devices_have_the_cpus_of_all() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[0].to_string(), &cores[1].to_string()]));
    let run = |words: &[&str]| {
        facts(masked(
            &sandbox,
            &cores,
            &[&["cudawrap", "--bind"], words, &["--", "probe"]].concat(),
        ))
    };
    let facts = run(&["--count", "2"]);
    assert_eq!(
        (mask(&facts), told(&facts, THREADS[0]).as_deref()),
        (cores.clone(), Some("2"))
    );
    for (gpu, core) in ["0", "1"].iter().zip(&cores) {
        assert_eq!(mask(&run(&["--gpu", gpu])), [*core]);
        let of = |facts: &Facts| {
            sandbox
                .uuids()
                .iter()
                .position(|uuid| facts.visible() == Some(uuid))
        };
        let any = run(&[]);
        assert_eq!(
            mask(&any),
            [cores[of(&any).unwrap()]],
            "the GPU that was chosen"
        );
    }
}

#[test]
fn a_named_device_is_asked_about_where_it_is_needed() {
    let Some(cores) = cores(2) else { return };
    let near = cores[1].to_string();
    for form in [node(&["5000", &near]), mig(&near)] {
        let sandbox = Sandbox::new(&form);
        let app = wrap(&sandbox, "opt", "app", "probe").display().to_string();
        let uuid = sandbox.uuids().remove(1);
        let device = &listing::json(&sandbox)["devices"][1];
        let text = |name: &str| device[name].to_string().replace('"', "");
        let old = format!(
            "MIG-{}/{}/{}",
            text("gpu_uuid"),
            text("gpu_instance"),
            text("compute_instance")
        );
        let other = if text("mig") == "true" {
            old
        } else {
            uuid[..uuid.len() - 4].to_owned()
        };
        let typed = ["cudawrap", "--bind", "--", "probe"];
        for (words, name) in [
            (&[&*app][..], &uuid),
            (&[&*app], &other),
            (&typed, &uuid),
            (&typed, &other),
        ] {
            let facts = facts(
                masked(&sandbox, &cores, words)
                    .env("CUDAWRAP_BIND", "1")
                    .visible(name),
            );
            assert_eq!(mask(&facts), cores[1..], "{words:?} {name}");
            assert_eq!(
                facts.visible(),
                Some(if words.len() == 1 { name } else { &uuid }.as_str())
            );
        }
        sandbox.folder().log_calls().unwrap();
        assert_eq!(
            mask(&facts(masked(&sandbox, &cores, &[&app]).visible(&uuid))),
            cores
        );
        assert!(
            sandbox.folder().calls().unwrap().is_empty(),
            "without it NVML is not asked"
        );
        // Where NVML cannot be asked the program runs all the same.
        fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
        let outcome = masked(&sandbox, &cores, &[&app])
            .env("CUDAWRAP_BIND", "1")
            .visible(&uuid)
            .run();
        outcome.exits(0).says(&[]);
        assert_eq!(mask(&Facts::parse(&outcome.stdout)), cores);
    }
}

#[test]
fn it_costs_one_call_in_the_same_session() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&mig(&cores[1].to_string()));
    let cost = |options: &[&str]| {
        sandbox.folder().log_calls().unwrap();
        sandbox
            .command("cudawrap")
            .args(options)
            .args(["--", "true"])
            .run()
            .exits(0);
        let names = sandbox
            .folder()
            .calls()
            .unwrap()
            .into_iter()
            .map(|call| call.function);
        let names: Vec<String> = names.filter(|name| name != "attach").collect();
        (
            names.len(),
            names
                .iter()
                .filter(|name| *name == "nvmlDeviceGetCpuAffinity")
                .count(),
        )
    };
    for options in [
        &["--policy", "first"][..],
        &["--policy", "first", "--share", "1/2"],
        &["--gpu", "0"],
    ] {
        let plain = cost(options);
        let bound = cost(&[&["--bind"], options].concat());
        assert_eq!((plain.1, bound), (0, (plain.0 + 1, 1)), "{options:?}");
    }
}

#[test]
fn a_waiter_is_bound_too() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let program = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let mut waiter = masked(
        &sandbox,
        &cores,
        &["cudawrap", "--wait=60", "--bind", "--", "probe"],
    )
    .spawn();
    wait::until("it waits in the queue", || {
        sandbox
            .getgpu(["--list", "--json"])
            .run()
            .stdout
            .contains("\"waiting\":1")
            || waiter.is_over()
    });
    program.signal(Signal::SIGKILL);
    program.wait();
    let outcome = waiter.wait();
    assert_eq!(mask(&Facts::parse(&outcome.exits(0).stdout)), cores[1..]);
}

#[test]
fn a_driver_that_cannot_tell_and_one_that_fails() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&["5000"]));
    let run = |code: u32, options: &[&str]| {
        sandbox.faults(&format!(
            "[[rule]]\nfunction = 'nvmlDeviceGetCpuAffinity'\nreturns = {code}\n"
        ));
        let words = [&["cudawrap", "-v", "--bind"], options, &["--", "probe"]].concat();
        masked(&sandbox, &cores, &words).run().exits(0).clone()
    };
    // Then none is nearer than another.
    assert_eq!(mask(&Facts::parse(&run(3, &[]).stdout)), cores);
    assert_eq!(
        mask(&Facts::parse(&run(3, &["--share", "1/2"]).stdout)),
        cores[..1]
    );
    let failed = run(15, &["--share", "1/2"]);
    failed
        .mentions(&format!(
            "{}: NVML DeviceGetCpuAffinity",
            sandbox.uuids()[0]
        ))
        .mentions(": not bound");
    assert_eq!(mask(&Facts::parse(&failed.stdout)), cores);
}

#[test]
fn a_mask_that_may_not_be_set_stays_and_the_program_runs() {
    let Some(cores) = cores(2) else { return };
    if skip::lacks(&[Need::Tool("strace")]) {
        return;
    }
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    for (errno, text) in [
        ("EPERM", "Operation not permitted"),
        ("EINVAL", "Invalid argument"),
    ] {
        let inject = format!("inject=sched_setaffinity:error={errno}");
        let words = [
            "strace",
            "-o",
            "/dev/null",
            "-e",
            &inject,
            "cudawrap",
            "-v",
            "--bind",
            "--",
            "probe",
        ];
        let outcome = masked(&sandbox, &cores, &words).run();
        outcome
            .exits(0)
            .mentions(&format!("CPUs {}: {text}: not bound", cores[1]));
        let facts = Facts::parse(&outcome.stdout);
        assert_eq!(
            (mask(&facts), told(&facts, THREADS[0])),
            (cores.clone(), None)
        );
    }
}
