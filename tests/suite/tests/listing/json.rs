//! `--list --json` and `--count-free`: names, states and numbers for programs.

use getgpu_tests::{OTHER, listing, somebody};
use harness::Sandbox;
use serde_json::Value;

#[test]
fn schema_1_has_these_names() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    sandbox.getgpu(["2"]).run().exits(0);
    let _busy = sandbox.occupy(&uuids[1..2], "--run forever");
    let listing = listing::json(&sandbox);
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    assert_eq!(
        names(&listing),
        sorted("schema host time driver lock lock_shared waiting queue devices problems")
    );
    let fields = "index uuid gpu gpu_uuid gpu_name pci_bus_id mig gpu_instance compute_instance mig_index profile memory_total memory_used \
                  allowed usable excluded state share_used reason empty empty_since holders processes";
    assert_eq!(names(&listing["devices"][0]), sorted(fields));
    assert_eq!(
        (&listing["schema"], &listing["driver"]),
        (&1.into(), &"550.54.15".into())
    );
    let reserved = listing::device(&listing, &uuids[2]);
    assert_eq!(
        names(&reserved["holders"][0]),
        sorted("kind uid user pid program share since until hold tag job task")
    );
    assert_eq!(
        (&reserved["state"], &reserved["holders"][0]["kind"]),
        (&"reserved".into(), &"reservation".into())
    );
    assert_eq!(
        reserved["holders"][0]["pid"],
        std::process::id(),
        "a reservation is shown with its caller"
    );
    let busy = listing::device(&listing, &uuids[1]);
    assert_eq!(names(&busy["processes"][0]), sorted("pid user name memory"));
    assert_eq!(
        (&busy["state"], &busy["processes"][0]["name"]),
        (&"busy".into(), &"sim-cuda".into())
    );
    let free = listing::device(&listing, &uuids[0]);
    assert_eq!(
        (&free["state"], &free["reason"], &free["index"]),
        (&"free".into(), &Value::Null, &0.into())
    );
    assert_eq!(
        (&free["profile"], &free["gpu_instance"], &free["mig"]),
        (&"1g.5gb".into(), &7.into(), &true.into())
    );
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
        let _held = sandbox.getgpu(["--hold", "--tag", "a"]).run();
        let _shared = sandbox.getgpu(["--share", "1/2", "--for", "600"]).run();
        let uuids = sandbox.uuids();
        let _busy = uuids
            .last()
            .map(|last| sandbox.occupy(std::slice::from_ref(last), ""));
        let waiter = sandbox
            .getgpu(["--wait", "--count", "64", "--no-reserve"])
            .spawn();
        let listing = listing::json(&sandbox);
        drop(waiter);
        if let Err(error) = schemas.validate(&listing, compiled) {
            panic!("{node}: {error:#}\n{listing:#}");
        }
        assert_described(&listing, &schema, "");
        sandbox.getgpu(["--release-all"]).run();
    }
}

#[test]
fn a_lease_is_shown_with_its_program_to_every_user() {
    let sandbox = Sandbox::new("mig4");
    let program = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let outcome = somebody(&sandbox, &["--list", "--json"]).run();
    let listing: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let leased: Vec<&Value> = listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|d| d["state"] == "leased")
        .collect();
    assert_eq!(leased.len(), 1);
    let holder = &leased[0]["holders"][0];
    assert_eq!(
        (&holder["kind"], &holder["program"]),
        (&"lease".into(), &"sim-cuda".into())
    );
    assert_eq!(
        (&holder["pid"], &holder["share"]),
        (&program.pid().into(), &1.0.into())
    );
    assert_eq!(holder["uid"], nix::unistd::geteuid().as_raw());
    assert!(holder["since"].as_u64().unwrap() > 1_600_000_000);
    assert_eq!(leased[0]["share_used"], 1.0);
}

#[test]
fn unreported_devices_are_unknown_and_sick_ones_are_problems() {
    let sandbox = Sandbox::new("a100x8");
    let uuids = sandbox.uuids();
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndevice = '{}'\nreturns = 4\n\
         [[rule]]\nfunction = 'nvmlDeviceGetHandleByIndex_v2'\ngpu = 3\nreturns = 15\n",
        uuids[0]
    ));
    let listing = listing::json(&sandbox);
    assert_eq!(listing::device(&listing, &uuids[0])["state"], "unknown");
    assert_eq!(listing["devices"].as_array().unwrap().len(), 49);
    let problems = listing["problems"].as_array().unwrap();
    assert!(
        problems
            .iter()
            .any(|p| p.as_str().unwrap().starts_with("GPU 3: ")),
        "{problems:?}"
    );
    sandbox
        .getgpu(["--count-free"])
        .run()
        .exits(0)
        .prints("48\n");
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
    assert_eq!(
        [index(0), index(1), index(2), index(3)],
        [Value::Null, 0.into(), Value::Null, 1.into()]
    );
    assert_eq!(listing::device(&listing, &uuids[1])["excluded"], true);
    assert_eq!(listing::device(&listing, &uuids[0])["allowed"], false);
    sandbox.getgpu(["--count-free"]).run().prints("1\n");
}

#[test]
fn two_users_see_each_others_reservations() {
    let sandbox = Sandbox::new("mig4");
    let given = somebody(&sandbox, &["--for=60"]).run().line();
    let holder = listing::device(&listing::json(&sandbox), &given)["holders"][0].clone();
    let uid = if nix::unistd::geteuid().is_root() {
        OTHER
    } else {
        nix::unistd::geteuid().as_raw()
    };
    assert_eq!(
        (&holder["kind"], &holder["uid"]),
        (&"reservation".into(), &uid.into())
    );
}

#[test]
fn the_first_state_that_applies_is_shown_and_only_free_devices_are_counted() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    sandbox.getgpu(["0"]).run().exits(0);
    sandbox.getgpu(["1"]).run().exits(0);
    let _programs = sandbox.occupy(&[uuids[1].clone(), uuids[2].clone()], "");
    let listing = listing::json(&sandbox);
    let states: Vec<&str> = uuids
        .iter()
        .map(|uuid| listing::device(&listing, uuid)["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["reserved", "reserved", "busy", "free"],
        "reserved comes before busy"
    );
    sandbox
        .getgpu(["--count-free"])
        .run()
        .exits(0)
        .prints("1\n");
    somebody(&sandbox, &["--count-free"])
        .run()
        .exits(0)
        .prints("1\n");
    sandbox
        .getgpu(["--count-free"])
        .visible(&uuids[2])
        .run()
        .exits(0)
        .prints("0\n");
}
