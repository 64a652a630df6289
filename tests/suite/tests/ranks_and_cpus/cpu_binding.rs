//! `cudawrap --bind` as programs see it: which CPUs they may run on and which thread counts
//! their libraries read. Two cores of this machine stand near the simulated GPU; machines
//! of other forms are in the unit tests of `cudawrap/src/bind`.

use std::fs;

use getgpu_tests::listing;
use getgpu_tests::wrapped::{Facts, wrap};
use harness::{Command, Sandbox, wait};

use crate::cpu_masks::{cores, facts, mask, masked, mig, node, told};

#[rustfmt::skip]
const THREADS: [&str; 4] = [
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
];
const BIND: [&str; 4] = ["cudawrap", "--bind", "--", "probe"];

#[test]
fn a_program_runs_on_cpus_near_its_device_if_asked_for_or_set() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let app = wrap(&sandbox, "opt", "app", "probe").display().to_string();
    let run = |words: &[&str]| masked(&sandbox, &cores, words);
    let (typed, plain) = (BIND, ["cudawrap", "--", "probe"]);
    let bound = |command: Command| {
        let facts = facts(command);
        assert_eq!(mask(&facts), cores[1..]);
        let one = |name: &&str| told(&facts, name).as_deref() == Some("1");
        assert!(THREADS.iter().all(one), "{facts:#?}");
        assert_eq!(told(&facts, "OMP_PROC_BIND").as_deref(), Some("true"));
    };
    let free = |command: Command| {
        let facts = facts(command);
        assert_eq!(mask(&facts), cores);
        let mut names = THREADS.iter().chain(&["OMP_PROC_BIND"]);
        assert!(names.all(|name| told(&facts, name).is_none()), "{facts:#?}");
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
    let wrong = run(&plain).env("CUDAWRAP_BIND", "soup").run();
    wrong.refuses(125, "CUDAWRAP_BIND");
}

#[test]
fn the_mask_only_ever_gets_narrower_and_never_empty() {
    let Some(cores) = cores(2) else { return };
    let near = cores[1].to_string();
    let both = format!("{},{near},5000", cores[0]);
    let sandbox = Sandbox::new(&node(&[&both]));
    for cores in [&cores[..], &cores[..1], &cores[1..]] {
        let facts = facts(masked(&sandbox, cores, &BIND));
        assert_eq!(mask(&facts), cores);
        assert_eq!(told(&facts, THREADS[0]), Some(cores.len().to_string()));
    }
    sandbox.set_node(&node(&[&near]));
    let apart = |options: &str| {
        let words = ["cudawrap", options, "--bind", "--", "probe"];
        masked(&sandbox, &cores[..1], &words).run()
    };
    let outcome = apart("-v");
    let why = format!("none of the device's CPUs ({near}), only on {}", cores[0]);
    let line = format!("this process may run on {why}: not bound");
    outcome.exits(0).mentions(&line);
    let facts = Facts::parse(&outcome.stdout);
    assert_eq!(mask(&facts), cores[..1]);
    let mut names = [THREADS[0], "OMP_PROC_BIND"].into_iter();
    assert!(names.all(|name| told(&facts, name).is_none()));
    apart("-q").exits(0).says(&[]);
}

#[test]
fn what_the_user_has_set_stays() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let command = masked(&sandbox, &cores, &BIND);
    let command = command
        .env("OMP_NUM_THREADS", "7")
        .env("MKL_NUM_THREADS", "");
    let facts = facts(command.env("OMP_PROC_BIND", "close"));
    #[rustfmt::skip]
    let values = [
        ("OMP_NUM_THREADS", "7"), ("OMP_PROC_BIND", "close"), ("MKL_NUM_THREADS", ""),
        ("OPENBLAS_NUM_THREADS", "1"), ("NUMEXPR_NUM_THREADS", "1"),
    ];
    for (name, value) in values {
        assert_eq!(told(&facts, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(mask(&facts), cores[1..]);
}

#[test]
fn several_devices_have_the_cpus_of_all() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[0].to_string(), &cores[1].to_string()]));
    let run = |words: &[&str]| {
        let words = [&["cudawrap", "--bind"], words, &["--", "probe"]].concat();
        facts(masked(&sandbox, &cores, &words))
    };
    let facts = run(&["--count", "2"]);
    assert_eq!(mask(&facts), cores);
    assert_eq!(told(&facts, THREADS[0]).as_deref(), Some("2"));
    for (gpu, core) in ["0", "1"].iter().zip(&cores) {
        assert_eq!(mask(&run(&["--gpu", gpu])), [*core]);
        // Of the GPU that was chosen.
        let any = run(&[]);
        let mut uuids = sandbox.uuids().into_iter();
        let place = uuids.position(|uuid| any.visible() == Some(&uuid));
        assert_eq!(mask(&any), [cores[place.unwrap()]]);
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
        let other = match device["mig"] == true {
            true => listing::instance(device),
            false => uuid[..uuid.len() - 4].to_owned(),
        };
        let linked = [&*app];
        #[rustfmt::skip]
        let cases = [(&linked[..], &uuid), (&linked, &other), (&BIND, &uuid), (&BIND, &other)];
        for (words, name) in cases {
            let command = masked(&sandbox, &cores, words).env("CUDAWRAP_BIND", "1");
            let facts = facts(command.visible(name));
            assert_eq!(mask(&facts), cores[1..], "{words:?} {name}");
            let shown = if words.len() == 1 { name } else { &uuid };
            assert_eq!(facts.visible(), Some(shown.as_str()));
        }
        sandbox.log_calls();
        let plain = facts(masked(&sandbox, &cores, &[&app]).visible(&uuid));
        assert_eq!(mask(&plain), cores);
        // Of a GPU it has to be known whether it is in MIG mode.
        let is_asked = !sandbox.calls().is_empty();
        assert_eq!(is_asked, !uuid.starts_with("MIG-"), "{uuid}");
        // Where NVML cannot be asked the program runs all the same.
        fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
        let command = masked(&sandbox, &cores, &[&app]).env("CUDAWRAP_BIND", "1");
        let outcome = command.visible(&uuid).run();
        outcome.exits(0).says(&[]);
        assert_eq!(mask(&Facts::parse(&outcome.stdout)), cores);
    }
}

#[test]
fn it_costs_one_call_in_the_same_session() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&mig(&cores[1].to_string()));
    let cost = |options: &[&str]| {
        sandbox.log_calls();
        let command = sandbox.command("cudawrap").args(options);
        command.args(["--", "true"]).run().exits(0);
        let names = sandbox.calls().into_iter().map(|call| call.function);
        let names: Vec<String> = names.filter(|name| name != "attach").collect();
        let is_affinity = |name: &&String| *name == "nvmlDeviceGetCpuAffinity";
        let affinity = names.iter().filter(is_affinity);
        (names.len(), affinity.count())
    };
    let by_policy = ["--policy", "first", "--share", "1/2"];
    for options in [&by_policy[..2], &by_policy, &["--gpu", "0"]] {
        let plain = cost(options);
        let bound = cost(&[&["--bind"], options].concat());
        assert_eq!((plain.1, bound), (0, (plain.0 + 1, 1)), "{options:?}");
    }
}

#[test]
fn a_waiter_is_bound_too() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let program = sandbox.leased().spawn();
    sandbox.until_running(1);
    let words = ["cudawrap", "--wait=60", "--bind", "--", "probe"];
    let mut waiter = masked(&sandbox, &cores, &words).spawn();
    wait::until("it waits in the queue", || {
        listing::waiting(&sandbox) == 1 || waiter.is_over()
    });
    program.kill();
    let outcome = waiter.wait();
    assert_eq!(mask(&Facts::parse(&outcome.exits(0).stdout)), cores[1..]);
}

#[test]
fn a_driver_that_cannot_tell_and_one_that_fails() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&["5000"]));
    let run = |code: u32, options: &[&str]| {
        let rule = "[[rule]]\nfunction = 'nvmlDeviceGetCpuAffinity'\n";
        sandbox.faults(&format!("{rule}returns = {code}\n"));
        let words = [&["cudawrap", "-v", "--bind"], options, &["--", "probe"]].concat();
        masked(&sandbox, &cores, &words).run().exits(0).clone()
    };
    // Then none is nearer than another.
    assert_eq!(mask(&Facts::parse(&run(3, &[]).stdout)), cores);
    let half = run(3, &["--share", "1/2"]);
    assert_eq!(mask(&Facts::parse(&half.stdout)), cores[..1]);
    let failed = run(15, &["--share", "1/2"]);
    let line = format!("{}: NVML DeviceGetCpuAffinity", sandbox.uuids()[0]);
    failed.mentions(&line).mentions(": not bound");
    assert_eq!(mask(&Facts::parse(&failed.stdout)), cores);
}
