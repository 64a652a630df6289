//! The fields of `getgpu --list --json` stand in its schema and in the Python package's
//! dataclasses, too: both name the same ones.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

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

#[test]
fn python_has_the_fields_of_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let schema: Value = serde_json::from_str(&read("etc/list.schema.json")).unwrap();
    let python = read("packaging/python/src/cudawrap/_devices.py");
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
        assert_eq!(
            required.collect::<BTreeSet<_>>(),
            known,
            "required of {class}"
        );
        assert_eq!(fields(&python, class), known, "{class}");
    }
}
