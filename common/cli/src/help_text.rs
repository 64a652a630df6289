//! The form of what stands around a program's options: examples, exit statuses,
//! variables, once for the help and the man page. The help is made here; the man page by
//! the package `xtask`.

use std::ffi::OsString;

use clap::Command;

/// What a program's help and man page say beside its options.
#[derive(Clone, Copy, Debug)]
pub struct HelpText {
    /// What it is for, in one line without a full stop.
    pub about: &'static str,
    /// The options that `-h` shows, by their long names; none: it shows all.
    pub common: &'static [&'static str],
    /// Words between the options and the examples; may be empty.
    pub note: &'static str,
    /// What a user wants to do, and the line to type.
    pub examples: &'static [(&'static str, &'static str)],
    /// Exit statuses and what they mean.
    pub exit: &'static [(&'static str, &'static str)],
    /// Variables that are read, and what they mean.
    pub environment: &'static [(&'static str, &'static str)],
}

/// The widest help in columns, and how wide it is where there is no terminal.
pub(crate) const WIDEST: usize = 100;

/// Which help is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpLength {
    /// `-h`: the common options.
    Brief,
    /// `--help`: everything.
    Full,
}

impl HelpLength {
    /// By the words that were typed, of which one asks for help.
    pub fn by<'a>(words: impl IntoIterator<Item = &'a OsString>) -> Self {
        if words.into_iter().any(|word| word == "--help") {
            Self::Full
        } else {
            Self::Brief
        }
    }
}

impl HelpText {
    /// The whole text for a program's parser, as wide as the terminal.
    pub fn text(&self, command: Command, asked: HelpLength) -> String {
        if asked == HelpLength::Full || self.common.is_empty() {
            let mut command = command;
            return format!("{}\n{}\n", command.render_help(), self.after(width()));
        }
        let name = command.get_name().to_owned();
        let mut brief = command.mut_args(|arg| {
            let shown = arg.is_positional()
                || arg
                    .get_long()
                    .is_some_and(|long| self.common.contains(&long));
            arg.hide(!shown)
        });
        format!(
            "{}\n{name} --help lists all options, examples and exit statuses; so does man {name}.\n",
            brief.render_help()
        )
    }

    /// What follows the options in the help.
    fn after(&self, width: usize) -> String {
        let examples = self
            .examples
            .iter()
            .map(|(what, line)| format!("  {what}:\n    {line}\n"))
            .collect::<String>();
        let parts = [
            ("", wrapped("", self.note, 0, width)),
            ("Examples:\n", examples),
            ("Exit status:\n", list(self.exit, width)),
            ("Environment:\n", list(self.environment, width)),
        ];
        let shown = parts.iter().filter(|(_, body)| !body.is_empty());
        let shown: Vec<String> = shown
            .map(|(head, body)| format!("{head}{}", body.trim_end()))
            .collect();
        shown.join("\n\n")
    }
}

/// As clap wraps the options: the terminal's width, [`WIDEST`] at most.
fn width() -> usize {
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    terminal
        .or_else(|| std::env::var("COLUMNS").ok()?.parse().ok())
        .unwrap_or(WIDEST)
        .clamp(40, WIDEST)
}

/// Names on the left, meanings on the right.
fn list(lines: &[(&str, &str)], width: usize) -> String {
    let column = lines
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0)
        + 4;
    lines
        .iter()
        .map(|(name, meaning)| {
            format!(
                "{}\n",
                wrapped(&format!("  {name:<0$}", column - 2), meaning, column, width)
            )
        })
        .collect()
}

/// `start` and then `text`, broken between words at `width`, further lines indented to
/// `column`.
fn wrapped(start: &str, text: &str, column: usize, width: usize) -> String {
    let mut lines = vec![start.to_owned()];
    let mut fresh = true;
    for word in text.split_whitespace() {
        if let Some(line) = lines.last_mut()
            && (fresh || line.chars().count() + 1 + word.chars().count() <= width)
        {
            line.push_str(if fresh { "" } else { " " });
            line.push_str(word);
            fresh = false;
            continue;
        }
        lines.push(format!("{:column$}{word}", ""));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_aligned_and_broken_between_words() {
        let long = "word ".repeat(30);
        let long: &str = Box::leak(long.trim().to_owned().into_boxed_str());
        let environment = Box::leak([("A", "one"), ("LONGER", long)].into());
        let guide = HelpText {
            about: "",
            common: &[],
            note: "",
            examples: &[("do", "x")],
            exit: &[],
            environment,
        };
        let after = guide.after(80);
        let start = "Examples:\n  do:\n    x\n\nEnvironment:\n  A       one\n  LONGER  word";
        assert!(after.starts_with(start), "{after}");
        assert!(after.lines().all(|line| line.len() <= 80), "{after}");
        assert_eq!(after.matches("word").count(), 30);
        let last = after.lines().last().unwrap();
        assert!(last.starts_with("          word"), "{after}");
    }
}
