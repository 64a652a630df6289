//! NVIDIA's own libraries of several drivers: they have the functions that ours calls and
//! that the simulated one has for that driver, and without a driver our programs say so in
//! one line.

use std::collections::BTreeSet;

use getgpu_tests::real;
use getgpu_tests::{PLAIN, assert_devices, listing, until_none_is_free};
use harness::Sandbox;
use sim_nvml::functions::{exists, without_an_answer};

#[test]
fn without_a_driver_every_version_is_status_3_and_one_line() {
    for driver in real::drivers() {
        let sandbox = Sandbox::new("none");
        std::fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
        let app = sandbox.file(
            "bin/app",
            "#!/bin/sh\necho ran $CUDA_VISIBLE_DEVICES\n",
            0o755,
        );
        std::fs::rename(&app, sandbox.path("bin/CUDAWRAP_app")).unwrap();
        std::os::unix::fs::symlink(sandbox.path("bin/cudawrap"), &app).unwrap();
        let none = "no NVIDIA driver on this node";
        let beside = |command: harness::Command| command.env("LD_LIBRARY_PATH", &driver.directory);
        for arguments in [&[][..], &["--list"], &["--explain", "--wait=5"]] {
            let outcome = beside(sandbox.getgpu(arguments)).run();
            let line = format!("getgpu: {none}");
            outcome.exits(3).prints("").says(&[&line]);
        }
        let line = format!("cudawrap: {none}");
        let outcome = beside(sandbox.words("cudawrap -- true")).run();
        outcome.exits(125).says(&[&line]);
        beside(sandbox.command(&app)).run().answers("ran\n");
        let library = driver.library("libnvidia-ml.so.1");
        sandbox.set_settings(&format!("library = \"{}\"\n", library.display()));
        sandbox
            .ask("--count-free")
            .exits(3)
            .says(&[&format!("getgpu: {none}")]);
    }
}

/// The functions for which the simulated library has answers.
fn answering() -> Option<BTreeSet<String>> {
    let all = real::functions(&sim_nvml::install::built().unwrap())?;
    let empty: BTreeSet<&str> = without_an_answer().iter().copied().collect();
    Some(
        all.into_iter()
            .filter(|name| !empty.contains(name.as_str()))
            .collect(),
    )
}

#[test]
fn the_simulated_library_has_nvidias_functions_of_each_version() {
    let Some(answering) = answering() else {
        return;
    };
    let mut seen = BTreeSet::new();
    for driver in real::drivers() {
        let version = driver.version.parse().unwrap();
        let real = driver.functions().unwrap();
        for name in &answering {
            let (simulated, real) = (exists(version, name), real.contains(name));
            assert_eq!(simulated, real, "{name} with driver {}", driver.version);
        }
        seen.extend(answering.intersection(&real).cloned());
        let with = answering.intersection(&real).count();
        println!(
            "{}: {with} of {} functions, in both",
            driver.version,
            answering.len()
        );
    }
    let never: Vec<&String> = answering.difference(&seen).collect();
    println!("in no library that is at hand: {never:?}");
}

const NODES: [&str; 3] = [
    "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '4x1g.5gb'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n",
    "[[gpu]]\nmodel = 'T4'\ncount = 4\n",
    "[[gpu]]\nmodel = 'GH200-96GB'\ncount = 4\nnuma_node = 1\n",
];

/// Has everything done that getgpu asks NVML for: one device is used by a program, one has
/// memory in use that no process explains. The functions that were called.
fn calls(sandbox: &Sandbox, has_numa_nodes: bool) -> BTreeSet<String> {
    let uuids = sandbox.uuids();
    let _stranger = sandbox.occupy(&uuids[..1], "--memory 300000000");
    sandbox.faults(&format!(
        "[[memory]]\ndevice = '{}'\nused_mib = 2000\n",
        uuids[1]
    ));
    // The memory of a NUMA node is the system's too, if the driver can say that it is one.
    let numa = sandbox.folder().node().unwrap().gpus[0].numa_node.is_some();
    let (second, free) = if numa && has_numa_nodes {
        ("free", &uuids[1..4])
    } else {
        ("busy", &uuids[2..4])
    };
    let listing = listing::json(sandbox);
    let states = uuids[..4]
        .iter()
        .map(|uuid| &listing::device(&listing, uuid)["state"]);
    assert!(states.eq(["busy", second, "free", "free"]), "{listing}");
    // Memory in use that no process explains is the only thing to report.
    sandbox.ask("--check").exits(i32::from(second == "busy"));
    sandbox.ask("--explain --no-reserve").exits(0);
    sandbox.ask("--min-memory=1G --no-reserve").exits(0);
    // A device whose CPUs are asked for, found by choice and by a name that is looked up:
    // a short one, or one of the form before 470.
    let name = &uuids[2];
    let short = name.len() - usize::from(!name.contains('/'));
    for grant in [None, Some(&name[..short])] {
        let command = sandbox.words("cudawrap --bind -- true");
        let command = match grant {
            Some(grant) => command.visible(grant),
            None => command,
        };
        command.run().exits(0);
    }
    assert_devices(&until_none_is_free(sandbox, &PLAIN), free);
    sandbox.ask("--release-all").exits(0);
    let calls = sandbox.calls().into_iter();
    calls
        .map(|call| call.function)
        .filter(|name| name != "attach")
        .collect()
}

#[test]
fn getgpu_does_without_what_nvidias_library_of_a_version_lacks() {
    let drivers = real::drivers();
    if drivers.is_empty() {
        return;
    }
    let looked_up = real::looked_up(&Sandbox::new("none").path("bin/getgpu"));
    let (mut called, mut exported) = (BTreeSet::new(), BTreeSet::new());
    for driver in &drivers {
        let real = driver.functions().unwrap();
        let numa = real.contains("nvmlDeviceGetNumaNodeId");
        let mut by_this = BTreeSet::new();
        for gpus in NODES {
            let sandbox = Sandbox::new(&format!("driver = '{}'\n{gpus}", driver.version));
            sandbox.log_calls();
            by_this.extend(calls(&sandbox, numa));
        }
        assert!(by_this.is_subset(&real), "{}: {by_this:?}", driver.version);
        println!(
            "{}: {} functions are looked up, {} are missing; {} are called, none is missing",
            driver.version,
            looked_up.len(),
            looked_up.difference(&real).count(),
            by_this.len()
        );
        called.extend(by_this);
        exported.extend(real);
    }
    assert!(
        called.is_subset(&looked_up) && called.len() > 20,
        "{called:?}"
    );
    let named = named_in_the_code(&looked_up);
    // Some are in the headers of drivers that are newer than all of these.
    let newest = drivers.iter().map(|driver| driver.version.parse().unwrap());
    let newest = newest.max().unwrap();
    let known = named.iter().filter(|name| exists(newest, name));
    let known: BTreeSet<String> = known.cloned().collect();
    assert!(known.len() > 10 && known.is_subset(&exported), "{named:?}");
    let not_called: Vec<&String> = named.difference(&called).collect();
    println!(
        "{} are called in all; named in raw.rs and not called: {not_called:?}",
        called.len()
    );
}

/// The functions that the code calls past nvml-wrapper.
fn named_in_the_code(looked_up: &BTreeSet<String>) -> BTreeSet<String> {
    let code = concat!(
        include_str!("../../../../common/nvml/src/raw.rs"),
        include_str!("../../../../common/nvml/src/raw/links.rs")
    );
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| looked_up.contains(*word))
        .map(str::to_owned)
        .collect()
}

/// What nvml-wrapper looks up is what the simulated library exports, so that a program
/// pays for it what it pays with NVIDIA's.
#[test]
fn the_simulated_library_has_every_function_that_is_looked_up() {
    let Some(simulated) = real::functions(&sim_nvml::install::built().unwrap()) else {
        return;
    };
    let looked_up = real::looked_up(&Sandbox::new("none").path("bin/getgpu"));
    assert!(looked_up.len() > 300, "{}", looked_up.len());
    let missing: Vec<&String> = looked_up.difference(&simulated).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
