//! Wrapped programs under make and ctest, which start many at a time.

use std::time::Duration;

use getgpu_tests::wrapped::wrap;
use harness::skip::{self, Need};
use harness::{Command, Outcome, Sandbox};

/// Twelve programs for four devices.
const PROGRAMS: usize = 12;

/// Runs it as the recipe says, and asserts that each program had a device of its own
/// while it ran.
#[track_caller]
fn each_waits_for_its_device(sandbox: &Sandbox, tool: Command) -> Outcome {
    let outcome = tool
        .env("CUDAWRAP_WAIT", "10m")
        .limit(Duration::from_secs(60))
        .run();
    outcome.exits(0);
    sandbox.assert_exclusive();
    assert_eq!(sandbox.folder().runs().unwrap().len(), PROGRAMS);
    sandbox.assert_clean(Duration::from_secs(2));
    outcome
}

#[test]
fn make_with_more_jobs_than_devices_waits_for_one_each() {
    if skip::lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let names: Vec<String> = (0..PROGRAMS)
        .map(|number| format!("test{number}"))
        .collect();
    let rule = format!(
        "{0}:\n\t{1} --run 0.1 --tag $@\n.PHONY: {0}\n",
        names.join(" "),
        app.display()
    );
    let file = sandbox.file(
        "work/Makefile",
        &format!("check: {}\n{rule}", names.join(" ")),
        0o644,
    );
    let make = sandbox
        .command("make")
        .args(["-s", "-j16", "-f", file.to_str().unwrap(), "check"]);
    let outcome = each_waits_for_its_device(&sandbox, make);
    assert_eq!(
        outcome.stdout.matches("RUN MIG-").count(),
        PROGRAMS,
        "{outcome:#?}"
    );
}

/// CMake itself is not run: `CTestTestfile.cmake` is what it would leave.
#[test]
fn ctest_with_more_jobs_than_devices_waits_for_one_each() {
    if skip::lacks(&[Need::Tool("ctest")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let test = |number| {
        format!(
            "add_test(test{number} {} --run 0.1 --tag test{number})\n",
            app.display()
        )
    };
    let tests: String = (0..PROGRAMS).map(test).collect();
    let file = sandbox.file("work/build/CTestTestfile.cmake", &tests, 0o644);
    let ctest = sandbox
        .command("ctest")
        .args(["-j16"])
        .directory(file.parent().unwrap());
    let outcome = each_waits_for_its_device(&sandbox, ctest);
    let all = format!("100% tests passed, 0 tests failed out of {PROGRAMS}");
    assert!(outcome.stdout.contains(&all), "{outcome:#?}");
}
