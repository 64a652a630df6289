//! Text as groff and mandoc read it, in the macros of man(7). Every hyphen is written as
//! `\-`, so that what a reader copies from the page is what has to be typed.

/// The longest line that is written where text can be broken.
const WIDTH: usize = 78;

/// Words that nothing is to be made of but themselves.
pub fn literal(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            '"' => out.push_str("\\(dq"),
            other => out.push(other),
        }
    }
    if out.starts_with('.') {
        format!("\\&{out}")
    } else {
        out
    }
}

/// A paragraph of prose, broken between words into lines; ends with a newline.
pub fn prose(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace().map(literal) {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > WIDTH {
            lines.push(word);
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(&word);
        }
    }
    lines
        .iter()
        .map(|line| format!("{}{line}\n", if line.starts_with('.') { "\\&" } else { "" }))
        .collect()
}

/// A name in bold and what it means, as a list has it.
pub fn item(name: &str, meaning: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}", literal(name), prose(meaning))
}

/// The text with a capital letter first.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_a_request_or_a_dash() {
        assert_eq!(literal("--share 'a' \\n"), "\\-\\-share \\(aqa\\(aq \\en");
        assert_eq!(literal(".config"), "\\&.config");
        assert_eq!(
            prose(&format!("{} .x", "w".repeat(77))),
            format!("{}\n\\&.x\n", "w".repeat(77))
        );
    }
}
