//! What is unusual at a path, in words, and whose the name is that an interrupted run leaves:
//! a row for each.

use super::*;
use crate::inspect::NameEntry;

fn entry(kind: EntryKind, file: Option<u64>) -> NameEntry {
    NameEntry {
        kind,
        id: file.map(|file| (0, file)),
        leads_to: file.map(|file| (0, file)),
        runs: true,
        text: Some("nothing".into()),
        ..NameEntry::default()
    }
}

/// A path with the file 1, and `CUDAWRAP_app` beside it with the file 2.
fn seen(app: EntryKind, hidden: EntryKind, form: Form) -> PathSnapshot {
    PathSnapshot {
        app: entry(app, Some(1)),
        hidden: entry(hidden, Some(2)),
        tmp: NameEntry::default(),
        former: NameEntry::default(),
        form: Some(form),
        resolves: false,
        reaches_hidden: false,
        tmp_in_use: false,
        wrapper_fault: None,
        behind: None,
        replaced: "CUDAWRAP_app.replaced-1".into(),
    }
}

#[test]
fn what_is_unusual_at_a_path_is_named() {
    use EntryKind::{Absent, Directory, File, Link, Special};
    let beside = "; the program is CUDAWRAP_name beside it";
    #[rustfmt::skip]
    let cases = [
        (File, Absent, Form::Program, None),
        (Absent, Absent, Form::Program, Some("missing".to_owned())),
        (Absent, File, Form::Program, Some(format!("missing{beside}"))),
        (Directory, File, Form::Program, Some(format!("a directory{beside}"))),
        (Special, Absent, Form::Program, Some("not a program".to_owned())),
        (Link(Leads::Elsewhere), Absent, Form::Program, Some("a link that leads to no program".to_owned())),
        (Link(Leads::Cudawrap), Absent, Form::Empty, None),
        (Link(Leads::Cudawrap), File, Form::Empty, None),
        (Link(Leads::Vanished), Directory, Form::Program, Some("a link to cudawrap, but its program does not exist".to_owned())),
        (File, Absent, Form::Empty, None),
        (File, File, Form::Program, None),
        (File, File, Form::Empty, Some(format!("an empty file{beside}"))),
        (File, File, Form::CutShort, Some(format!("a program whose end is missing{beside}"))),
        (File, File, Form::Unknown, Some(format!("a file that the kernel cannot execute{beside}"))),
        (File, File, Form::ScriptOfWrapped, Some(format!("a script that names CUDAWRAP_, so not a newer program{beside}"))),
    ];
    for (app, hidden, form, expected) in cases {
        assert_eq!(
            oddity(&seen(app, hidden, form)),
            expected,
            "{app:?} {hidden:?} {form:?}"
        );
    }
    for form in [
        Form::Empty,
        Form::CutShort,
        Form::Unknown,
        Form::ScriptOfWrapped,
    ] {
        assert_eq!(
            state(&seen(File, File, form)),
            PathState::Unclear,
            "{form:?}"
        );
    }
    let mut dangling = seen(Link(Leads::Elsewhere), Absent, Form::Program);
    dangling.app.leads_to = None;
    let text = "a link that leads to no file (nothing)";
    assert_eq!(oddity(&dangling).as_deref(), Some(text));
    let mut unfit = seen(File, File, Form::ScriptOfWrapped);
    unfit.app.runs = false;
    assert_eq!(oddity(&unfit), Some(format!("not executable{beside}")));
    let mut special = seen(Special, Absent, Form::Program);
    special.app.runs = false;
    assert_eq!(oddity(&special).as_deref(), Some("not a program"));
}

#[test]
fn only_a_link_or_a_second_name_is_left_over() {
    let link = EntryKind::Link(Leads::Cudawrap);
    #[rustfmt::skip]
    let cases = [
        (EntryKind::Absent, None, false, false),
        (link, Some(9), false, true),
        (link, Some(9), true, false),
        (EntryKind::File, Some(1), false, true),
        (EntryKind::File, Some(2), false, true),
        (EntryKind::File, Some(3), false, false),
    ];
    for (kind, file, in_use, expected) in cases {
        let mut path = seen(EntryKind::File, EntryKind::File, Form::Program);
        (path.tmp, path.tmp_in_use) = (entry(kind, file), in_use);
        assert_eq!(has_leftover(&path), expected, "{kind:?} {file:?} {in_use}");
    }
}
