//! Single steps on real files: what they may remove, and what a failed one advises.

use super::*;
use crate::inspect::snapshot;
use crate::inspect::tests::Ground;

/// What became of steps in a directory that has these things.
fn done(ground: &Ground, steps: &[Step]) -> Result<(), Failure> {
    done_as(ground, &Names::of(OsStr::new("x")), steps)
}

fn done_as(ground: &Ground, names: &Names, steps: &[Step]) -> Result<(), Failure> {
    let dir = Directory::open(&ground.path("app")).unwrap();
    let seen = snapshot(&dir, names, None).unwrap();
    let work = Work {
        dir: &dir,
        names,
        wrapper: OsStr::new("../opt/cudawrap"),
        own: None,
    };
    let plan = Plan::new(steps.to_vec(), "");
    apply(&work, &seen, &plan)
}

/// Links, `name -> text`, programs, `name`, and second names of files, `name = other`.
fn ground(things: &[&str]) -> Ground {
    let ground = Ground::new();
    for thing in things {
        match thing.split_once(" = ") {
            Some((name, other)) => {
                let path = |name: &str| ground.path("app").join(name);
                std::fs::hard_link(path(other), path(name)).unwrap();
            }
            None => ground.put(&format!("app/{thing}")),
        }
    }
    ground
}

/// What cannot be looked at may be a program.
#[test]
fn only_a_name_that_no_file_can_have_counts_as_absent() {
    let ground = ground(&[]);
    let (dir, names) = (
        Directory::open(&ground.path("app")).unwrap(),
        Names::of(OsStr::new("x")),
    );
    let wrapper = OsStr::new("../opt/cudawrap");
    let work = Work {
        dir: &dir,
        names: &names,
        wrapper,
        own: None,
    };
    let too_long = entry_now(&work, OsStr::new(&"x".repeat(300))).unwrap();
    assert!(too_long.id.is_none());
    // NUL ends a name, so the kernel cannot be asked.
    assert!(entry_now(&work, OsStr::new("x\0y")).is_err());
}

/// Between the look and the step another process may have put a program there.
#[test]
fn a_name_goes_away_only_if_no_file_is_lost_with_it() {
    #[rustfmt::skip]
    let cases: [(&str, Place, &[&str], bool); 14] = [
        ("the only name of a program", App, &["x"], false),
        ("another file has the second name", App, &["x", "CUDAWRAP_x"], false),
        ("the program is CUDAWRAP_x, too", App, &["x", "CUDAWRAP_x = x"], true),
        ("it is .CUDAWRAP_x~, too", App, &["x", ".CUDAWRAP_x~ = x"], true),
        ("it is MIGTOOLS_x, too", App, &["x", "MIGTOOLS_x = x"], true),
        ("it is the older program, too", Hidden, &["CUDAWRAP_x", "CUDAWRAP_x.replaced-1 = CUDAWRAP_x"], true),
        ("a name that no command knows is no second name", App, &["x", "y = x"], false),
        ("a link to cudawrap", App, &["x -> ../opt/cudawrap"], true),
        ("a link to one that is gone", App, &["x -> /nowhere/cudawrap"], true),
        ("a link to migtools", App, &["x -> ../opt/migtools_wrapper"], true),
        ("a link to migtools in the program's place", Hidden, &["CUDAWRAP_x -> ../opt/migtools_wrapper"], false),
        ("a link that alone leads to the program", App, &["x -> ../opt/program"], false),
        ("two links to one program", App, &["x -> ../opt/program", "CUDAWRAP_x -> ../opt/program"], true),
        ("the file that the other name leads to", Hidden, &["CUDAWRAP_x", "x -> CUDAWRAP_x"], false),
    ];
    for (name, place, things, is_spare) in cases {
        let outcome = done(&ground(things), &[Step::Drop(place)]);
        let failure = outcome.err().map(|failure| failure.message);
        let refused =
            failure.is_some_and(|text| text.ends_with("it has changed at the same moment"));
        assert_eq!(refused, !is_spare, "{name}");
    }
}

#[test]
fn a_program_that_is_kept_already_is_not_kept_twice() {
    let keep = [Step::Keep("CUDAWRAP_x.replaced-1".into())];
    done(&ground(&["CUDAWRAP_x"]), &keep).unwrap();
    let again = ["CUDAWRAP_x", "CUDAWRAP_x.replaced-1 = CUDAWRAP_x"];
    done(&ground(&again), &keep).unwrap();
    let failure = done(&ground(&["CUDAWRAP_x", "CUDAWRAP_x.replaced-1"]), &keep);
    assert!(failure.is_err(), "another file has the name");
}

/// What was wrapped by hand may have a name so long that the other names cannot exist.
#[test]
fn a_name_that_is_too_long_is_no_other_name() {
    let ground = Ground::new();
    let app = "x".repeat(244);
    ground.put(&format!("app/CUDAWRAP_{app}"));
    ground.put(&format!("app/{app}"));
    let failure = done_as(
        &ground,
        &Names::of(OsStr::new(&app)),
        &[Step::Over(Hidden, App)],
    );
    let text = failure.unwrap_err().message;
    assert!(
        text.ends_with("it has changed at the same moment"),
        "{text}"
    );
}

#[test]
fn a_failed_step_advises_what_helps_there() {
    let (relink, second) = (Step::Link(Tmp), Step::SecondName(App, Hidden));
    let taken = ["x", "CUDAWRAP_x", ".CUDAWRAP_x~"];
    for (name, steps, is_half_way) in [
        ("the first", vec![second.clone()], false),
        ("a link", vec![relink.clone()], false),
        ("the second", vec![Step::Sync, second], true),
    ] {
        let hint = done(&ground(&taken), &steps).unwrap_err().hint;
        let found = hint
            .as_ref()
            .is_some_and(|hint| hint.starts_with("stopped half way"));
        assert_eq!(found, is_half_way, "{name}");
        assert_eq!(hint.is_some(), is_half_way, "{name}: {hint:?}");
    }
}

/// link(2) names these for file systems without hard links, for files of others
/// (protected_hardlinks in proc_sys_fs(5)), and for too many names.
#[test]
fn a_directory_of_links_is_advised_where_no_second_name_can_be() {
    let refused = |errno: Errno| refuses_links(&io::Error::from(errno));
    let without = [
        Errno::EPERM,
        Errno::EOPNOTSUPP,
        Errno::ENOSYS,
        Errno::EMLINK,
        Errno::EXDEV,
    ];
    assert!(without.into_iter().all(refused));
    let others = [
        Errno::EEXIST,
        Errno::ENOSPC,
        Errno::EROFS,
        Errno::EACCES,
        Errno::EIO,
    ];
    assert!(!others.into_iter().any(refused));
}
