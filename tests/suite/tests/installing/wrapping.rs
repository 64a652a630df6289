//! create-cudawrap with the real cudawrap: a path is wrapped, upgraded and unwrapped while
//! it is run, and always runs. An ordinary user does it where possible, so that nothing is
//! recorded outside the sandbox.

use crate::wrapping_site::Site;

#[test]
fn an_upgrade_over_the_link_is_mended_while_the_program_runs() {
    let site = Site::new("mig4");
    site.create(&["-q"]).run().exits(0);
    let running = site.start();
    site.sandbox.until_running(1);
    let script = "cp ../bin/probe ../opt/new && mv ../opt/new ../opt/app";
    site.user(site.sandbox.shell("sh", script)).run().exits(0);
    let status = site.create(&["--status"]).run();
    status.exits(1).shows("upgraded over");
    site.create(&["--repair", "-q"]).run().exits(0);
    assert_eq!(site.names(), ["CUDAWRAP_app", "app", "app.replaced-1"]);
    let outcome = site.user(site.sandbox.command(&site.app)).run();
    outcome.exits(0).shows("env CUDA_VISIBLE_DEVICES MIG-");
    drop(running);
}
