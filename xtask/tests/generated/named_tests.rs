//! The tests that pages name exist: a guarantee without one is a promise only.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a page has between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a name is that of a theme, of one of its modules, or of a file.
fn exists(name: &str) -> bool {
    let at = |path: String| root().join(path).exists();
    match name.split_once("::") {
        None if name.contains('/') => at(name.to_owned()),
        None => at(format!("tests/suite/tests/{name}/main.rs")),
        Some((theme, module)) => {
            let module = module.split("::").next().unwrap_or_default();
            let folder = format!("tests/suite/tests/{theme}/{module}");
            at(format!("{folder}.rs")) || at(folder)
        }
    }
}

#[test]
fn each_test_that_a_page_names_exists() {
    for page in ["docs/GUARANTEES.md", "docs/LESSONS.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let rows = text
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains('`'));
        let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
        let missing: Vec<&str> = cells
            .flat_map(quoted)
            .filter(|name| !exists(name))
            .collect();
        assert!(missing.is_empty(), "{page}: {missing:?}");
    }
}
