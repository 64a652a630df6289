//! What is advised where nothing is done.

use super::*;
use crate::directory::Directory;
use crate::inspect::snapshot;
use crate::inspect::tests::Ground;
use crate::names::Names;
use crate::state::state;

#[test]
fn what_is_left_alone_is_advised_by_what_it_is() {
    const MOVE: &str = "find out what it is, and move it away; ";
    #[rustfmt::skip]
    let cases: [(&str, &[&str], Option<&str>); 5] = [
        ("a directory", &[], Some("name the programs in it")),
        ("a directory and the program", &["CUDAWRAP_x"], Some(MOVE)),
        ("a link to nothing", &["x -> gone"], None),
        ("a link to nothing and the program", &["x -> gone", "CUDAWRAP_x"], Some(MOVE)),
        ("a link without its program", &["x -> ../opt/cudawrap", "CUDAWRAP_x -> ../opt/cudawrap"], Some("install the program again")),
    ];
    for (name, things, advice) in cases {
        let ground = Ground::new();
        things
            .iter()
            .for_each(|thing| ground.put(&format!("app/{thing}")));
        if name.starts_with("a directory") {
            std::fs::create_dir(ground.path("app/x")).unwrap();
        }
        let dir = Directory::open(&ground.path("app")).unwrap();
        let seen = snapshot(&dir, &Names::of(OsStr::new("x")), None).unwrap();
        let hint = plan(&seen, state(&seen), Goal::Wrap, None)
            .unwrap_err()
            .hint;
        let found = hint.as_deref().unwrap_or_default();
        assert_eq!(hint.is_some(), advice.is_some(), "{name}: {found}");
        assert!(
            found.starts_with(advice.unwrap_or_default()),
            "{name}: {found}"
        );
    }
}

/// A power cut may undo what is not on the disk yet, and only that.
#[test]
fn what_a_step_rests_on_is_on_the_disk_before_it() {
    #[rustfmt::skip]
    let cases: [(&[&str], Goal, usize); 2] = [
        (&["x -> ../opt/migtools_wrapper", "MIGTOOLS_x"], Goal::Wrap, 2),
        (&["x", "CUDAWRAP_x"], Goal::Repair, 1),
    ];
    for (things, goal, expected) in cases {
        let ground = Ground::new();
        for thing in things {
            ground.put(&format!("app/{thing}"));
            if !thing.contains("->") {
                std::fs::write(ground.path("app").join(thing), "#!/bin/sh\n").unwrap();
            }
        }
        let dir = Directory::open(&ground.path("app")).unwrap();
        let seen = snapshot(&dir, &Names::of(OsStr::new("x")), None).unwrap();
        let steps = plan(&seen, state(&seen), goal, None).unwrap().steps;
        let pairs = steps.iter().zip(&steps[1..]);
        let resting = pairs.filter(|(_, step)| matches!(step, Step::Link(_) | Step::Drop(_)));
        let before: Vec<_> = resting.map(|(before, _)| before).collect();
        assert_eq!(before, vec![&Step::Sync; expected], "{steps:?}");
    }
}

/// The text about another name of a wrapped path names the wrapped path.
#[test]
fn what_starts_through_a_wrapped_path_is_told_which() {
    for program in ["CUDAWRAP_y", "CUDAWRAP_y -> gone"] {
        let ground = Ground::new();
        for thing in ["x -> y", "y -> ../opt/cudawrap", program] {
            ground.put(&format!("app/{thing}"));
        }
        let dir = Directory::open(&ground.path("app")).unwrap();
        let seen = snapshot(&dir, &Names::of(OsStr::new("x")), None).unwrap();
        let planned = plan(&seen, state(&seen), Goal::Wrap, None);
        let said = planned.map_or_else(|failure| failure.message, |plan| plan.text);
        let start = format!("leads to {}, ", ground.path("app/y").display());
        assert!(said.starts_with(&start), "{said}");
    }
}

/// A link without a program beside it starts the program of its name that is behind it in PATH.
#[test]
fn a_link_alone_is_refused_unless_a_program_is_behind_it() {
    let ground = Ground::new();
    ground.put("app/x -> ../opt/cudawrap");
    let dir = Directory::open(&ground.path("app")).unwrap();
    let mut seen = snapshot(&dir, &Names::of(OsStr::new("x")), None).unwrap();
    // The cudawrap of these tests is an empty file.
    seen.wrapper_fault = None;
    for (goal, with_program) in [
        (Goal::Wrap, "is already a link to cudawrap"),
        (Goal::Repair, "needs no repair"),
    ] {
        seen.behind = None;
        let refused = plan(&seen, state(&seen), goal, None).unwrap_err().message;
        assert!(
            refused.starts_with("is a link to cudawrap, with no program"),
            "{refused}"
        );
        seen.behind = Some(ground.path("opt/program"));
        let plan = plan(&seen, state(&seen), goal, None).unwrap();
        assert!(plan.text.starts_with(with_program), "{}", plan.text);
        assert!(plan.steps.is_empty());
    }
}
