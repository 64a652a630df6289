//! Options, several paths at once, the record of wrapped paths and `--all`, and where
//! output goes.

use std::process::Command;

use harness::Outcome;

use crate::support::{Sandbox, said};

#[test]
fn wrong_use_is_one_line_a_hint_and_status_2() {
    let sandbox = Sandbox::with_program();
    #[rustfmt::skip]
    let cases = [
        &[][..], &["--nonsense", "x"], &["--undo", "--repair", "x"], &["--all"],
        &["--all", "--undo", "x"], &["--json", "x"], &["--divert", "x"], &["--link-dir"],
        &["--undo=yes", "x"], &["-qv", "x"], &["--status", "-n", "x"],
    ];
    for args in cases {
        let said = sandbox.create(args);
        said.refuses(2, "");
        assert!(!said.stderr.contains("error:"), "{said:#?}");
        assert_eq!(said.stderr.lines().count(), 2, "and a hint: {said:#?}");
    }
    assert_eq!(sandbox.names("app"), ["x"]);
}

#[test]
fn steps_and_outcomes_are_told_by_the_names_of_the_files() {
    let sandbox = Sandbox::with_program();
    let wrapper = sandbox.path("bin/cudawrap").display().to_string();
    // Which steps there are depends on the file system.
    let planned = sandbox.ok(&["--dry-run", "x"]);
    planned.shows(" CUDAWRAP_x");
    planned.shows(&format!(" to {wrapper}\n"));
    let line =
        "x: wrapped; the program is CUDAWRAP_x beside it, and as a script it sees that name as $0";
    sandbox.ok(&["x"]).mentions(line);
}

#[test]
fn help_and_version_go_to_standard_output() {
    let sandbox = Sandbox::new();
    for args in [["--help"], ["-h"], ["--version"], ["-V"]] {
        sandbox.ok(&args).says(&[]).shows("create-cudawrap");
    }
    let help = sandbox.ok(&["--help"]).stdout;
    for option in create_cudawrap::options::command().get_opts() {
        let long = option.get_long().unwrap();
        assert!(help.contains(&format!("--{long}")), "{long}");
    }
}

/// A script of a shell, in which `$0` is the command.
fn below(sandbox: &Sandbox, script: &str) -> Outcome {
    let mut shell = sandbox.prepared(Command::new("sh"));
    shell.args(["-c", script]);
    said(shell.arg(sandbox.command().get_program()))
}

#[test]
fn a_standard_output_that_cannot_be_written_is_a_failure() {
    let sandbox = Sandbox::with_program();
    let (full, closed) = ("No space left on device", "it is closed");
    for args in ["--help", "--version", "--status x", "--dry-run x"] {
        for (redirection, why) in [(">/dev/full", full), (">&-", closed)] {
            let script = format!("exec \"$0\" {args} {redirection}");
            let line = format!("create-cudawrap: standard output: {why}");
            below(&sandbox, &script).exits(1).mentions(&line);
        }
    }
}

#[test]
fn each_path_by_itself_and_a_summary() {
    let sandbox = Sandbox::with_program();
    sandbox.script("app/y", "two");
    let said = sandbox.create(&["x", "nothing", "y"]);
    said.exits(1)
        .mentions("create-cudawrap: nothing: no such file")
        .mentions("create-cudawrap: 3 paths: 2 changed, 1 failed");
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "CUDAWRAP_y", "x", "y"]);
    sandbox.ok(&["-q", "x", "y"]).answers("");
    let again = sandbox.ok(&["x"]);
    again.mentions("x: is already wrapped; nothing changed");
    let both = sandbox.ok(&["x", "y"]);
    both.mentions(": 2 paths: 0 changed, 0 failed");
}

#[test]
fn by_its_second_name_it_says_the_same() {
    let sandbox = Sandbox::with_program();
    sandbox.link("create-cudawrap", "bin/create_cudawrap");
    let mut command = sandbox.prepared(Command::new(sandbox.path("bin/create_cudawrap")));
    let said = said(command.arg("x"));
    said.exits(0).mentions("create-cudawrap: x: wrapped");
}

#[test]
fn wrapped_paths_are_recorded_and_the_record_is_only_a_hint() {
    let sandbox = Sandbox::with_program();
    sandbox.script("app/y", "two");
    sandbox.ok(&["x", "../app/y"]);
    let note = sandbox.path("state/getgpu/wrapped");
    let noted = std::fs::read_to_string(&note).unwrap();
    let expected = ["app/x", "app/y"].map(|name| sandbox.path(name));
    assert!(noted.lines().map(std::path::Path::new).eq(&expected));
    let status = sandbox.ok(&["--status"]).stdout;
    assert_eq!(status.matches(": wrapped\n").count(), 2);
    // An upgrade of one, the other removed, and a line that never was.
    sandbox.run_sh("rm app/x app/y app/CUDAWRAP_y && echo /nowhere/at/all >> state/getgpu/wrapped");
    sandbox.script("app/x", "new");
    let said = sandbox.create(&["--status", "--all"]);
    said.exits(1).shows("app/x: upgraded over");
    let repaired = sandbox.create(&["--repair", "--all"]);
    repaired.mentions("the newer program is wrapped");
    assert_eq!(sandbox.output_of("app/x"), "new a b");
    sandbox.create(&["--undo", "--all"]);
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x.replaced-1", "x"]);
    assert_eq!(sandbox.output_of("app/x"), "new a b");
    assert!(!std::fs::read_to_string(&note).unwrap().contains("app/"));
}

/// --repair keeps it, and its newer program may be undone and removed.
#[test]
fn an_older_program_alone_is_nothing_that_is_wrapped() {
    let sandbox = Sandbox::with_program();
    sandbox.ok(&["x"]);
    sandbox.run_sh("rm app/x");
    sandbox.script("app/x", "new");
    sandbox.ok(&["--repair", "x"]);
    sandbox.ok(&["--status", "."]).shows("x: wrapped\n");
    sandbox.ok(&["--undo", "."]);
    sandbox.ok(&["--status", "."]).shows("x: plain\n");
    sandbox.run_sh("rm app/x");
    for task in ["--status", "--undo", "--repair"] {
        let line = "create-cudawrap: .: nothing is wrapped there";
        sandbox.ok(&[task, "."]).says(&[line]);
    }
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x.replaced-1"]);
}

#[test]
fn a_record_that_cannot_be_written_fails_nothing() {
    let sandbox = Sandbox::with_program();
    std::fs::write(sandbox.path("state/getgpu"), "").unwrap();
    sandbox.ok(&["x"]).mentions("cannot record");
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

/// Where /bin is a link to /usr/bin, a package may have recorded either.
#[test]
fn a_package_owns_a_program_by_both_of_its_paths() {
    if std::fs::canonicalize("/bin").unwrap() != std::path::Path::new("/usr/bin") {
        harness::skip::say("/bin is not a link to /usr/bin here");
        return;
    }
    let sandbox = Sandbox::with_program();
    let bin = sandbox.path("bin").display().to_string();
    for known in ["/bin/env", "/usr/bin/env"] {
        let dpkg = format!("#!/bin/sh\n[ \"$3\" = {known} ] && echo amber: {known}\n");
        sandbox.program("bin/dpkg", &dpkg);
        let asked = below(
            &sandbox,
            &format!("PATH={bin}:$PATH; exec \"$0\" --dry-run /usr/bin/env"),
        );
        asked.exits(1).mentions("belongs to the package amber");
    }
}

#[test]
fn what_the_caller_ignores_and_the_size_of_files_do_not_matter() {
    let sandbox = Sandbox::with_program();
    let bin = sandbox.path("bin").display().to_string();
    let below = |how: &str| below(&sandbox, &format!("PATH={bin}:$PATH; {how} \"$0\" x"));
    // A tool that says that no package owns the program.
    sandbox.program("bin/dpkg", "#!/bin/sh\nexit 1\n");
    // dash itself needs the signal.
    below("exec env --ignore-signal=CHLD").exits(0);
    sandbox.ok(&["--undo", "x"]);
    let no_room = below("ulimit -f 0; exec");
    no_room.exits(0).mentions("cannot record");
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

#[test]
fn links_lead_to_the_chosen_cudawrap() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("mkdir other && chown --reference=bin other && mv bin/cudawrap other/");
    let without = sandbox.create(&["x"]);
    without.exits(1).mentions("--wrapper");
    let path = format!("{}:/usr/bin:/bin", sandbox.path("other").display());
    sandbox.with("PATH", path, &["x"]).exits(0);
    assert_eq!(sandbox.target("app/x"), sandbox.path("other/cudawrap"));
    // Gone altogether: undo needs none, repair leads the link to the one that there is
    // now.
    sandbox.run_sh("mv other/cudawrap bin/cudawrap");
    sandbox.ok(&["--repair", "x"]);
    assert_eq!(sandbox.output_of("app/x"), "one a b");
    sandbox.run_sh("rm bin/cudawrap");
    sandbox.ok(&["--undo", "x"]);
    assert_eq!(sandbox.output_of("app/x"), "one a b");
    sandbox.run_sh("touch app/cudawrap; cp app/x app/y");
    for bad in ["/nowhere/cudawrap", "cudawrap", "y"] {
        sandbox.create(&["--wrapper", bad, "x"]).exits(1);
    }
}

#[test]
fn a_typo_in_the_settings_keeps_nobody_from_undoing_or_looking() {
    let sandbox = Sandbox::with_program();
    sandbox.ok(&["x"]);
    let file = sandbox.path("state/config.toml");
    std::fs::write(&file, "this is [no toml\n").unwrap();
    let with = |args: &[&str]| sandbox.with("GETGPU_CONFIG", &file, args);
    assert_eq!(with(&["--status", "x"]).stdout, "x: wrapped\n");
    with(&["--repair", "x"]).exits(2);
    with(&["--undo", "--all"]).exits(0);
    with(&["x"]).exits(2).mentions("config.toml:1:");
    assert_eq!(sandbox.names("app"), ["x"]);
}

#[test]
fn a_deleted_directory_is_dropped_from_the_record() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("mkdir app/gone app/file && chmod 777 app/gone app/file");
    sandbox.script("app/gone/y", "two");
    sandbox.script("app/file/z", "three");
    sandbox.ok(&["x", "gone/y", "file/z"]);
    sandbox.run_sh("rm -r app/gone app/file && touch app/file");
    assert_eq!(sandbox.ok(&["--status", "--all"]).stdout.lines().count(), 1);
    sandbox.ok(&["--repair", "--all"]);
    let note = || std::fs::read_to_string(sandbox.path("state/getgpu/wrapped")).unwrap();
    assert_eq!(note().lines().count(), 3);
    sandbox.ok(&["--undo", "--all", "--dry-run"]);
    assert_eq!(
        note().lines().count(),
        3,
        "a file system may not be mounted now"
    );
    let undone = sandbox.ok(&["--undo", "--all"]);
    undone.mentions("gone/y: no longer exists");
    assert_eq!(note(), "");
    // Named, and not noted, it is no path of ours.
    sandbox.create(&["--undo", "gone/y"]).exits(1);
}
