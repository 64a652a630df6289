//! A type has a name that no other type of the products has, public or private.

use std::collections::BTreeMap;

use xtask::size;

/// The types that a file defines, by name. What `words!` makes has its name on a line of its own.
fn types(text: &str) -> Vec<String> {
    let mut in_words = false;
    let mut found = Vec::new();
    for line in size::without_tests(text).lines() {
        in_words = (in_words || line == "words! {") && line != "}";
        let made = line
            .strip_prefix("    ")
            .filter(|name| in_words && name.starts_with(char::is_uppercase));
        found.extend(made.or_else(|| defined(line)).map(identifier));
    }
    found
}

/// What follows `struct`, `enum`, `trait` or `type`. A `type` of a trait is indented.
fn defined(line: &str) -> Option<&str> {
    let line = match line.trim_start().strip_prefix("pub") {
        Some(scoped) if scoped.starts_with('(') => scoped.split_once(") ")?.1,
        Some(public) => public.strip_prefix(' ')?,
        None if line.starts_with(' ') && line.trim_start().starts_with("type ") => return None,
        None => line.trim_start(),
    };
    ["struct ", "enum ", "trait ", "type "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))
}

fn identifier(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    text[..end.unwrap_or(text.len())].to_owned()
}

#[test]
fn no_two_types_have_one_name() {
    let top = xtask::top();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in size::products(top).unwrap() {
        let text = std::fs::read_to_string(top.join(&file)).unwrap();
        for name in types(&text) {
            places.entry(name).or_default().push(file.clone());
        }
    }
    assert!(places.contains_key("Policy") && places.contains_key("LockFile"));
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "{places:#?}");
}

#[test]
fn types_are_found_however_they_are_written() {
    let text = "struct A;\npub(super) enum B<T> {\n    C,\n}\n    pub struct D {\nimpl X for Y {\n    type E = u8;\n}\n\
                words! {\n    /// Doc.\n    F {\n        G = \"g\",\n    }\n}\npub type H = u8;\n";
    assert_eq!(types(text), ["A", "B", "D", "F", "H"]);
}
