//! Options, several paths at once, the record of wrapped paths and `--all`, and where
//! output goes.

use std::process::{Command, Stdio};

use crate::support::{Sandbox, said};

#[test]
fn wrong_use_is_one_line_a_hint_and_status_2() {
    let sandbox = Sandbox::with_program();
    for args in [
        &[][..],
        &["--nonsense", "x"],
        &["--undo", "--repair", "x"],
        &["--all"],
        &["--all", "--undo", "x"],
        &["--json", "x"],
        &["--divert", "x"],
        &["--link-dir"],
        &["--undo=yes", "x"],
        &["-qv", "x"],
        &["--status", "-n", "x"],
    ] {
        let said = sandbox.create(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        let lines: Vec<&str> = said.err.lines().collect();
        assert_eq!(lines.len(), 2, "{args:?}: {}", said.err);
        assert!(lines[0].starts_with("create-cudawrap: "), "{}", said.err);
        assert!(!lines[0].contains("error:"), "{}", said.err);
        assert!(
            lines[1].starts_with("create-cudawrap: hint: "),
            "{}",
            said.err
        );
        assert_eq!(said.out, "");
    }
    assert_eq!(sandbox.names("app"), ["x"]);
}

#[test]
fn a_settings_file_that_is_wrong_is_told_before_anything_is_changed() {
    let sandbox = Sandbox::with_program();
    let file = sandbox.path("state/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "type = \"mig\"\nmin-memry = 3\n").unwrap();
    let said = said(
        sandbox
            .command()
            .env("GETGPU_CONFIG", &file)
            .arg("x")
            .output()
            .unwrap(),
    );
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err
            .contains("config.toml:2:1: unknown setting `min-memry`"),
        "{}",
        said.err
    );
    assert_eq!(sandbox.names("app"), ["x"]);
}

#[test]
fn steps_and_outcomes_are_told_by_the_names_of_the_files() {
    let sandbox = Sandbox::with_program();
    let wrapper = sandbox.path("bin/cudawrap").display().to_string();
    // Which steps there are depends on the file system.
    let steps = sandbox.ok(&["--dry-run", "x"]).out;
    assert!(
        steps.contains(" CUDAWRAP_x") && steps.contains(&format!(" to {wrapper}\n")),
        "{steps}"
    );
    let wrapped = sandbox.ok(&["x"]).err;
    assert!(
        wrapped.contains("x: wrapped; the program is CUDAWRAP_x beside it, and as a script it sees that name as $0\n"),
        "{wrapped}"
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    let sandbox = Sandbox::new();
    for args in [["--help"], ["-h"], ["--version"], ["-V"]] {
        let said = sandbox.ok(&args);
        assert!(
            said.out.contains("create-cudawrap") && said.err.is_empty(),
            "{args:?}"
        );
    }
    let help = sandbox.ok(&["--help"]).out;
    for flag in create_cudawrap::options::table() {
        assert!(help.contains(&format!("--{}", flag.long)), "{}", flag.long);
    }
}

#[test]
fn a_standard_output_that_cannot_be_written_is_a_failure() {
    let sandbox = Sandbox::with_program();
    for args in [
        &["--help"][..],
        &["--version"],
        &["--status", "x"],
        &["--dry-run", "x"],
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let to_full = said(
            sandbox
                .command()
                .args(args)
                .stdout(full)
                .stderr(Stdio::piped())
                .output()
                .unwrap(),
        );
        let mut closed = sandbox.prepared(Command::new("sh"));
        closed.args(["-c", "exec \"$0\" \"$@\" >&-"]);
        closed.arg(sandbox.command().get_program()).args(args);
        let to_none = said(closed.output().unwrap());
        for (said, why) in [
            (to_full, "No space left on device"),
            (to_none, "it is closed"),
        ] {
            assert_eq!(said.code, 1, "{args:?}: {}", said.err);
            let line = format!("create-cudawrap: standard output: {why}\n");
            assert!(said.err.contains(&line), "{}", said.err);
        }
    }
}

#[test]
fn each_path_by_itself_and_a_summary() {
    let sandbox = Sandbox::with_program();
    sandbox.script("app/y", "two");
    let said = sandbox.create(&["x", "nothing", "y"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err
            .contains("create-cudawrap: nothing: no such file\n"),
        "{}",
        said.err
    );
    assert!(
        said.err
            .ends_with("create-cudawrap: 3 paths: 2 done, 1 failed\n"),
        "{}",
        said.err
    );
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "CUDAWRAP_y", "x", "y"]);
    let quiet = sandbox.ok(&["-q", "x", "y"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let again = sandbox.ok(&["x"]);
    assert!(
        again.err.contains("x: is already wrapped; nothing changed"),
        "{}",
        again.err
    );
}

#[test]
fn by_its_second_name_it_says_the_same() {
    let sandbox = Sandbox::with_program();
    sandbox.link("create-cudawrap", "bin/create_cudawrap");
    let output = sandbox
        .prepared(Command::new(sandbox.path("bin/create_cudawrap")))
        .arg("x")
        .output();
    let said = said(output.unwrap());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.starts_with("create-cudawrap: x: wrapped"),
        "{}",
        said.err
    );
}

#[test]
fn wrapped_paths_are_recorded_and_the_record_is_only_a_hint() {
    let sandbox = Sandbox::with_program();
    sandbox.script("app/y", "two");
    sandbox.ok(&["x", "../app/y"]);
    let note = sandbox.path("state/getgpu/wrapped");
    let noted = std::fs::read_to_string(&note).unwrap();
    assert_eq!(
        noted,
        format!(
            "{}\n{}\n",
            sandbox.path("app/x").display(),
            sandbox.path("app/y").display()
        )
    );
    assert_eq!(
        sandbox.ok(&["--status"]).out.matches(": wrapped\n").count(),
        2
    );
    // An upgrade of one, the other removed, and a line that never was.
    sandbox.run_sh("rm app/x app/y app/CUDAWRAP_y && echo /nowhere/at/all >> state/getgpu/wrapped");
    sandbox.script("app/x", "new");
    let said = sandbox.create(&["--status", "--all"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("app/x: upgraded over"), "{}", said.out);
    let repaired = sandbox.create(&["--repair", "--all"]);
    assert!(
        repaired.err.contains("the newer program is wrapped"),
        "{}",
        repaired.err
    );
    assert_eq!(sandbox.output_of("app/x"), "new a b");
    sandbox.create(&["--undo", "--all"]);
    assert_eq!(sandbox.names("app"), ["x", "x.replaced-1"]);
    assert_eq!(sandbox.output_of("app/x"), "new a b");
    assert!(!std::fs::read_to_string(&note).unwrap().contains("app/"));
}

#[test]
fn a_record_that_cannot_be_written_fails_nothing() {
    let sandbox = Sandbox::with_program();
    std::fs::write(sandbox.path("state/getgpu"), "").unwrap();
    let said = sandbox.ok(&["x"]);
    assert!(said.err.contains("cannot record"), "{}", said.err);
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

#[test]
fn what_the_caller_ignores_and_the_size_of_files_do_not_matter() {
    let sandbox = Sandbox::with_program();
    let below = |how: &str| {
        let mut shell = sandbox.prepared(Command::new("sh"));
        let script = format!(
            "PATH={}:$PATH; {how} \"$0\" x",
            sandbox.path("bin").display()
        );
        shell.args(["-c", &script]);
        said(shell.arg(sandbox.command().get_program()).output().unwrap())
    };
    // A tool that says that no package owns the program.
    sandbox.program("bin/dpkg", "#!/bin/sh\nexit 1\n");
    // dash itself needs the signal.
    let ignored = below("exec env --ignore-signal=CHLD");
    assert_eq!(ignored.code, 0, "{}", ignored.err);
    assert_eq!(sandbox.ok(&["--undo", "x"]).code, 0);
    let no_room = below("ulimit -f 0; exec");
    assert_eq!(no_room.code, 0, "{}", no_room.err);
    assert!(no_room.err.contains("cannot record"), "{}", no_room.err);
    assert_eq!(sandbox.output_of("app/x"), "one a b");
}

#[test]
fn links_lead_to_the_chosen_cudawrap() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("mkdir other && chown --reference=bin other && mv bin/cudawrap other/");
    let without = sandbox.create(&["x"]);
    assert_eq!(without.code, 1);
    assert!(without.err.contains("--wrapper"), "{}", without.err);
    let path = format!("{}:/usr/bin:/bin", sandbox.path("other").display());
    let found = said(
        sandbox
            .command()
            .env("PATH", path)
            .arg("x")
            .output()
            .unwrap(),
    );
    assert_eq!(found.code, 0, "{}", found.err);
    assert_eq!(
        std::fs::read_link(sandbox.path("app/x")).unwrap(),
        sandbox.path("other/cudawrap")
    );
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
        assert_eq!(sandbox.create(&["--wrapper", bad, "x"]).code, 1, "{bad}");
    }
}

#[test]
fn a_typo_in_the_settings_keeps_nobody_from_undoing_or_looking() {
    let sandbox = Sandbox::with_program();
    sandbox.ok(&["x"]);
    let file = sandbox.path("state/config.toml");
    std::fs::write(&file, "this is [no toml\n").unwrap();
    let with = |args: &[&str]| sandbox.with("GETGPU_CONFIG", &file, args);
    assert_eq!(with(&["--status", "x"]).out, "x: wrapped\n");
    assert_eq!(with(&["--repair", "x"]).code, 2);
    let undone = with(&["--undo", "--all"]);
    assert_eq!(undone.code, 0, "{}", undone.err);
    assert_eq!(sandbox.names("app"), ["x"]);
    assert_eq!(with(&["x"]).code, 2);
}

#[test]
fn a_deleted_directory_is_dropped_from_the_record() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("mkdir app/gone app/file && chmod 777 app/gone app/file");
    sandbox.script("app/gone/y", "two");
    sandbox.script("app/file/z", "three");
    sandbox.ok(&["x", "gone/y", "file/z"]);
    sandbox.run_sh("rm -r app/gone app/file && touch app/file");
    assert_eq!(sandbox.ok(&["--status", "--all"]).out.lines().count(), 1);
    sandbox.ok(&["--repair", "--all"]);
    let note = || std::fs::read_to_string(sandbox.path("state/getgpu/wrapped")).unwrap();
    assert_eq!(note().lines().count(), 3);
    let undone = sandbox.ok(&["--undo", "--all"]);
    assert!(
        undone.err.contains("gone/y: no longer exists"),
        "{}",
        undone.err
    );
    assert_eq!(note(), "");
    // Named, and not noted, it is no path of ours.
    assert_eq!(sandbox.create(&["--undo", "gone/y"]).code, 1);
}
