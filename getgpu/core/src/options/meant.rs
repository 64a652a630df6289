//! What a user meant who typed a word where only an INDEX can stand: an option without
//! its dashes, another program's subcommand, or a program to be run.

use getgpu_linux::can_run;

use super::table::command;

/// What other programs call what an option does here.
const INSTEAD: [(&str, &str); 6] = [
    ("status", "--list"),
    ("ls", "--list"),
    ("ps", "--list"),
    ("top", "--watch"),
    ("available", "--count-free"),
    ("memory", "--min-memory"),
];

/// The hint for `words`, the first of which is no number.
pub fn hint(words: &[String]) -> Option<String> {
    let first = words.first()?.as_str();
    if command()
        .get_arguments()
        .any(|arg| arg.get_long() == Some(first))
    {
        return Some(format!("did you mean getgpu --{first}?"));
    }
    if let Some((_, option)) = INSTEAD.iter().find(|(word, _)| *word == first) {
        return Some(format!("did you mean getgpu {option}?"));
    }
    is_program(first).then(|| format!("did you mean cudawrap -- {}?", words.join(" ")))
}

/// A path, or the name of a program in PATH.
fn is_program(word: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    word.contains('/')
        || std::env::split_paths(&path).any(|directory| can_run(&directory.join(word)))
}
