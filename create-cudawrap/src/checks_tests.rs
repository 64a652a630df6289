//! Names, lengths, directories and facts that keep a program from being wrapped.

use super::*;
use crate::inspect::{Entry, EntryKind};

#[test]
fn names_that_are_never_touched() {
    #[rustfmt::skip]
    let cases = [
        "cudawrap", "getgpu", "create-cudawrap", "create_cudawrap", "CUDAWRAP_x", ".CUDAWRAP_x~",
    ];
    for bad in cases {
        assert!(name(OsStr::new(bad)).is_err(), "{bad}");
    }
    assert!(name(OsStr::new("cudawrapper")).is_ok());
    let fits = |name: usize, longest| length(Path::new(&"x".repeat(name)), longest).is_ok();
    assert!(fits(244, 255) && !fits(245, 255) && !fits(245, 510) && !fits(133, 143));
    let deep = |bytes: usize| format!("{}/app", "/d".repeat((bytes - 4) / 2));
    assert!(length(Path::new(&deep(4086)), 255).is_ok());
    assert!(length(Path::new(&deep(4088)), 255).is_err());
}

fn seen(form: Form, runs: bool) -> PathSnapshot {
    PathSnapshot {
        app: Entry {
            kind: EntryKind::File,
            runs,
            mode: 0o755,
            ..Entry::ABSENT
        },
        hidden: Entry::ABSENT,
        tmp: Entry::ABSENT,
        former: Entry::ABSENT,
        form: Some(form),
        reach: None,
        tmp_in_use: false,
        wrapper_fault: None,
        behind: None,
        replaced: "x.replaced-1".into(),
    }
}

#[test]
fn force_overrides_policy_and_nothing_else() {
    let app = seen(Form::Program, true);
    #[rustfmt::skip]
    let policy = [
        Facts { package: Some("amber".into()),..Facts::default() },
        Facts { apparmor: Some("/etc/apparmor.d/x".into()),..Facts::default() },
        Facts { network: Some("NFS"),..Facts::default() },
    ];
    for facts in policy {
        assert!(program(&app, &facts, false).is_err(), "{facts:?}");
        assert!(program(&app, &facts, true).is_ok(), "{facts:?}");
    }
    let own = Facts {
        own: Some("getgpu".into()),
        ..Facts::default()
    };
    assert!(program(&app, &own, true).is_err());
    let none = Facts::default();
    assert!(program(&seen(Form::Program, false), &none, true).is_err());
    for form in [
        Form::Own("cudawrap"),
        Form::Empty,
        Form::CutShort,
        Form::Unknown,
        Form::ScriptOfWrapped,
    ] {
        assert!(program(&seen(form, true), &none, true).is_err(), "{form:?}");
    }
    assert!(program(&seen(Form::Script, true), &none, false).is_ok());
}
