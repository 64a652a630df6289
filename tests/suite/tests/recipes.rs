//! Recipes of the README that no other test runs: wrapped programs under build tools that start many at a time.
//! Shells, tmux, parallel, xargs, Python, Slurm and MPI have tests of their own.
#![allow(clippy::unwrap_used, reason = "a panic in a test is a failed test with a place")]

use std::time::Duration;

use getgpu_tests::wrapped::wrap;
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn make_with_more_jobs_than_devices_waits_for_one_each() {
    if skip::lacks(&[Need::Tool("make")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let names: Vec<String> = (0..12).map(|number| format!("test{number}")).collect();
    let rule = format!("{0}:\n\t{1} --run 0.1 --tag $@\n.PHONY: {0}\n", names.join(" "), app.display());
    let file = sandbox.file("work/Makefile", &format!("check: {}\n{rule}", names.join(" ")), 0o644);
    let words = ["-s", "-j12", "-f", file.to_str().unwrap(), "check"];
    let command = sandbox.command("make").args(words).env("CUDAWRAP_WAIT", "10m").limit(Duration::from_secs(60));
    let outcome = command.run();
    assert_eq!(outcome.exits(0).stdout.matches("RUN MIG-").count(), 12, "{outcome:#?}");
    sandbox.assert_exclusive();
    assert_eq!(sandbox.folder().runs().unwrap().len(), 12);
    sandbox.assert_clean(Duration::from_secs(2));
}
