//! `lease = "first_call"`: a wrapped program that needs no GPU for most of its calls takes its
//! device at its first CUDA call, and none for `gmx -version` or a client.

use std::collections::BTreeSet;

use getgpu_tests::hooked::{VARIABLE, said};
use getgpu_tests::listing;
use getgpu_tests::wrapped::{wrap, wrap_script};
use harness::{Command, Sandbox, wait};

const LATER: &str = "[program.'gmx']\nlease = 'first_call'";

#[test]
fn a_call_without_cuda_runs_on_a_full_node_and_holds_nothing() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "gmx", "cuda");
    wrap(&sandbox, "opt", "app", "cuda");
    let full = sandbox.words("getgpu -q -n 4 --for=600 --tag all").run();
    full.exits(0);
    sandbox
        .words("@/opt/gmx version")
        .run()
        .refuses(75, "no free device");
    sandbox.set_settings(LATER);
    sandbox.words("@/opt/gmx version").run().exits(0).says(&[]);
    sandbox
        .words("@/opt/app version")
        .run()
        .refuses(75, "no free device");
    sandbox.ask("--release all").exits(0);
    let client = sandbox.words("@/opt/gmx version ready=up hold").spawn();
    sandbox.until_file("work/up");
    assert!(!sandbox.locked(), "a client has no device");
    client.kill();
}

#[test]
fn the_first_call_takes_a_device_of_its_own() {
    let sandbox = Sandbox::with("mig4", LATER);
    wrap(&sandbox, "opt", "gmx", "cuda");
    let start = |number: usize| {
        let line = format!("@/opt/gmx ready=up{number} until=go init visible uuid hold");
        sandbox.words(&line).spawn()
    };
    let programs: Vec<_> = (0..4).map(start).collect();
    (0..4).for_each(|number| sandbox.until_file(&format!("work/up{number}")));
    assert_eq!(listing::free_devices(&sandbox), "4");
    sandbox.file("work/go", "", 0o644);
    wait::until("all have one", || listing::free_devices(&sandbox) == "0");
    let mut seen: Vec<String> = programs
        .iter()
        .map(|program| {
            let is_said = || program.stdout().contains("visible MIG-");
            wait::until("it tells its device", is_said);
            assert_eq!(program.stderr(), "");
            let text = program.stdout();
            let line = text
                .lines()
                .find(|line| line.starts_with("visible "))
                .unwrap();
            line.to_owned()
        })
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
    // One more finds none, as with --auto.
    let none = sandbox.words("@/opt/gmx init visible").run();
    none.mentions("no free device: 4 of 4 in use");
    assert_eq!(said(&none, "visible"), "empty");
}

/// Its table says what it gets, although its interpreter, or a program that it starts, is what
/// calls CUDA.
#[test]
fn the_table_of_a_script_holds_for_what_it_starts() {
    let table = "[program.'train']\nlease = 'first_call'\npolicy = 'last'\nshare = '1/2'";
    let sandbox = Sandbox::with("gpus4", table);
    let last = &sandbox.uuids()[3];
    let script = "#!/bin/sh\ncuda init visible context hold; true\n";
    let started = wrap_script(&sandbox, "opt", "train", script);
    let plain = sandbox.file("work/train", script, 0o755);
    let auto = sandbox.words("cudawrap --auto --").args([plain]);
    for command in [sandbox.command(started), auto] {
        let running = command.spawn();
        wait::until("it has a device", || running.stdout().contains("context"));
        let text = running.stdout();
        assert!(text.contains(&format!("visible {last}")), "{text}");
        let listed = listing::json(&sandbox);
        let holder = &listed["devices"][3]["holders"][0];
        assert_eq!(holder["share"], 0.5, "{listed}");
        let program = holder["pid"].to_string();
        sandbox.words("kill").args([program]).run().exits(0);
        running.wait();
    }
    // What is started by itself below the script has a name of its own.
    let own = sandbox.words("cudawrap --auto -- cuda init context hold");
    let running = own.env("CUDAWRAP_TABLE", "train").spawn();
    wait::until("it has a device", || running.stdout().contains("context"));
    let listed = listing::json(&sandbox);
    let mut devices = listing::devices(&listed).iter();
    let device = devices.find(|device| device["state"] == "leased").unwrap();
    assert_eq!(device["holders"][0]["share"], 1.0, "{listed}");
    running.kill();
}

/// docs/GUARANTEES.md names them.
#[test]
fn a_program_gains_these_variables_and_no_other() {
    let sandbox = Sandbox::new("mig4");
    let script = "#!/bin/sh\nenv\n";
    let plain = sandbox.file("work/plain", script, 0o755);
    let started = wrap_script(&sandbox, "opt", "train", script);
    let names = |command: Command| -> BTreeSet<String> {
        let shown = command.run();
        let lines = shown.exits(0).stdout.lines();
        let names = lines.filter_map(|line| line.split_once('='));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let before = names(sandbox.command(plain));
    for (table, expected) in [
        ("", &["CUDA_VISIBLE_DEVICES"][..]),
        ("lease = 'first_call'", &["CUDA_INJECTION64_PATH"]),
        (
            "lease = 'first_call'\npolicy = 'last'",
            &["CUDAWRAP_TABLE", "CUDA_INJECTION64_PATH"],
        ),
    ] {
        sandbox.set_settings(&format!("[program.'train']\n{table}"));
        let after = names(sandbox.command(&started));
        let gained: Vec<_> = after.difference(&before).collect();
        assert_eq!(gained, expected, "{table}");
    }
}

/// Where libcudawrap.so would give it none, it takes its device at its start.
#[test]
fn it_is_leased_at_the_start_where_nothing_would_come_later() {
    for (settings, variable) in [
        ("auto = 'off'", ""),
        ("auto_except = ['gm?']", ""),
        ("", "/opt/profiler.so"),
        ("lib", ""),
    ] {
        let sandbox = Sandbox::new("mig4");
        wrap(&sandbox, "opt", "gmx", "cuda");
        sandbox.set_settings(LATER);
        if settings == "lib" {
            let library = getgpu_tests::hooked::hook(&sandbox);
            std::fs::remove_file(library).unwrap();
            let beside = sandbox.path("bin/libcudawrap.so");
            let _ = std::fs::remove_file(beside);
        } else {
            sandbox.set_settings(&format!("{settings}\n{LATER}"));
        }
        let program = sandbox.words("@/opt/gmx version ready=up hold");
        let program = match variable {
            "" => program,
            other => program.env(VARIABLE, other),
        };
        let program = program.spawn();
        sandbox.until_file("work/up");
        assert_eq!(listing::free_devices(&sandbox), "3", "{settings}{variable}");
        assert_eq!(program.stderr(), "");
        program.kill();
    }
    // A variable that hides all devices leaves nothing to take.
    let sandbox = Sandbox::with("mig4", LATER);
    wrap(&sandbox, "opt", "gmx", "cuda");
    let hidden = sandbox.words("@/opt/gmx init visible").visible("").run();
    assert_eq!(said(&hidden, "visible"), "empty");
    hidden.says(&[]);
}
