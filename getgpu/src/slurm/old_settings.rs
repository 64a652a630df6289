//! The file in which earlier versions had the settings of the hooks, as shell variables.
//! Lines of the form NAME=VALUE still count where config.toml says nothing, and the lines
//! that say the same in config.toml are shown. Nothing is executed: a line that only a
//! shell could tell about is an error of the site if it names a setting.

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
    let assigned = match assignments(&text) {
        Ok(assigned) => assigned,
        Err(failure) => return (Vec::new(), Some(failure)),
    };
    let (mut moved, mut wrong) = (Vec::new(), None);
    for (name, value) in assigned {
        let Some((_, key, form)) = NAMES.iter().find(|(known, ..)| *known == name) else {
            continue;
        };
        let texts = texts(value, *form);
        moved.push(line(key, &texts, *form));
        let set = loaded.sources.iter().find(|(known, _)| known == key);
        let by_file = set.is_some_and(|(_, source)| matches!(source, Source::File(_)));
        if !by_file && let Err(failure) = loaded.put(key, &texts, &format!("{PATH}: {name}")) {
            wrong = Some(Failure::new(Kind::Usage, failure.message));
        }
    }
    (moved, wrong)
}

/// The names and values of the lines; other commands of a shell say nothing.
fn assignments(text: &str) -> Result<Vec<(&str, &str)>, Failure> {
    let mut assigned = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line
            .split_once(" #")
            .map_or(line, |(before, _)| before)
            .trim();
        if line.starts_with('#') {
            continue;
        }
        match assignment(line) {
            Some(found) => assigned.push(found),
            None if line.contains("GETGPU_SLURM_") || leaves_quote_open(line) => {
                let place = number + 1;
                let text = format!("{PATH}:{place}: not of the form NAME=VALUE");
                let hint = "move the settings to config.toml, [slurm]";
                return Err(Failure::new(Kind::Usage, text).hint(hint));
            }
            None => {}
        }
    }
    Ok(assigned)
}

/// Whether the lines behind this one may be part of a text in quotes.
fn leaves_quote_open(line: &str) -> bool {
    ['\'', '"']
        .iter()
        .any(|quote| line.matches(*quote).count() % 2 == 1)
}

/// `export NAME='VALUE'`, where nothing in the value means anything to a shell but the
/// quotes around it.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line
        .strip_prefix("export ")
        .unwrap_or(line)
        .split_once('=')?;
    let unquoted = ['\'', '"'].into_iter().find_map(|quote| {
        let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(['\'', '"'])).then_some(inner)
    });
    let meant = match unquoted {
        Some(inner) => inner,
        None if value.contains([' ', '\t', ';', '&', '|', '<', '>', '(', ')', '\'', '"']) => {
            return None;
        }
        None => value,
    };
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !meant.contains(['$', '`', '\\']);
    is_plain.then_some((name, meant))
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
        for (old, expected) in [
            ("A=600", Some(("A", "600"))),
            ("export A='--gpu 3'", Some(("A", "--gpu 3"))),
            ("A=\"x=1/2 y=1/4\"", Some(("A", "x=1/2 y=1/4"))),
            ("A=", Some(("A", ""))),
            ("A='x", None),
            ("A=x y", None),
            ("A=$B", None),
            ("A=\"`x`\"", None),
            ("A='a'b'c'", None),
            ("A=1; B=2", None),
            (". /etc/other", None),
            ("if true", None),
        ] {
            assert_eq!(assignment(old), expected, "{old}");
        }
        let text = "# GETGPU_SLURM_x\n\nA='1' # y\ntouch x\n";
        assert_eq!(assignments(text).unwrap(), [("A", "1")]);
        for wrong in [": ${GETGPU_SLURM_WAIT:=1}", "A='x\nB=1\n'"] {
            let message = assignments(wrong).unwrap_err().message;
            assert!(message.ends_with("getgpu-slurm:1: not of the form NAME=VALUE"));
        }
        for (key, value, form, expected) in [
            ("slurm.wait", "600", Form::Text, "\"600\""),
            ("slurm.strict", "0", Form::Truth, "false"),
            (
                "slurm.shares",
                "a=1/2 b=1/4",
                Form::List,
                "[\"a=1/2\",\"b=1/4\"]",
            ),
        ] {
            let line = line(key, &texts(value, form), form);
            assert_eq!(line, format!("{key} = {expected}"));
        }
    }
}
