//! Every state that a path can be in, with each of wrap, undo, repair and status, on real
//! files.

use crate::oddities::ODDITIES;
use crate::state_rows::{ROWS, Row};
use crate::support::Sandbox;

fn prepared(row: &Row) -> Sandbox {
    let sandbox = Sandbox::new();
    (row.files)(&sandbox);
    sandbox
}

fn check(goal: &str, row: &Row, expected: Result<(&str, &str), &str>) {
    let sandbox = prepared(row);
    let args: Vec<&str> = [goal, "x"]
        .into_iter()
        .filter(|arg| !arg.is_empty())
        .collect();
    match expected {
        Err(words) => sandbox.refused(&args, words),
        Ok((names, output)) => {
            let said = sandbox.create(&args);
            assert_eq!(said.code, 0, "{} {goal}: {}", row.name, said.err);
            assert_eq!(sandbox.names("app").join(" "), names, "{} {goal}", row.name);
            if !output.is_empty() {
                assert_eq!(sandbox.output_of("app/x"), output, "{} {goal}", row.name);
            }
            // Once more: nothing is left to do.
            let before = sandbox.listing("app");
            let again = sandbox.create(&args);
            assert!(
                again.code == 0 || names.is_empty(),
                "{} {goal} again: {}",
                row.name,
                again.err
            );
            assert_eq!(sandbox.listing("app"), before, "{} {goal} again", row.name);
        }
    }
}

#[test]
fn every_state_is_wrapped_or_refused() {
    ROWS.iter().for_each(|row| check("", row, row.wrap));
}

#[test]
fn every_state_is_repaired_or_refused() {
    ROWS.iter()
        .for_each(|row| check("--repair", row, row.repair));
}

#[test]
fn every_state_is_undone_or_refused() {
    ROWS.iter().for_each(|row| check("--undo", row, row.undo));
}

#[test]
fn every_state_has_a_status() {
    for row in ROWS {
        let sandbox = prepared(row);
        let before = sandbox.listing("app");
        let (line, code) = sandbox.status_of("app/x");
        assert!(
            line == row.status || line.starts_with(&format!("{} (", row.status)),
            "{}: {line}",
            row.name
        );
        assert_eq!(code, i32::from(row.attention), "{}: {line}", row.name);
        assert_eq!(sandbox.listing("app"), before, "{}", row.name);
    }
}

#[test]
fn an_oddity_in_the_links_place_is_named_and_left_alone() {
    for (name, files, words) in ODDITIES {
        let sandbox = Sandbox::new();
        files(&sandbox);
        let said = format!("{words}; the program is CUDAWRAP_name beside it");
        for goal in ["--force", "--repair", "--undo"] {
            sandbox.refused(&[goal, "x"], &said);
        }
        let (line, code) = sandbox.status_of("app/x");
        assert!(
            code == 1 && line.starts_with("broken (") && line.contains(&said["is ".len()..]),
            "{name}: {line}"
        );
    }
}

#[test]
fn a_dry_run_says_the_steps_and_changes_nothing() {
    for row in ROWS {
        for (goal, expected) in [
            ("", row.wrap),
            ("--undo", row.undo),
            ("--repair", row.repair),
        ] {
            let sandbox = prepared(row);
            let before = sandbox.listing("app");
            let args: Vec<&str> = ["--dry-run", goal, "x"]
                .into_iter()
                .filter(|arg| !arg.is_empty())
                .collect();
            let said = sandbox.create(&args);
            assert_eq!(
                said.code,
                i32::from(expected.is_err()),
                "{} {goal}: {}",
                row.name,
                said.err
            );
            assert_eq!(sandbox.listing("app"), before, "{} {goal}", row.name);
            assert!(
                !sandbox.exists("state/getgpu") || said.out.is_empty(),
                "{} {goal}",
                row.name
            );
        }
    }
}

#[test]
fn undo_gives_back_the_same_file() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("chmod 2755 app/x; touch -d 2001-01-01 app/x");
    let before = (
        sandbox.identity("app/x"),
        std::fs::read(sandbox.path("app/x")).unwrap(),
    );
    let mtime = std::fs::metadata(sandbox.path("app/x"))
        .unwrap()
        .modified()
        .unwrap();
    sandbox.ok(&["x"]);
    assert_eq!(sandbox.identity("app/CUDAWRAP_x"), before.0);
    assert_eq!(
        std::fs::read_link(sandbox.path("app/x")).unwrap(),
        sandbox.path("bin/cudawrap")
    );
    sandbox.ok(&["--undo", "x"]);
    assert_eq!(
        (
            sandbox.identity("app/x"),
            std::fs::read(sandbox.path("app/x")).unwrap()
        ),
        before
    );
    assert_eq!(
        std::fs::metadata(sandbox.path("app/x"))
            .unwrap()
            .modified()
            .unwrap(),
        mtime
    );
    assert_eq!(sandbox.names("app"), ["x"]);
}

#[test]
fn repair_keeps_links_to_another_cudawrap_unless_one_is_named() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("mkdir app/lib && cp bin/cudawrap app/lib/cudawrap");
    let copy = sandbox.path("app/lib/cudawrap");
    sandbox.ok(&["--wrapper", "lib/cudawrap", "x"]);
    sandbox.ok(&["--repair", "x"]);
    sandbox.ok(&["x"]);
    assert_eq!(std::fs::read_link(sandbox.path("app/x")).unwrap(), copy);
    sandbox.ok(&[
        "--repair",
        "--wrapper",
        &sandbox.path("bin/cudawrap").to_string_lossy(),
        "x",
    ]);
    assert_eq!(
        std::fs::read_link(sandbox.path("app/x")).unwrap(),
        sandbox.path("bin/cudawrap")
    );
    assert_eq!(sandbox.output_of("app/x"), "one a b");
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "lib", "x"]);
}
