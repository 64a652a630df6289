//! Every state that a path can be in, with each of wrap, undo, repair and status, on real
//! files.

use crate::state_rows::{ROWS, Row};
use crate::support::Sandbox;

fn prepared(row: &Row) -> Sandbox {
    let sandbox = Sandbox::new();
    (row.files)(&sandbox);
    sandbox
}

fn check(goal: &str, row: &Row, expected: Result<(&str, &str), &str>) {
    let (sandbox, args) = (prepared(row), [goal, "x"]);
    let what = format!("{} {goal}", row.name);
    match expected {
        Err(words) => sandbox.refused(&args, words),
        Ok((names, output)) => {
            let said = sandbox.create(&args);
            assert_eq!(said.code(), Some(0), "{what}: {said:#?}");
            assert_eq!(sandbox.names("app").join(" "), names, "{what}");
            if !output.is_empty() {
                assert_eq!(sandbox.output_of("app/x"), output, "{what}");
            }
            // Once more: nothing is left to do.
            let before = sandbox.listing("app");
            let again = sandbox.create(&args);
            let done = again.code() == Some(0) || names.is_empty();
            assert!(done, "{what} again: {again:#?}");
            assert_eq!(sandbox.listing("app"), before, "{what} again");
        }
    }
}

#[test]
fn every_state_is_wrapped_undone_and_repaired_or_refused() {
    for row in ROWS {
        check("--force", row, row.wrap);
        check("--repair", row, row.repair);
        check("--undo", row, row.undo);
    }
}

#[test]
fn a_status_and_the_steps_of_a_dry_run_change_nothing() {
    for row in ROWS {
        let (sandbox, name) = (prepared(row), row.name);
        let before = sandbox.listing("app");
        let (line, code) = sandbox.status_of("app/x");
        let rest = line.strip_prefix(row.status);
        let told = rest.is_some_and(|rest| ["", ")"].contains(&rest) || rest.starts_with(" ("));
        assert!(told, "{name}: {line}");
        assert_eq!(code, i32::from(row.attention), "{name}: {line}");
        let goals = [
            ("--force", row.wrap),
            ("--undo", row.undo),
            ("--repair", row.repair),
        ];
        for (goal, expected) in goals {
            let said = sandbox.create(&["--dry-run", goal, "x"]);
            let code = i32::from(expected.is_err());
            assert_eq!(said.code(), Some(code), "{name} {goal}: {said:#?}");
            let noted = sandbox.exists("state/getgpu");
            assert!(!noted || said.stdout.is_empty(), "{name} {goal}");
        }
        assert_eq!(sandbox.listing("app"), before, "{name}");
    }
}

#[test]
fn undo_gives_back_the_same_file() {
    let sandbox = Sandbox::with_program();
    sandbox.run_sh("chmod 2755 app/x; touch -d 2001-01-01 app/x");
    let file = || {
        let path = sandbox.path("app/x");
        let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
        let text = std::fs::read(path).unwrap();
        (sandbox.identity("app/x"), text, changed)
    };
    let before = file();
    sandbox.ok(&["x"]);
    assert_eq!(sandbox.identity("app/CUDAWRAP_x"), before.0);
    assert_eq!(sandbox.target("app/x"), sandbox.path("bin/cudawrap"));
    sandbox.ok(&["--undo", "x"]);
    assert_eq!(file(), before);
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
    assert_eq!(sandbox.target("app/x"), copy);
    let wrapper = sandbox.path("bin/cudawrap");
    sandbox.ok(&["--repair", "--wrapper", wrapper.to_str().unwrap(), "x"]);
    assert_eq!(sandbox.target("app/x"), wrapper);
    assert_eq!(sandbox.output_of("app/x"), "one a b");
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "lib", "x"]);
}
