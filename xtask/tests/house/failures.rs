//! A failure is made in the table of its crate alone, so that one command shows them all.

use std::collections::BTreeMap;

use xtask::{messages, size};

/// Where failures are defined.
const DEFINED: [&str; 2] = ["common/model/src/error.rs", "common/model/src/causes.rs"];

/// Whether a line makes a failure, or words it anew.
fn makes(line: &str) -> bool {
    let is_signature = line.contains("-> Failure {") || line.starts_with("impl ");
    let assigned = ["kind", "message", "hint"];
    line.contains("Failure::new(")
        || (line.contains("Failure {") && !is_signature)
        || assigned
            .iter()
            .any(|field| line.contains(&format!("failure.{field} = ")))
}

#[test]
fn failures_are_made_in_causes() {
    let (top, mut wrong) = (xtask::top(), Vec::new());
    for file in size::products(top).unwrap() {
        let is_table = file.ends_with("/causes.rs") || file.starts_with("xtask/");
        if is_table || DEFINED.contains(&file.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(top.join(&file)).unwrap();
        let lines = size::code_lines(&text).filter(|line| makes(line));
        wrong.extend(lines.map(|line| format!("{file}: {line}")));
    }
    assert!(
        wrong.is_empty(),
        "a row of the crate's causes.rs instead: {wrong:#?}"
    );
    for (line, is_one) in [
        ("return Err(Failure::new(Kind::Usage, text));", true),
        ("diag.error(&Failure {", true),
        ("failure.message = format!(\"{why}\");", true),
        ("fn failed(&self) -> Failure {", false),
        ("impl From<LockError> for Failure {", false),
    ] {
        assert_eq!(makes(line), is_one, "{line}");
    }
}

/// A message without its values.
fn bare(message: &str) -> String {
    let parts = message.split('{');
    let parts = parts.map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    parts.collect::<Vec<_>>().join("{}")
}

/// Whether it begins with a word of the language that has a capital letter; names have more of them.
fn begins_large(message: &str) -> bool {
    let mut letters = message.chars();
    let first = letters.next().is_some_and(char::is_uppercase);
    first && letters.next().is_none_or(char::is_lowercase)
}

#[test]
fn a_message_is_one_of_its_own_and_no_sentence() {
    let rows = messages::rows(xtask::top()).unwrap();
    let failures: Vec<_> = rows.iter().filter(|row| row.kind.is_some()).collect();
    assert!(failures.len() > 100, "{}", failures.len());
    let (mut places, mut wrong) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
    for row in failures {
        let place = format!("{}: {}::{}", row.folder, row.table, row.name);
        for message in row.shown(&row.message, &rows) {
            let ends = message.ends_with('.') && !message.ends_with("...");
            if ends || begins_large(&message) {
                wrong.push(format!("{place}: {message}"));
            }
        }
        let bare = bare(&row.message);
        // One without words has those of its part.
        if bare.contains(char::is_alphabetic) {
            let status = format!("{:?}", row.kind);
            places.entry((status, bare)).or_default().push(place);
        }
    }
    assert!(
        wrong.is_empty(),
        "a capital letter first, or a period: {wrong:#?}"
    );
    places.retain(|_, rows| rows.len() > 1);
    assert!(places.is_empty(), "the same message: {places:#?}");
    assert!(begins_large("It is lost") && !begins_large("GPU 0 is lost"));
    assert_eq!(bare("lock {path}: {why}"), "lock {}: {}");
}
