//! create-cudawrap with the real cudawrap: a path is wrapped, upgraded and unwrapped while
//! it is run, and always runs. An ordinary user does it where possible, so that nothing is
//! recorded outside the sandbox.

use std::os::unix::fs::PermissionsExt;

use crate::wrapping_site::Site;

#[test]
fn an_upgrade_over_the_link_is_mended_while_the_program_runs() {
    let site = Site::new("mig4");
    site.create(&["-q"]).run().exits(0);
    let running = site.start();
    site.sandbox.until_running(1);
    let copy = format!(
        "cp {} opt/new && mv opt/new opt/app",
        site.sandbox.path("bin/probe").display()
    );
    let script = format!("cd {} && {copy}", site.sandbox.root().display());
    site.user(site.sandbox.shell("sh", &script)).run().exits(0);
    let status = site.create(&["--status"]).run();
    status.exits(1).shows("upgraded over");
    site.create(&["--repair", "-q"]).run().exits(0);
    assert_eq!(site.names(), ["CUDAWRAP_app", "app", "app.replaced-1"]);
    let outcome = site.user(site.sandbox.command(&site.app)).run();
    outcome.exits(0).shows("env CUDA_VISIBLE_DEVICES MIG-");
    drop(running);
}

#[test]
fn a_cudawrap_that_replaces_an_older_script_serves_its_links() {
    let site = Site::new("mig4");
    let old = site
        .sandbox
        .file("share/gpus/cudawrap", "#!/bin/sh\nexit 1\n", 0o755);
    std::fs::rename(&site.app, site.app.with_file_name("CUDAWRAP_app")).unwrap();
    std::os::unix::fs::symlink(&old, &site.app).unwrap();
    let copy = format!(
        "cp --remove-destination {} {}",
        site.sandbox.path("bin/cudawrap").display(),
        old.display()
    );
    site.sandbox.shell("sh", &copy).run().exits(0);
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o555)).unwrap();
    site.sandbox
        .set_settings(&format!("getgpu = {:?}", site.sandbox.path("bin/getgpu")));
    let program = site.start();
    site.sandbox.until_running(1);
    assert!(site.sandbox.locked(), "leased");
    drop(program);
    site.create(&["--status"]).run().exits(0);
}
