//! Every test that SEEDS.md names exists, in the file that the table gives.

use std::fs;
use std::path::Path;

#[test]
fn every_test_that_the_table_of_earlier_systems_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("tests/SEEDS.md")).unwrap();
    let mut named = 0;
    for row in table
        .lines()
        .filter(|line| line.starts_with("| E") || line.starts_with("| B"))
    {
        let (mut file, mut text) = (String::new(), String::new());
        // Every second piece is between backticks. A function belongs to the file before
        // it.
        for word in row.split('`').skip(1).step_by(2) {
            if word.ends_with(".rs") {
                // A file of the suite, or a path from the top.
                let suite = root.join("tests/suite/tests").join(word);
                let path = if suite.exists() {
                    suite
                } else {
                    root.join(word)
                };
                word.clone_into(&mut file);
                text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{word}: {error}"));
            } else if word.contains('_') && !word.contains([' ', '-', '/']) {
                assert!(
                    text.contains(&format!("fn {word}(")) || text.contains(&format!("{word}:")),
                    "{file}: no {word}"
                );
                named += 1;
            }
        }
    }
    assert!(
        named > 80,
        "{named}: the table is not read as it is written"
    );
}
