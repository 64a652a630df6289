//! docs/TROUBLESHOOTING.md quotes messages: each has to be one that a program can print, so
//! that a search of the page for a line finds it.

use std::path::{Path, PathBuf};

/// Shorter pieces of a message say too little of it.
const TELLING: usize = 9;

/// What the sources write around a part, or the page around a piece.
const ENDS: &[char] = &[':', ';', ',', '(', ')', '.', '`'];

/// Programs, users and options of the page's examples.
const EXAMPLES: [&str; 4] = ["app", "ana", "ben", "wait"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All source files of the products below `folder`.
fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name == "causes.rs" {
            // Its texts are read as they are printed, each with its parts.
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            found.extend(code.flat_map(|line| [line, "\n"]));
        }
    }
}

/// The first column's messages, which are between backticks.
fn messages(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let columns = rows.filter_map(|row| row[2..].split(" | ").next());
    columns
        .flat_map(|column| {
            let column = column.replace("``", "\u{1}");
            let mark = if column.contains('\u{1}') {
                '\u{1}'
            } else {
                '`'
            };
            let quoted = column.split(mark).skip(1).step_by(2);
            quoted.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// The pieces of a message that are the same in each: without numbers, names of
/// variables, paths and what the page leaves out.
fn pieces(message: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in message.replace('(', "... ").split(' ') {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
        let varies = bare.is_empty()
            || word.contains("...")
            || word.contains(['/', '_'])
            || EXAMPLES.contains(&bare)
            || bare.contains(|c: char| c.is_ascii_digit());
        let last = pieces.last_mut().unwrap();
        if varies {
            pieces.push(String::new());
        } else if last.is_empty() {
            *last = word.to_owned();
        } else {
            *last = format!("{last} {word}");
        }
    }
    let ends: &[_] = &[':', ';', ',', '(', ')', '.', '`'];
    let trimmed = pieces
        .iter()
        .map(|piece| piece.trim_matches(ends).to_owned());
    trimmed.filter(|piece| piece.len() >= TELLING).collect()
}

/// Whether a program can print this piece: it stands in the sources, cut only where a literal
/// or a placeholder ends and another one begins.
fn can_print(text: &str, piece: &str) -> bool {
    let words: Vec<&str> = piece.split(' ').collect();
    let mut from = 0;
    while from < words.len() {
        let fits = |end: &usize| {
            let part = words[from..*end].join(" ");
            stands(text, part.trim_matches(ENDS), from > 0, *end < words.len())
        };
        let Some(end) = (from + 1..=words.len()).rev().find(fits) else {
            return false;
        };
        from = end;
    }
    true
}

/// Whether the sources have `part`, where it is cut right behind a literal or a placeholder,
/// or right before one.
fn stands(text: &str, part: &str, is_cut_before: bool, is_cut_behind: bool) -> bool {
    let around = |c: char| ENDS.contains(&c) || c == ' ';
    text.match_indices(part).any(|(place, _)| {
        let before = text[..place].trim_end_matches(around);
        let behind = text[place + part.len()..].trim_start_matches(around);
        (!is_cut_before || before.ends_with(['}', '"']))
            && (!is_cut_behind || behind.starts_with(['{', '"']))
    })
}

#[test]
fn troubleshooting_quotes_what_the_programs_print() {
    let mut text = String::new();
    for product in ["common", "getgpu", "cudawrap", "create-cudawrap/src"] {
        sources(&root().join(product), &mut text);
    }
    let rows = xtask::messages::rows(&root()).unwrap();
    for row in &rows {
        for shown in row.shown(&row.message, &rows) {
            text += &format!("\"{shown}\"\n");
        }
    }
    // What the kernel and the standard library say.
    text += "exit status: ";
    for errno in 1..134 {
        text += &std::io::Error::from_raw_os_error(errno).to_string();
    }
    // A literal may go on in the next line.
    let text = text.split("\\\n").map(str::trim_start).collect::<String>();
    let page = std::fs::read_to_string(root().join("docs/TROUBLESHOOTING.md")).unwrap();
    let messages = messages(&page);
    assert!(messages.len() > 40, "{messages:?}");
    let unknown: Vec<(&String, Vec<String>)> = messages
        .iter()
        .filter_map(|message| {
            let mut missing = pieces(message);
            missing.retain(|piece| !can_print(&text, piece));
            (!missing.is_empty()).then_some((message, missing))
        })
        .collect();
    assert!(unknown.is_empty(), "no program prints these: {unknown:#?}");
}
