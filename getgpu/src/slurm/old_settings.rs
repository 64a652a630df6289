//! The file in which earlier versions had the settings of the hooks, as shell variables.
//! Its plain lines `NAME=VALUE` still count where config.toml says nothing, and the lines
//! that say the same in config.toml are shown; nothing in it is executed.

use getgpu_common::error::{Failure, Kind};
use getgpu_common::settings::{Loaded, Source, quoted};

/// The file.
pub const PATH: &str = "/etc/default/getgpu-slurm";

/// What a value becomes.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// `1` or `0`.
    Truth,
    /// Words at blanks become a list.
    List,
}

const NAMES: [(&str, &str, Form); 7] = [
    ("GETGPU_SLURM_TASKS", "slurm.tasks", Form::Text),
    ("GETGPU_SLURM_STRICT", "slurm.strict", Form::Truth),
    ("GETGPU_SLURM_TIMEOUT", "slurm.timeout", Form::Text),
    ("GETGPU_SLURM_SHARES", "slurm.shares", Form::List),
    ("GETGPU_SLURM_OPTIONS", "slurm.options", Form::Text),
    ("GETGPU_SLURM_WAIT", "slurm.wait", Form::Text),
    ("GETGPU_SLURM_OLD", "slurm.old", Form::Text),
];

/// Puts in force what the file says and config.toml does not. Gives the lines for
/// config.toml, and what is wrong with the file.
pub fn apply(loaded: &mut Loaded) -> (Vec<String>, Option<Failure>) {
    let text = std::fs::read_to_string(PATH).unwrap_or_default();
    let mut wrong = None;
    let mut moved = Vec::new();
    let lines: Vec<(&str, String)> = text.lines().filter_map(assignment).collect();
    for (name, key, form) in &NAMES {
        // The last one counts, as in a shell.
        let Some((_, value)) = lines.iter().rfind(|(known, _)| known == name) else {
            continue;
        };
        let texts = texts(value, *form);
        moved.push(line(key, &texts, *form));
        let set = loaded.sources.iter().find(|(known, _)| known == key);
        if set.is_some_and(|(_, source)| !matches!(source, Source::BuiltIn)) {
            continue;
        }
        if let Err(failure) = loaded.put(key, &texts, &format!("{PATH}: {name}")) {
            wrong = Some(Failure::new(Kind::Usage, failure.message));
        }
    }
    (moved, wrong)
}

/// `NAME=VALUE`, `export NAME='VALUE'`, with a comment behind it.
fn assignment(line: &str) -> Option<(&str, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, rest) = line.split_once('=')?;
    let value = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].split(quote).next(),
        _ => rest.split([' ', '\t', '#', ';']).next(),
    };
    Some((name, value.unwrap_or_default().to_owned()))
}

fn texts(value: &str, form: Form) -> Vec<String> {
    match form {
        Form::Text => vec![value.to_owned()],
        Form::Truth => vec![(value == "1").to_string()],
        Form::List => value.split_whitespace().map(str::to_owned).collect(),
    }
}

/// The line for config.toml.
fn line(key: &str, texts: &[String], form: Form) -> String {
    match (form, texts) {
        (Form::Text, [text]) => format!("{key} = {}", quoted(text)),
        (Form::Truth, [text]) => format!("{key} = {text}"),
        _ => format!("{key} = {}", quoted(texts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_shell_become_lines_of_the_settings_file() {
        for (old, name, value) in [
            ("GETGPU_SLURM_WAIT=600", "GETGPU_SLURM_WAIT", "600"),
            (
                "  export GETGPU_SLURM_OPTIONS='--gpu 3' # x",
                "GETGPU_SLURM_OPTIONS",
                "--gpu 3",
            ),
            ("GETGPU_SLURM_SHARES=", "GETGPU_SLURM_SHARES", ""),
            ("GETGPU_SLURM_STRICT=1 # strict", "GETGPU_SLURM_STRICT", "1"),
        ] {
            assert_eq!(assignment(old), Some((name, value.to_owned())), "{old}");
        }
        assert_eq!(assignment("# nothing"), None);
        let line = |key, value, form| line(key, &texts(value, form), form);
        assert_eq!(
            line("slurm.wait", "600", Form::Text),
            "slurm.wait = \"600\""
        );
        assert_eq!(
            line("slurm.strict", "0", Form::Truth),
            "slurm.strict = false"
        );
        assert_eq!(
            line("slurm.shares", "a=1/2 b=1/4", Form::List),
            "slurm.shares = [\"a=1/2\",\"b=1/4\"]"
        );
    }
}
