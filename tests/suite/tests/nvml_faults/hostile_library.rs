//! A library that writes anything into the room that it is given: texts without an end,
//! numbers and counts without sense. `make asan` runs this with AddressSanitizer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use getgpu_tests::all_at_once;
use harness::{Outcome, Sandbox, size};

/// MIG devices and whole GPUs; one device is used by a program.
const NODE: &str = "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '3x1g.5gb'\n\
    [[gpu]]\nmodel = 'A100-SXM4-40GB'\n";

/// The node with a driver whose lists have entries of 24 bytes, and with one of 32 bytes.
fn nodes() -> [Sandbox; 2] {
    ["550.54.15", "535.54.03"].map(|driver| Sandbox::new(&format!("driver = '{driver}'\n{NODE}")))
}

/// Commands that ask NVML for everything that is ever asked for.
const COMMANDS: [&[&str]; 8] = [
    &["getgpu", "--no-reserve"],
    &["getgpu", "--type=any", "-n2", "--no-reserve"],
    &["getgpu", "--list", "--json"],
    &["getgpu", "--explain", "--no-reserve"],
    &["getgpu", "--min-memory=1G", "--policy=pack", "--no-reserve"],
    &["getgpu", "--check"],
    &["cudawrap", "--bind", "--", "true"],
    &["getgpu", "0", "--no-reserve"],
];

fn run(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    sandbox.command(words[0]).args(&words[1..]).run()
}

/// The functions that these commands call.
fn functions() -> Vec<String> {
    let [sandbox, _] = nodes();
    sandbox.log_calls();
    let _program = sandbox.occupy(&sandbox.uuids()[..1], "--memory 1000");
    for words in COMMANDS {
        run(&sandbox, words);
    }
    // A name that has to be looked up.
    let short = sandbox.uuids()[1][..20].to_owned();
    let named = sandbox.words("cudawrap --bind -- true");
    named.visible(short).run();
    let calls = sandbox.calls().into_iter();
    let names = calls.map(|call| call.function);
    let asks = |name: &String| !["attach", "nvmlInit_v2", "nvmlShutdown"].contains(&name.as_str());
    let names: BTreeSet<String> = names.filter(asks).collect();
    assert!(names.len() >= 15, "{names:?}");
    names.into_iter().collect()
}

/// One line that says what is wrong, a documented status, and no device that does not
/// exist.
fn assert_sane(sandbox: &Sandbox, words: &[&str], outcome: &Outcome, what: &str) {
    let statuses: &[i32] = match words[0] {
        "cudawrap" => &[0, 75, 125],
        _ => &[0, 1, 3],
    };
    let status = outcome.code();
    assert!(
        status.is_some_and(|code| statuses.contains(&code)),
        "{what}: {outcome:#?}"
    );
    for word in [
        "panicked",
        "the process that asks NVML failed",
        "AddressSanitizer",
    ] {
        assert!(!outcome.stderr.contains(word), "{what}: {outcome:#?}");
    }
    let listing = words.contains(&"--json");
    // JSON escapes what may not be printed.
    let plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    assert!(listing || plain(&outcome.stdout), "{what}: {outcome:#?}");
    assert!(plain(&outcome.stderr), "{what}: {outcome:#?}");
    if listing && status == Some(0) {
        let listing: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        // Texts end where the room for them does.
        let count = |text: &serde_json::Value| text.as_str().map_or(0, |text| text.chars().count());
        let fits = |text: &serde_json::Value, room: usize| count(text) <= room;
        let mut devices = getgpu_tests::listing::devices(&listing).iter();
        let texts = devices.all(|d| fits(&d["pci_bus_id"], 32) && fits(&d["gpu_name"], 96));
        assert!(texts && fits(&listing["driver"], 80), "{what}: {listing}");
    } else if words.contains(&"--no-reserve") && status == Some(0) {
        // A GPU whose MIG mode is noise may be said to be out of it.
        let node = sandbox.folder().node().unwrap();
        let gpus = node.gpus.iter().map(|gpu| gpu.uuid.clone());
        let known: BTreeSet<String> = node.device_uuids().into_iter().chain(gpus).collect();
        let mut printed = outcome.stdout.trim_end().split(',');
        let known = printed.all(|uuid| known.contains(uuid));
        assert!(known, "{what}: {outcome:#?}");
    }
}

#[test]
fn a_library_that_writes_noise_into_its_room_is_survived() {
    let mut rules = Vec::new();
    for function in functions().iter().map(String::as_str).chain(["*"]) {
        rules.push(format!("function = '{function}'\ndoes = 'unterminated'\n"));
        for seed in 0..size(2, 30) {
            rules.push(format!(
                "function = '{function}'\ndoes = 'noise'\nseed = {seed}\n"
            ));
        }
    }
    let ran = AtomicUsize::new(0);
    all_at_once(rules.chunks(rules.len().div_ceil(4)), |rules| {
        let nodes = nodes();
        let _programs = nodes
            .each_ref()
            .map(|sandbox| sandbox.occupy(&sandbox.uuids()[..1], "--memory 1000"));
        for (number, rule) in rules.iter().enumerate() {
            let sandbox = &nodes[number % 2];
            let short = sandbox.uuids()[1][..20].to_owned();
            // Lists that outgrow any room, and lists that end.
            let grow = if number % 3 == 0 { 40 } else { 0 };
            // The first answer to this is nvml-wrapper's, which reads it at init up to a NUL.
            let version =
                "[[rule]]\nfunction = 'nvmlSystemGetDriverVersion'\nfirst = 1\nreturns = 0\n";
            sandbox.faults(&format!(
                "processes_grow = {grow}\n{version}[[rule]]\n{rule}"
            ));
            for words in COMMANDS {
                assert_sane(sandbox, words, &run(sandbox, words), rule);
            }
            let words = ["cudawrap", "--bind", "--", "true"];
            let named = sandbox.command(words[0]).args(&words[1..]);
            assert_sane(sandbox, &words, &named.visible(&short).run(), rule);
            ran.fetch_add(COMMANDS.len() + 1, Ordering::Relaxed);
        }
    });
    let ran = ran.into_inner();
    println!(
        "{ran} calls with {} kinds of noise: one line each, no device that does not exist",
        rules.len()
    );
}
