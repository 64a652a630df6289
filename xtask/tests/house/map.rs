//! The map of docs/ARCHITECTURE.md has a row for each folder of the products, and what a row names
//! in code type is a file there.

use std::collections::BTreeSet;

use xtask::size;

#[test]
fn the_map_has_each_folder_and_names_files_of_it() {
    let top = xtask::top();
    let text = std::fs::read_to_string(top.join("docs/ARCHITECTURE.md")).unwrap();
    let files = size::products(top).unwrap();
    let folder = |file: &String| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let mut lacking: BTreeSet<String> = files.iter().filter_map(folder).collect();
    let mut unknown = Vec::new();
    let is_row = |row: &&str| row.starts_with("| `") && row.contains("/src/");
    for row in text.lines().filter(is_row) {
        let mut words = row.split('`').skip(1).step_by(2);
        let folder = words.next().unwrap().trim_end_matches('/');
        lacking.remove(folder);
        let named = words.map(|word| format!("{folder}/{word}.rs"));
        unknown.extend(named.filter(|file| !files.contains(file)));
    }
    lacking.retain(|folder| folder.contains("/src"));
    assert!(lacking.is_empty(), "the map has no row for {lacking:?}");
    assert!(unknown.is_empty(), "the map names {unknown:?}");
}
