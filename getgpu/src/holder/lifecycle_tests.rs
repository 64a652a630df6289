use super::*;

/// A short program of a caller with many children is found among the caller's processes only: a
/// look at all others, a few at a time, comes too late for it.
#[test]
fn the_callers_processes_are_read_unless_they_are_known_to_be_the_same() {
    let (first, later) = (CLOSELY - Duration::from_nanos(1), CLOSELY);
    #[rustfmt::skip]
    let cases = [
        ("a program began at once", Some(true), first, LookScope::Caller),
        ("a program began later", Some(true), later, LookScope::CallerAndNext),
        ("nothing began yet", Some(false), first, LookScope::Nothing),
        ("nothing began below the caller", Some(false), later, LookScope::Next),
        ("too many children at first", None, first, LookScope::Nothing),
        ("too many children", None, later, LookScope::CallerAndNext),
    ];
    for (name, has_more, since_printed, scope) in cases {
        assert_eq!(LookScope::of(has_more, since_printed), scope, "{name}");
    }
}
