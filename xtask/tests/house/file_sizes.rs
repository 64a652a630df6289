//! A file of the products has at most 400 lines and says at its head what it is for, so that a
//! reader can take it in at once.

use xtask::size;

const MOST_LINES: usize = 400;

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let top = xtask::top();
    let mut wrong = Vec::new();
    for file in size::products(top).unwrap() {
        let text = std::fs::read_to_string(top.join(&file)).unwrap();
        let lines = text.lines().count();
        if lines > MOST_LINES {
            wrong.push(format!(
                "{file} has {lines} lines, at most {MOST_LINES}: move one of its tasks into a file of its own"
            ));
        }
        if !text.contains("//! ") {
            wrong.push(format!(
                "{file} has no head: say in two sentences what it is for"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
