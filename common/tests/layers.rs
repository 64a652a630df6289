//! The layers of this crate: the table at the head of `lib.rs` names every module, and no
//! module uses one of a later row.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The row of each module.
fn layers(table: &str) -> HashMap<String, usize> {
    let rows = table.lines().filter(|line| line.starts_with("//! | "));
    let named = rows.enumerate().flat_map(|(row, line)| {
        let words = line.split('`').skip(1).step_by(2);
        words.map(move |module| (module.to_owned(), row))
    });
    named.collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn no_module_uses_one_of_a_later_layer() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    let layers = layers(&lib);
    let modules: HashSet<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let missing: Vec<_> = modules
        .iter()
        .filter(|name| !layers.contains_key(**name))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
    let mut wrong = Vec::new();
    for file in files(&source) {
        let path = file.strip_prefix(&source).unwrap().with_extension("");
        let module = path.iter().next().unwrap().to_str().unwrap();
        let Some(own) = layers.get(module) else {
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        for used in text.split("crate::").skip(1) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
            let used = &used[..end.unwrap_or(used.len())];
            if layers.get(used).is_some_and(|layer| layer > own) {
                wrong.push(format!("{} uses {used}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
