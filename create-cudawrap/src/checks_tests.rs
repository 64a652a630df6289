//! Names, lengths and forms that keep a program from being wrapped.

use super::*;

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
    assert!(fits(234, 255) && !fits(235, 255) && !fits(235, 510) && !fits(123, 143));
    let deep = |bytes: usize| format!("{}/app", "/d".repeat((bytes - 4) / 2));
    assert!(length(Path::new(&deep(4086)), 255).is_ok());
    assert!(length(Path::new(&deep(4088)), 255).is_err());
}

#[test]
fn only_a_program_of_the_users_is_wrapped() {
    use Form::{CutShort, Empty, Own, Script, ScriptOfWrapped, Unknown};
    for bad in [Own("cudawrap"), Empty, CutShort, Unknown, ScriptOfWrapped] {
        assert!(form(Some(bad)).is_err(), "{bad:?}");
    }
    assert!(form(Some(Script)).is_ok() && form(None).is_ok());
}
