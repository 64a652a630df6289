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
fn nothing_else_lies_there() {
    let made: BTreeSet<PathBuf> = xtask::all()
        .into_iter()
        .map(|made| xtask::top().join(made.path))
        .collect();
    let mut there = BTreeSet::new();
    for directory in [
        "man",
        "completions/bash",
        "completions/zsh",
        "completions/fish",
    ] {
        there.extend(files(&xtask::top().join(directory)));
    }
    assert_eq!(made, there);
}

fn files(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}
