//! The fields of `getgpu --list --json` stand in its schema, in the Python package's
//! dataclasses and on the man page: all name the same ones.

use std::collections::BTreeSet;

use serde_json::Value;

const SCHEMA: &str = "etc/list.schema.json";
const PYTHON: &str = "packaging/python/src/cudawrap/_devices.py";
const PAGE: &str = "xtask/pages/getgpu.1";

fn read(path: &str) -> String {
    std::fs::read_to_string(xtask::top().join(path)).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&read(SCHEMA)).unwrap()
}

/// The fields of a dataclass of the Python package.
fn fields(python: &str, class: &str) -> BTreeSet<String> {
    let (_, body) = python.split_once(&format!("class {class}:\n")).unwrap();
    let body = body.lines().take_while(|line| {
        let ends = line.trim_start().starts_with(['@', 'd']) || line.starts_with('@');
        !ends || line.contains(": ")
    });
    let names = body.filter_map(|line| {
        let (name, _) = line.strip_prefix("    ")?.split_once(": ")?;
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        (is_name && !name.is_empty()).then(|| name.to_owned())
    });
    names.collect()
}

/// Fails with the names that only one of both has.
fn assert_same(place: &str, names: &BTreeSet<String>, known: &BTreeSet<String>) {
    let missing: Vec<_> = known.difference(names).collect();
    let unknown: Vec<_> = names.difference(known).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "{place}: add {missing:?}, remove {unknown:?}, as in the properties of {SCHEMA}"
    );
}

/// The names of all fields below `schema`, and the words that they may have as values.
fn names_and_words(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            let names = parts.get("properties").and_then(Value::as_object);
            found.extend(names.into_iter().flat_map(|names| names.keys().cloned()));
            let words = parts.get("enum").and_then(Value::as_array);
            let words = words.into_iter().flatten().filter_map(Value::as_str);
            found.extend(words.map(str::to_owned));
            for part in parts.values() {
                names_and_words(part, found);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| names_and_words(part, found)),
        _ => {}
    }
}

/// The words of a text in which roff's fonts and escaped hyphens are plain.
fn words(text: &str) -> BTreeSet<String> {
    let text = text
        .replace("\\fB", "")
        .replace("\\fR", "")
        .replace("\\-", "-");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.map(str::to_owned).collect()
}

#[test]
fn python_has_the_fields_of_the_schema() {
    let (schema, python) = (schema(), read(PYTHON));
    let devices = &schema["properties"]["devices"]["items"];
    let parts = &devices["properties"];
    for (class, object) in [
        ("Device", devices),
        ("Holder", &parts["holders"]["items"]),
        ("Process", &parts["processes"]["items"]),
    ] {
        let known = object["properties"].as_object().unwrap();
        let known: BTreeSet<String> = known.keys().cloned().collect();
        let required = object["required"].as_array().unwrap().iter();
        let required = required.map(|name| name.as_str().unwrap().to_owned());
        let of_schema = format!("`required` of each {class} in {SCHEMA}");
        assert_same(&of_schema, &required.collect(), &known);
        let of_python = format!("class {class} in {PYTHON}");
        assert_same(&of_python, &fields(&python, class), &known);
    }
}

#[test]
fn python_has_the_words_of_the_schema() {
    let (schema, python) = (schema(), read(PYTHON));
    let device = &schema["properties"]["devices"]["items"]["properties"];
    let holder = &device["holders"]["items"]["properties"];
    for (field, object) in [("state", device), ("kind", holder)] {
        let (_, behind) = python.split_once(&format!("    {field}: str\n")).unwrap();
        let comment = words(behind.lines().next().unwrap());
        let known = object[field]["enum"].as_array().unwrap().iter();
        let known = known.map(|word| word.as_str().unwrap().to_owned());
        let missing: Vec<_> = known.filter(|word| !comment.contains(word)).collect();
        assert!(
            missing.is_empty(),
            "{PYTHON}: the text of `{field}` lacks {missing:?}"
        );
    }
}

#[test]
fn the_page_has_the_fields_and_words_of_the_schema() {
    let page = read(PAGE);
    let (_, section) = page.split_once(".SH \"THE LIST\"").unwrap();
    let (section, _) = section.split_once("\n.SH ").unwrap();
    let mut known = BTreeSet::new();
    names_and_words(&schema(), &mut known);
    let missing: Vec<_> = known.difference(&words(section)).cloned().collect();
    assert!(
        missing.is_empty(),
        "THE LIST of {PAGE}: add {missing:?}, as in {SCHEMA}, and run cargo run -p xtask"
    );
}
