//! `getgpu INDEX` prints the device with that number, in use or not, and reserves it if it
//! is free; then the forms in which a device is printed. Numbers count within the pool, so
//! a grant or a list shifts them.

use std::time::Duration;

use getgpu_tests::PLAIN;
use harness::Sandbox;

#[test]
fn an_index_is_the_place_in_the_order_of_the_node() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    for (kind, places) in [("auto", 0..3), ("mig", 0..3), ("gpu", 3..5), ("any", 0..5)] {
        for (index, uuid) in uuids[places].iter().enumerate() {
            let text = index.to_string();
            assert_eq!(
                sandbox
                    .getgpu(["--no-reserve", "--type", kind, &text])
                    .run()
                    .line(),
                *uuid,
                "{kind} {index}"
            );
        }
    }
}

#[test]
fn a_free_device_is_reserved_and_one_in_use_is_printed_all_the_same() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    assert_eq!(sandbox.getgpu(["3"]).run().line(), uuids[3]);
    assert_eq!(sandbox.holders().len(), 1);
    assert!(sandbox.holders()[0].words.contains(&uuids[3]));
    let not_reserved = |index: &str, why: &str| {
        let outcome = sandbox.getgpu([index]).run();
        let device: usize = index.parse().unwrap();
        outcome.exits(0).prints(&format!("{}\n", uuids[device]));
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        outcome.mentions(&format!(
            "getgpu: not reserved: {} (GPU 0 MIG device {index}): {why}",
            uuids[device]
        ));
        assert_eq!(sandbox.holders().len(), 1, "and not twice");
        sandbox.getgpu(["-q", index]).run().exits(0).says(&[]);
        let held = sandbox.getgpu(["--hold", index]).run();
        held.exits(1).prints("").mentions(&format!(
            "getgpu: not held: {} (GPU 0 MIG device {index}): {why}",
            uuids[device]
        ));
    };
    let user = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap()
        .stdout;
    let user = String::from_utf8(user).unwrap();
    not_reserved(
        "3",
        &format!("reserved for {} (pid {}, ", user.trim(), std::process::id()),
    );
    let _program = sandbox.occupy(&uuids[4..5], "");
    not_reserved("4", "busy: ");
    assert_eq!(sandbox.getgpu(["--no-reserve", "5"]).run().line(), uuids[5]);
    assert_eq!(sandbox.holders().len(), 1);
}

#[test]
fn an_index_counts_within_grants_and_lists() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let grant = format!("{},{}", uuids[5], uuids[2]);
    let in_grant = |index: &str| {
        sandbox
            .getgpu(["--no-reserve", index])
            .visible(&grant)
            .run()
    };
    assert_eq!(
        in_grant("0").line(),
        uuids[2],
        "the node's order, not the grant's"
    );
    assert_eq!(in_grant("1").line(), uuids[5]);
    in_grant("2")
        .refuses(
            "getgpu",
            2,
            "no device 2: there are 2 devices, 0 to 1, within CUDA_VISIBLE_DEVICES",
        )
        .mentions("hint: unset CUDA_VISIBLE_DEVICES, or use --ignore-grant");
    sandbox.set_settings(&format!(
        "allowed = ['{}', '{}', '{}']\nexcluded = ['{}']",
        uuids[6], uuids[1], uuids[4], uuids[4]
    ));
    // Draining a device moves no other, and its own index is refused.
    assert_eq!(sandbox.getgpu(["--no-reserve", "2"]).run().line(), uuids[6]);
    let line = format!(
        "getgpu: device 1: {}: excluded by the administrator",
        uuids[4]
    );
    sandbox.getgpu(["1"]).run().refuses("getgpu", 2, &line);
    sandbox
        .getgpu(["3"])
        .run()
        .refuses("getgpu", 2, "no device 3");
}

#[test]
fn an_index_of_the_only_device_of_ones_own_grant_prints_it_again() {
    let sandbox = Sandbox::new("a100x1");
    // A second reservation inside the first would take the device from the program.
    for (around, end) in [
        (
            "export CUDA_VISIBLE_DEVICES=$(getgpu --hold)",
            "getgpu --release-all",
        ),
        (
            "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold)",
            "",
        ),
    ] {
        let script = format!(
            "{around}; echo $CUDA_VISIBLE_DEVICES; getgpu 0; getgpu --no-reserve 0; getgpu --hold 0; \
             getgpu 0; cudawrap -- sh -c 'getgpu 0; echo $CUDA_VISIBLE_DEVICES'; {end}"
        );
        let outcome = sandbox.shell("bash", &script).run();
        let lines: Vec<&str> = outcome.exits(0).says(&[]).stdout.lines().collect();
        assert_eq!(lines, [lines[0]; 7], "{outcome:#?}");
        sandbox.assert_clean(Duration::from_secs(6));
    }
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); getgpu 1";
    sandbox.shell("bash", script).run().refuses(
        "getgpu",
        2,
        "no device 1: there is 1 device, 0, within CUDA_VISIBLE_DEVICES",
    );
}

#[test]
fn a_wrong_index_is_refused_and_nothing_is_reserved() {
    let sandbox = Sandbox::new("a100x1");
    sandbox
        .getgpu(["99"])
        .run()
        .refuses("getgpu", 2, "no device 99: there are 7 devices, 0 to 6");
    sandbox
        .getgpu(["7"])
        .run()
        .refuses("getgpu", 2, "no device 7");
    for word in [
        "-1",
        "x",
        "1.0",
        "0x1",
        "",
        " 1",
        "99999999999999999999999",
        "MIG-1",
    ] {
        let refused = sandbox.getgpu([word]).run();
        refused.exits(2).prints("");
        assert!(
            refused
                .stderr
                .lines()
                .all(|line| line.starts_with("getgpu: ")),
            "{refused:#?}"
        );
    }
    sandbox.getgpu(["1", "2"]).run().exits(2).prints("");
    for two in [
        ["1", "--list"],
        ["1", "--count-free"],
        ["1", "--release-all"],
    ] {
        sandbox.getgpu(two).run().exits(2).prints("");
    }
    sandbox.assert_clean(Duration::ZERO);
    Sandbox::new("h200x1").getgpu(["1"]).run().refuses(
        "getgpu",
        2,
        "no device 1: there is 1 device, 0",
    );
}

#[test]
fn a_time_is_never_taken_for_an_index() {
    let sandbox = Sandbox::new("a100x1");
    let _programs = sandbox.occupy(&sandbox.uuids(), "");
    // Device 1 exists: were the 1 its index, it would be printed.
    for words in [["-w", "1"], ["--wait=1", "--type=mig"]] {
        let outcome = sandbox.getgpu(words).run();
        outcome.prints("");
        assert!(matches!(outcome.code(), Some(1 | 2)), "{outcome:#?}");
    }
    for words in [["1", "-w", "1"], ["-w", "1", "1"], ["--wait", "1", "-q"]] {
        sandbox.getgpu(words).run().exits(2).prints("");
    }
}

#[test]
fn a_share_is_exported_with_framework_variables() {
    let sandbox = Sandbox::new("gpus4");
    let share = |more: &str| {
        let script = format!("{more} getgpu --share 1/4 --format task --no-reserve");
        sandbox
            .shell("sh", &script)
            .run()
            .exits(0)
            .says(&[])
            .stdout
            .clone()
    };
    let lines = share("");
    let lines: Vec<&str> = lines.lines().collect();
    assert!(
        lines[0].starts_with("export CUDA_VISIBLE_DEVICES=GPU-"),
        "{lines:?}"
    );
    assert_eq!(
        lines[1..],
        [
            "export TF_FORCE_GPU_ALLOW_GROWTH=true",
            "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.225"
        ]
    );
    let set = share("XLA_PYTHON_CLIENT_MEM_FRACTION=0.1 TF_FORCE_GPU_ALLOW_GROWTH=false");
    assert_eq!(set.lines().count(), 1, "what is set stays: {set}");
    sandbox.set_settings("framework_memory = false");
    assert_eq!(share("").lines().count(), 1);
}

#[test]
fn answers_are_printed_in_three_forms() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    sandbox
        .getgpu(["--no-reserve", "1"])
        .run()
        .exits(0)
        .prints(&format!("{}\n", uuids[1]))
        .says(&[]);
    let env = sandbox
        .getgpu(["--no-reserve", "--format", "env", "1"])
        .run();
    env.exits(0)
        .prints(&format!("export CUDA_VISIBLE_DEVICES={}\n", uuids[1]));
    sandbox
        .getgpu(["--no-reserve", "--format=index", "1"])
        .run()
        .exits(0)
        .prints("1\n");
    sandbox
        .getgpu(["--no-reserve", "--format=uuid", "1"])
        .run()
        .exits(0)
        .prints(&format!("{}\n", uuids[1]));
    sandbox
        .getgpu(["--format=json"])
        .run()
        .refuses("getgpu", 2, "not one of uuid, index, env");
}

#[test]
fn a_cuda_index_counts_all_gpus_and_never_names_a_mig_device() {
    let sandbox = Sandbox::new("mixed");
    sandbox
        .getgpu(["--no-reserve", "--format=index", "0"])
        .run()
        .exits(0)
        .prints("2\n");
    sandbox
        .getgpu(["--no-reserve", "--format=index", "1"])
        .run()
        .exits(0)
        .prints("3\n");
    let line = sandbox
        .getgpu(["--no-reserve", "--format=index"])
        .run()
        .line();
    assert!(line == "2" || line == "3");
    sandbox
        .getgpu(["--format=index", "--type=mig"])
        .run()
        .refuses("getgpu", 2, "--format index");
    Sandbox::new("a100x1")
        .getgpu(["--format=index"])
        .run()
        .refuses("getgpu", 3, "no device of the request exists here");
}

#[test]
fn a_uuid_never_stands_in_the_place_of_a_cuda_index() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    for (kind, index) in [("mig", None), ("gpu", Some("2\n")), ("gpu", Some("3\n"))] {
        let tag = format!("t{}", index.unwrap_or("0").trim());
        let hold = ["--hold", "--type", kind, "--policy", "first", "--tag", &tag];
        let held = sandbox.getgpu(hold).run().line();
        assert!(uuids.contains(&held));
        let tagged = sandbox.getgpu(["--tag", &tag, "--format=index"]).run();
        let again = sandbox.getgpu(["--format=index"]).visible(&held).run();
        for outcome in [tagged, again] {
            match index {
                Some(index) => _ = outcome.exits(0).prints(index).says(&[]),
                None => _ = outcome.refuses("getgpu", 3, "only a whole GPU has a CUDA index"),
            }
        }
    }
}

#[test]
fn help_and_version_say_so_on_stdout_and_ask_nothing() {
    let sandbox = Sandbox::builder("a100x1").without_library().build();
    for option in ["--help", "-h", "--version", "-V"] {
        let outcome = sandbox
            .getgpu([option])
            .env("GETGPU_CONFIG", "/nonexistent")
            .run();
        outcome.exits(0).says(&[]);
        assert!(
            outcome.stdout.contains("getgpu")
                && outcome.stdout.lines().all(|line| line.len() <= 120),
            "{outcome:#?}"
        );
    }
    for words in [
        &["--nonsense"][..],
        &["--type"],
        &["--hold=x"],
        &["--hold=-1"],
        &["--for=x"],
        &["--json"],
    ] {
        let outcome = sandbox.getgpu(words).run();
        outcome.exits(2).prints("");
        assert!(
            outcome
                .stderr
                .lines()
                .all(|line| line.starts_with("getgpu: ")),
            "{outcome:#?}"
        );
    }
    sandbox.getgpu(PLAIN).run().exits(3);
}
