//! `--list --json` and `--count-free`: names, states and numbers for programs.

use getgpu_tests::{listing, somebody};
use harness::Sandbox;
use serde_json::Value;

#[test]
fn a_device_is_listed_with_its_state_and_who_has_it() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    sandbox.ask("2").exits(0);
    // Reserved comes before busy.
    let _busy = sandbox.occupy(&uuids[1..3], "");
    assert_eq!(
        listing::states(&sandbox)[1..4],
        ["busy", "reserved", "free"]
    );
    for (uuid, count) in [(&uuids[0], "1\n"), (&uuids[1], "0\n")] {
        sandbox.ask_within(uuid, "--count-free").answers(count);
    }
    let theirs = somebody(&sandbox, &["--count-free"]).run();
    theirs.answers("5\n");
    let listing = listing::json(&sandbox);
    assert_eq!(listing["schema"], 1);
    assert_eq!(listing["driver"], "550.54.15");
    let reserved = listing::device(&listing, &uuids[2]);
    assert_eq!(reserved["state"], "reserved");
    assert_eq!(reserved["holders"][0]["kind"], "reservation");
    // With its caller.
    assert_eq!(reserved["holders"][0]["pid"], std::process::id());
    let busy = listing::device(&listing, &uuids[1]);
    assert_eq!(busy["state"], "busy");
    assert_eq!(busy["processes"][0]["name"], "sim-cuda");
    let free = listing::device(&listing, &uuids[0]);
    #[rustfmt::skip]
    let fields = [
        ("state", "free".into()), ("reason", Value::Null), ("index", 0.into()),
        ("profile", "1g.5gb".into()), ("gpu_instance", 7.into()), ("mig", true.into()),
    ];
    for (name, value) in fields {
        assert_eq!(free[name], value, "{name}");
    }
}

/// The schema that is installed for other people's programs.
const SCHEMA: &str = "../../etc/list.schema.json";

/// Fails unless every name of `value` is described by `schema`.
fn assert_described(value: &Value, schema: &Value, at: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let known = &schema["properties"][name];
                assert!(known.is_object(), "{at}.{name} is not in the schema");
                assert_described(value, known, &format!("{at}.{name}"));
            }
        }
        Value::Array(items) => {
            for item in items {
                assert_described(item, &schema["items"], &format!("{at}[]"));
            }
        }
        _ => {}
    }
}

#[test]
fn every_list_agrees_with_the_schema_that_is_published() {
    let text = std::fs::read_to_string(SCHEMA).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let compiled = compiler.compile(SCHEMA, &mut schemas).unwrap();
    for node in ["a100x1", "mixed", "pre470", "none", "h200x1"] {
        let sandbox = Sandbox::new(node);
        let _held = sandbox.ask("--hold --tag a");
        let _shared = sandbox.ask("--share 1/2 --for 600");
        let uuids = sandbox.uuids();
        let _busy = uuids
            .last()
            .map(|last| sandbox.occupy(std::slice::from_ref(last), ""));
        let waiter = sandbox
            .words("getgpu --wait --count 64 --no-reserve")
            .spawn();
        let listing = listing::json(&sandbox);
        drop(waiter);
        if let Err(error) = schemas.validate(&listing, compiled) {
            panic!("{node}: {error:#}\n{listing:#}");
        }
        assert_described(&listing, &schema, "");
        sandbox.ask("--release-all");
    }
}

#[test]
fn a_lease_is_shown_with_its_program_to_every_user() {
    let sandbox = Sandbox::new("mig4");
    let program = sandbox.leased().spawn();
    sandbox.until_running(1);
    let outcome = somebody(&sandbox, &["--list", "--json"]).run();
    let listing: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let mut devices = listing::devices(&listing).iter();
    let leased = devices.find(|device| device["state"] == "leased").unwrap();
    assert_eq!(leased["share_used"], 1.0);
    let holder = &leased["holders"][0];
    #[rustfmt::skip]
    let fields = [
        ("kind", "lease".into()), ("program", "sim-cuda".into()), ("pid", program.pid().into()),
        ("share", 1.0.into()), ("uid", Value::from(nix::unistd::geteuid().as_raw())),
    ];
    for (name, value) in fields {
        assert_eq!(holder[name], value, "{name}");
    }
    assert!(holder["since"].as_u64().unwrap() > 1_600_000_000);
}

/// A reservation has its job and its task from the environment of its getgpu.
#[test]
fn a_reservation_is_shown_with_the_job_and_the_task_that_it_is_for() {
    let sandbox = Sandbox::new("mig4");
    let step = "SLURM_JOB_ID=71 SLURM_STEP_ID=0 SLURM_PROCID=3";
    let uuid = sandbox
        .shell("sh", &format!("exec env {step} getgpu --hold"))
        .run()
        .exits(0)
        .line();
    let listed = listing::json(&sandbox);
    let mut devices = listing::devices(&listed).iter();
    let reserved = devices.find(|device| device["uuid"] == *uuid).unwrap();
    let holder = &reserved["holders"][0];
    assert_eq!(holder["job"], "71.0", "{holder}");
    assert_eq!(holder["task"], 3, "{holder}");
    let table = sandbox.ask("--list --verbose").output();
    assert!(table.contains("71.0 task 3"), "{table}");
}

#[test]
fn indices_count_allowed_devices_also_excluded_ones() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox.set_settings(&format!(
        "allowed = ['{}', '{}']\nexcluded = ['{}']",
        uuids[1], uuids[3], uuids[1]
    ));
    let listing = listing::json(&sandbox);
    let index = |n: usize| listing::device(&listing, &uuids[n])["index"].clone();
    let expected = [Value::Null, 0.into(), Value::Null, 1.into()];
    assert_eq!([0, 1, 2, 3].map(index), expected);
    assert_eq!(listing::device(&listing, &uuids[1])["excluded"], true);
    assert_eq!(listing::device(&listing, &uuids[0])["allowed"], false);
    sandbox.ask("--count-free").prints("1\n");
}
