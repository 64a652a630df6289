//! create-cudawrap with the real cudawrap: a path is wrapped, upgraded and unwrapped while
//! it is run, and always runs. An ordinary user does it where possible, so that nothing is
//! recorded outside the sandbox.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use harness::{Running, wait};

use crate::wrapping_site::Site;

#[test]
fn wrapped_run_undone_and_the_same_file_is_back() {
    let site = Site::new("mig4");
    let before = std::fs::metadata(&site.app).unwrap();
    site.create(&["-q"]).run().exits(0);
    assert_eq!(site.names(), ["CUDAWRAP_app", "app"]);
    site.create(&[]).run().exits(0);
    assert_eq!(
        site.names(),
        ["CUDAWRAP_app", "app"],
        "a second time changes nothing"
    );
    let running: Vec<Running> = (0..4).map(|_| site.start()).collect();
    site.sandbox.until_running(4);
    site.user(site.sandbox.command(&site.app)).run().exits(75);
    drop(running);
    wait::until("all are free", || site.sandbox.running() == 0);
    site.create(&["--status"]).run().exits(0);
    site.create(&["--undo", "-q"]).run().exits(0);
    assert_eq!(site.names(), ["app"]);
    let after = std::fs::metadata(&site.app).unwrap();
    assert_eq!(
        (before.ino(), before.mode(), before.len()),
        (after.ino(), after.mode(), after.len())
    );
    site.sandbox.assert_exclusive();
}

#[test]
fn the_path_runs_at_every_instant_while_two_wrap_and_undo_it() {
    let site = Site::new("a100x1");
    let app = site.app.display().to_string();
    // Unwrapped and without a choice the program meets others on the first device (99).
    // Anything else is a path that did not run.
    let script = format!(
        "for n in $(seq 400); do {app} >/dev/null; s=$?; case $s in 0|99) ;; *) echo FAILED $s ;; esac; done; echo over"
    );
    let runner = |disable: &str| {
        let command = site
            .user(site.sandbox.shell("bash", &script))
            .env("CUDAWRAP_DISABLE", disable);
        command.limit(Duration::from_secs(120)).spawn()
    };
    let mut runners = vec![runner("0"), runner("1"), runner("1")];
    let mut toggles = 0;
    while !runners.iter_mut().all(Running::is_over) {
        let both = [
            site.create(&["-q"]).spawn(),
            site.create(&["-q", "--undo"]).spawn(),
        ];
        for toggler in both {
            toggler.wait().exits(0);
            toggles += 1;
        }
    }
    for runner in runners {
        let outcome = runner.wait();
        assert_eq!(outcome.stdout, "over\n", "{}", outcome.stderr);
    }
    println!("1200 runs during {toggles} toggles, all of them ran");
    assert!(toggles >= 6);
}

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
    assert!(
        status.exits(1).stdout.contains("upgraded over"),
        "{status:?}"
    );
    site.create(&["--repair", "-q"]).run().exits(0);
    assert_eq!(site.names(), ["CUDAWRAP_app", "app", "app.replaced-1"]);
    let outcome = site.user(site.sandbox.command(&site.app)).run();
    assert!(
        outcome
            .exits(0)
            .stdout
            .contains("env CUDA_VISIBLE_DEVICES MIG-"),
        "the new one is wrapped"
    );
    drop(running);
}

#[test]
fn a_cudawrap_put_in_place_of_an_older_script_serves_the_links_that_exist() {
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
