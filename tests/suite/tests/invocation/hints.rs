//! What was typed slightly wrong is answered with what was probably meant.

use harness::Sandbox;

#[test]
fn a_mistyped_option_is_answered_with_the_right_one() {
    let sandbox = Sandbox::new("mig4");
    for (words, hint) in [
        ("--lst", "did you mean --list?"),
        ("--min-mem=3G", "did you mean --min-memory?"),
        ("list", "did you mean getgpu --list?"),
        ("release-all", "did you mean getgpu --release-all?"),
    ] {
        let outcome = sandbox.getgpu([words]).run();
        outcome.exits(2);
        assert!(outcome.stderr.contains(hint), "{words}: {outcome:#?}");
    }
}

#[test]
fn a_program_in_the_working_directory_is_hinted_at() {
    let sandbox = Sandbox::new("mig4");
    sandbox.file("work/simulate", "#!/bin/sh\n", 0o755);
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "simulate"])
        .directory(sandbox.path("work"))
        .run();
    outcome.exits(127);
    assert!(
        outcome.stderr.contains("did you mean ./simulate?"),
        "{outcome:#?}"
    );
}

#[test]
fn a_variable_that_nobody_reads_is_named() {
    let sandbox = Sandbox::new("mig4");
    let run = |name: &str, value: &str| {
        let command = sandbox.command("cudawrap").args(["--", "true"]);
        command.env(name, value).run()
    };
    run("CUDAWRAP_SHRAE", "1/2")
        .exits(0)
        .says(&["cudawrap: CUDAWRAP_SHRAE: no such variable, ignored"]);
    for (name, value) in [
        ("CUDAWRAP_SHARE", "1/2"),
        ("CUDAWRAP_WAIT", "3"),
        ("CUDAWRAP_MIN_MEMORY", "1G"),
        ("CUDAWRAP_VISIBLE", "one"),
        ("CUDAWRAP_IGNORE_GRANT", "1"),
        ("CUDAWRAP_DISABLE", "0"),
    ] {
        run(name, value).exits(0).says(&[]);
    }
}

#[test]
fn the_settings_are_shown_with_the_files_and_the_lock() {
    let sandbox = Sandbox::new("mig4");
    let shown = sandbox.getgpu(["-v", "--show-config"]).run();
    let lines: Vec<&str> = shown.stdout.lines().collect();
    let file = format!("# {}: read", sandbox.settings_file().display());
    let lock = format!("# lock: {}", sandbox.lock().display());
    assert!(lines.contains(&file.as_str()), "{shown:#?}");
    assert!(lines.contains(&lock.as_str()), "{shown:#?}");
}
