//! The form of what stands around a program's options: examples, exit statuses,
//! variables, once for the help and the man page. The help is made here; the man page by
//! the package `xtask`.

/// What a program's help and man page say beside its options.
#[derive(Clone, Copy, Debug)]
pub struct HelpText {
    /// What it is for, in one line without a full stop.
    pub about: &'static str,
    /// Words between the options and the examples; may be empty.
    pub note: &'static str,
    /// What somebody wants to do, and the line to type.
    pub examples: &'static [(&'static str, &'static str)],
    /// Exit statuses and what they mean.
    pub exit: &'static [(&'static str, &'static str)],
    /// Variables that are read, and what they mean.
    pub environment: &'static [(&'static str, &'static str)],
}

/// The widest line of the help's lists, so that it fits a terminal of 100 columns.
const WIDTH: usize = 96;

impl HelpText {
    /// What follows the options in the help.
    pub fn after(&self) -> String {
        let examples = self
            .examples
            .iter()
            .map(|(what, line)| format!("  {what}:\n    {line}\n"))
            .collect::<String>();
        let parts = [
            (
                String::new(),
                if self.note.is_empty() {
                    String::new()
                } else {
                    format!("{}\n", wrapped("", self.note, 0))
                },
            ),
            ("Examples:\n".to_owned(), examples),
            ("Exit status:\n".to_owned(), list(self.exit)),
            ("Environment:\n".to_owned(), list(self.environment)),
        ];
        let shown: Vec<String> = parts
            .iter()
            .filter(|(_, body)| !body.is_empty())
            .map(|(head, body)| format!("{head}{body}"))
            .collect();
        shown.join("\n").trim_end().to_owned()
    }
}

/// Names on the left, meanings on the right.
fn list(lines: &[(&str, &str)]) -> String {
    let column = lines
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0)
        + 4;
    let line = |(name, meaning): &(&str, &str)| {
        format!(
            "{}\n",
            wrapped(
                &format!("  {name:<width$}", width = column - 2),
                meaning,
                column
            )
        )
    };
    lines.iter().map(line).collect()
}

/// `start` and then `text`, broken between words, further lines indented to `column`.
fn wrapped(start: &str, text: &str, column: usize) -> String {
    let mut lines = vec![start.to_owned()];
    let mut fresh = true;
    for word in text.split_whitespace() {
        if let Some(line) = lines.last_mut()
            && (fresh || line.chars().count() + 1 + word.chars().count() <= WIDTH)
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
        let environment = [("A", "one"), ("LONGER", long.trim())];
        let environment: &'static [(&'static str, &'static str)] = Box::leak(
            environment
                .map(|(a, b)| (a, &*Box::leak(b.to_owned().into_boxed_str())))
                .into(),
        );
        let guide = HelpText {
            about: "",
            note: "",
            examples: &[("do", "x")],
            exit: &[],
            environment,
        };
        let after = guide.after();
        assert!(
            after.starts_with(
                "Examples:\n  do:\n    x\n\nEnvironment:\n  A       one\n  LONGER  word"
            ),
            "{after}"
        );
        assert!(after.lines().all(|line| line.len() <= WIDTH), "{after}");
        assert_eq!(after.matches("word").count(), 30);
        assert!(
            after
                .lines()
                .last()
                .is_some_and(|line| line.starts_with("          word")),
            "{after}"
        );
    }
}
