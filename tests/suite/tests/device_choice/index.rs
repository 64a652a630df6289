//! `getgpu INDEX` prints the device with that number, in use or not, and reserves it if it
//! is free; then how a CUDA index is printed. Numbers count within the pool, so
//! a grant or a list shifts them.

use getgpu_tests::own_user;
use harness::Sandbox;

#[test]
fn an_index_is_the_place_in_the_order_of_the_node() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    for (kind, places) in [("auto", 0..3), ("mig", 0..3), ("gpu", 3..5), ("any", 0..5)] {
        for (index, uuid) in uuids[places].iter().enumerate() {
            let line = sandbox.line(&format!("--no-reserve --type {kind} {index}"));
            assert_eq!(line, *uuid, "{kind} {index}");
        }
    }
}

#[test]
fn a_free_device_is_reserved_and_one_in_use_only_printed() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    assert_eq!(sandbox.line("3"), uuids[3]);
    assert_eq!(sandbox.holders().len(), 1);
    assert!(sandbox.holders()[0].words.contains(&uuids[3]));
    let not_reserved = |index: &str, why: &str| {
        let outcome = sandbox.getgpu([index]).run();
        let device: usize = index.parse().unwrap();
        let what = format!("{} (GPU 0 MIG device {index})", uuids[device]);
        outcome.exits(0).prints(&format!("{}\n", uuids[device]));
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        outcome.mentions(&format!("getgpu: not reserved: {what}: {why}"));
        assert_eq!(sandbox.holders().len(), 1, "and not twice");
        sandbox.getgpu(["-q", index]).run().exits(0).says(&[]);
        let held = sandbox.getgpu(["--hold", index]).run();
        held.refuses(1, &format!("getgpu: not held: {what}: {why}"));
    };
    let user = own_user();
    let holder = format!("reserved for {user} (pid {}, ", std::process::id());
    not_reserved("3", &holder);
    let _program = sandbox.occupy(&uuids[4..5], "");
    not_reserved("4", "busy: ");
    assert_eq!(sandbox.line("--no-reserve 5"), uuids[5]);
    assert_eq!(sandbox.holders().len(), 1);
}

#[test]
fn an_index_counts_within_grants_and_lists() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let grant = format!("{},{}", uuids[5], uuids[2]);
    let in_grant = |index| sandbox.ask_within(&grant, &format!("--no-reserve {index}"));
    assert_eq!(in_grant(0).line(), uuids[5], "the grant's order");
    assert_eq!(in_grant(1).line(), uuids[2]);
    let line = "no device 2: there are 2 devices, 0 to 1, within CUDA_VISIBLE_DEVICES";
    let hint = "hint: unset CUDA_VISIBLE_DEVICES, or use --ignore-grant";
    in_grant(2).refuses(2, line).mentions(hint);
    sandbox.set_settings(&format!(
        "allowed = ['{}', '{}', '{}']\nexcluded = ['{}']",
        uuids[6], uuids[1], uuids[4], uuids[4]
    ));
    // Draining a device moves no other, and its own index is refused.
    assert_eq!(sandbox.line("--no-reserve 2"), uuids[6]);
    let line = format!("device 1: {}: excluded by the administrator", uuids[4]);
    sandbox.ask("1").refuses(2, &line);
    let line = "no device 3: there are 3 devices, 0 to 2";
    sandbox.ask("3").refuses(2, line);
    sandbox.assert_clean();
}

#[test]
fn an_index_of_the_only_device_in_ones_grant_prints_it_again() {
    let sandbox = Sandbox::new("a100x1");
    // A second reservation inside the first would take the device from the program.
    #[rustfmt::skip]
    let cases = [
        ("export CUDA_VISIBLE_DEVICES=$(getgpu --hold)", "getgpu --release-all"),
        ("export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold)", ""),
    ];
    for (around, end) in cases {
        let script = format!(
            "{around}; echo $CUDA_VISIBLE_DEVICES; getgpu 0; getgpu --no-reserve 0; getgpu --hold 0; \
             getgpu 0; cudawrap -- sh -c 'getgpu 0; echo $CUDA_VISIBLE_DEVICES'; {end}"
        );
        let outcome = sandbox.shell("bash", &script).run();
        let lines: Vec<&str> = outcome.exits(0).says(&[]).stdout.lines().collect();
        assert_eq!(lines, [lines[0]; 7], "{outcome:#?}");
        sandbox.assert_clean();
    }
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); getgpu 1";
    let line = "no device 1: there is 1 device, 0, within CUDA_VISIBLE_DEVICES";
    let outcome = sandbox.shell("bash", script).run();
    outcome.refuses(2, line);
}

#[test]
fn a_share_is_exported_with_framework_variables() {
    let sandbox = Sandbox::new("gpus4");
    let share = |more: &str| {
        let script = format!("{more} getgpu --share 1/4 --format task --no-reserve");
        sandbox.shell("sh", &script).run().says(&[]).output()
    };
    let lines = share("");
    let (device, others) = lines.split_once('\n').unwrap();
    assert!(device.starts_with("export CUDA_VISIBLE_DEVICES=GPU-"));
    let told =
        "export TF_FORCE_GPU_ALLOW_GROWTH=true\nexport XLA_PYTHON_CLIENT_MEM_FRACTION=0.225\n";
    assert_eq!(others, told);
    let set = share("XLA_PYTHON_CLIENT_MEM_FRACTION=0.1 TF_FORCE_GPU_ALLOW_GROWTH=false");
    assert_eq!(set.lines().count(), 1, "what is set stays: {set}");
    sandbox.set_settings("framework_memory = false");
    assert_eq!(share("").lines().count(), 1);
}

#[test]
fn a_cuda_index_counts_all_gpus_and_never_names_a_mig_device() {
    let sandbox = Sandbox::new("mixed");
    assert_eq!(sandbox.line("--no-reserve --format=index 0"), "2");
    assert_eq!(sandbox.line("--no-reserve --format=index 1"), "3");
    let line = sandbox.line("--no-reserve --format=index");
    assert!(line == "2" || line == "3");
    let mig = sandbox.ask("--format=index --type=mig");
    mig.refuses(2, "--format index");
    let unknown = sandbox.ask("--format=yaml");
    unknown.refuses(2, "not one of uuid, index, env");
    let none = Sandbox::new("a100x1").ask("--format=index");
    none.refuses(3, "no device of the request exists here");
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
        let again = sandbox.ask_within(&held, "--format=index");
        for outcome in [tagged, again] {
            match index {
                Some(index) => _ = outcome.answers(index),
                None => _ = outcome.refuses(3, "only a whole GPU has a CUDA index"),
            }
        }
    }
}

#[test]
fn help_and_version_say_so_on_stdout_and_ask_nothing() {
    let sandbox = Sandbox::builder("a100x1").without_library().build();
    for option in ["--help", "-h", "--version", "-V"] {
        let line = format!("GETGPU_CONFIG=/nonexistent getgpu {option}");
        let outcome = sandbox.words(&line).run();
        outcome.exits(0).says(&[]).shows("getgpu");
        let mut lines = outcome.stdout.lines();
        assert!(lines.all(|line| line.len() <= 120), "{outcome:#?}");
    }
    sandbox.ask("").exits(3);
}
