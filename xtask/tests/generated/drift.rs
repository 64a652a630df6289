//! What is checked in under man/ and completions/ is what the tables give now, and nothing
//! else lies there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn what_is_checked_in_is_what_the_tables_say() {
    for made in xtask::all() {
        let path = xtask::top().join(&made.path);
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == made.text,
            "{} is not what the tables say: cargo run -p xtask",
            path.display()
        );
        // Every place of a page is filled.
        let is_page = path.starts_with(xtask::top().join("man"));
        assert!(!is_page || !made.text.contains("\n@"), "{}", made.text);
    }
}

#[test]
fn the_address_is_that_of_cargo_toml() {
    for made in xtask::address::all().unwrap() {
        let there = std::fs::read_to_string(xtask::top().join(&made.path)).unwrap();
        let path = made.path.display();
        assert!(
            there == made.text,
            "{path} has another address than Cargo.toml: cargo run -p xtask"
        );
    }
}

#[test]
fn nothing_else_lies_there() {
    let made = xtask::all()
        .into_iter()
        .map(|made| xtask::top().join(made.path));
    let made: BTreeSet<PathBuf> = made.collect();
    let completions = ["bash", "zsh", "fish"].map(|shell| format!("completions/{shell}"));
    let directories = ["man".to_owned()].into_iter().chain(completions);
    let there = directories.flat_map(|directory| files(&xtask::top().join(directory)));
    assert_eq!(made, there.collect::<BTreeSet<_>>());
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
