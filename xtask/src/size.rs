//! `cargo run -p xtask -- size`: lines of code of the products by folder, without comments, blank
//! lines and tests, as docs/ARCHITECTURE.md quotes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Where the tests of a file begin.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// A table with a line for each folder, the largest first, and the total.
///
/// # Errors
///
/// git does not list the files, or one of them cannot be read.
pub fn table(top: &Path) -> Result<String, String> {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for name in products(top)? {
        let text = std::fs::read_to_string(top.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        let (folder, _) = name.rsplit_once('/').unwrap_or(("", &name));
        *folders.entry(folder.to_owned()).or_default() += code_lines(&text).count();
    }
    let total: usize = folders.values().sum();
    let mut folders: Vec<(String, usize)> = folders.into_iter().collect();
    folders.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    let rows = folders
        .iter()
        .map(|(folder, lines)| format!("{lines:6} {folder}\n"));
    Ok(rows.collect::<String>() + &format!("{total:6} in all\n"))
}

/// The source files of the products, tests left out.
///
/// # Errors
///
/// git does not list them.
pub fn products(top: &Path) -> Result<Vec<String>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(top)
        .output();
    let listed = listed.map_err(|e| format!("git ls-files: {e}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(names
        .lines()
        .filter(|name| is_product(name))
        .map(str::to_owned)
        .collect())
}

fn is_product(name: &str) -> bool {
    let is_test = name.starts_with("tests/") || name.contains("/tests/");
    !is_test && !name.ends_with("_tests.rs") && !name.ends_with("_properties.rs")
}

/// A file up to its tests.
pub fn without_tests(text: &str) -> &str {
    text.split(TESTS).next().unwrap_or_default()
}

/// Lines that are neither blank nor a comment, up to the tests.
pub fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = without_tests(text).lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_products_counts() {
        let text =
            format!("//! A file.\n\nuse x;\n// Why.\nfn f() {{}}\n\n{TESTS}\nfn t() {{}}\n}}\n");
        assert_eq!(code_lines(&text).count(), 2);
        for (name, counts) in [
            ("common/model/src/share.rs", true),
            ("common/choose/src/pool_tests.rs", false),
            ("create-cudawrap/tests/toggle.rs", false),
            ("tests/suite/src/lib.rs", false),
        ] {
            assert_eq!(is_product(name), counts, "{name}");
        }
    }
}
