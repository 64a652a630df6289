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
    assert_eq!(
        site.names(),
        ["CUDAWRAP_app", "CUDAWRAP_app.replaced-1", "app"]
    );
    let outcome = site.user(site.sandbox.command(&site.app)).run();
    outcome.exits(0).shows("env CUDA_VISIBLE_DEVICES MIG-");
    drop(running);
}

/// Pipelines look for the newest program whose name begins with `eddy_cuda`, and run it.
#[test]
fn a_search_by_prefix_finds_no_older_program() {
    let site = Site::new("mig4");
    let in_opt = |script: &str| {
        let script = format!("cd ../opt && {script}");
        site.user(site.sandbox.shell("bash", &script)).run()
    };
    in_opt("mv app eddy_cuda11.0 && cp eddy_cuda11.0 eddy_cuda10.2").exits(0);
    in_opt("create-cudawrap -q eddy_cuda*").exits(0);
    for _ in 0..2 {
        let upgrade = "cp ../bin/probe new && mv new eddy_cuda11.0 && create-cudawrap --repair -q";
        in_opt(&format!("{upgrade} eddy_cuda11.0")).exits(0);
        let found = in_opt("find . -executable -type f,l -name 'eddy_cuda*' | sort -V");
        assert_eq!(
            found.exits(0).told(),
            ["./eddy_cuda10.2", "./eddy_cuda11.0"]
        );
        let newest = "$(ls eddy_cuda* | sort -V | tail -n 1)";
        in_opt(&format!("./{newest}"))
            .exits(0)
            .shows("env CUDA_VISIBLE_DEVICES MIG-");
    }
    let kept = [
        "CUDAWRAP_eddy_cuda11.0.replaced-1",
        "CUDAWRAP_eddy_cuda11.0.replaced-2",
    ];
    let names = site.names();
    assert!(
        kept.iter()
            .all(|name| names.iter().any(|known| known == name)),
        "{names:?}"
    );
    // It is the program of no wrapped path, whatever leads to cudawrap beside it.
    in_opt("ln -s ../bin/cudawrap eddy_cuda11.0.replaced-1").exits(0);
    in_opt("./eddy_cuda11.0.replaced-1")
        .refuses(127, "there is no CUDAWRAP_eddy_cuda11.0.replaced-1");
    for name in [
        "eddy_cuda11.0.replaced-1",
        "CUDAWRAP_eddy_cuda11.0.replaced-1",
    ] {
        let refused = in_opt(&format!("create-cudawrap {name}"));
        refused.exits(1).mentions("did you mean eddy_cuda11.0?");
    }
}
