//! The lines a person sees: `prog: what: why`, then `prog: hint: ...`, on standard error
//! alone. Writing never fails the program and never lets a file or program name send
//! control characters to a terminal.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use crate::causes::ModelCause;
use crate::error::{Failure, reason};

/// How much a program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// `-q`: errors only, no hints.
    Quiet,
    /// What failed, and what changes the result; nothing while all is well.
    Trouble,
    /// Errors, warnings and hints.
    Normal,
    /// `-v`: decisions too.
    Verbose,
}

impl Verbosity {
    /// For a program that its user did not start through these tools: some pipelines end a
    /// job as soon as its file of errors is not empty.
    pub fn of_unaware_user() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Normal
        } else {
            Self::Trouble
        }
    }

    /// For a call whose options are not known yet, or are wrong: only what stands before
    /// `--` is certainly not the program's.
    pub fn of_words(words: &[OsString]) -> Self {
        let mut own = words.iter().take_while(|word| *word != "--");
        if own.any(|word| word == "-q" || word == "--quiet") {
            Self::Quiet
        } else {
            Self::Normal
        }
    }
}

/// Who speaks, and how much.
#[derive(Clone, Copy, Debug)]
pub struct Diag {
    program: &'static str,
    level: Verbosity,
}

impl Diag {
    /// Lines that begin with `program`.
    pub const fn new(program: &'static str, level: Verbosity) -> Self {
        Self { program, level }
    }

    /// The level in force.
    pub const fn level(&self) -> Verbosity {
        self.level
    }

    /// The name that the lines begin with.
    pub const fn program(&self) -> &'static str {
        self.program
    }

    /// An error and, unless quiet, its hint.
    pub fn error(&self, failure: &Failure) {
        self.line("", &failure.message);
        if let Some(hint) = &failure.hint {
            self.hint(hint);
        }
    }

    /// Something that changes the result, although the program goes on.
    pub fn warn(&self, text: &str) {
        if self.level >= Verbosity::Trouble {
            self.line("", text);
        }
    }

    /// Something of use to a person, while all is well.
    pub fn remark(&self, text: &str) {
        if self.level >= Verbosity::Normal {
            self.line("", text);
        }
    }

    /// What a person can do.
    pub fn hint(&self, text: &str) {
        if self.level >= Verbosity::Trouble {
            self.line("hint: ", text);
        }
    }

    /// A decision, told with `-v` only.
    pub fn note(&self, text: &str) {
        if self.level >= Verbosity::Verbose {
            self.line("", text);
        }
    }

    /// A line that is the very thing asked for (`--explain`): printed at every level.
    pub fn line(&self, prefix: &str, text: &str) {
        let line = format!("{}: {prefix}{}\n", self.program, printable(text));
        // One write per line, so that lines of many processes do not mix; a closed stderr
        // is no reason to fail.
        getgpu_linux::sys::write_stderr(line.as_bytes());
    }
}

/// Writes an answer to standard output and makes sure that it has arrived. A full disk, a
/// closed pipe or no standard output at all is a failure, never a panic.
///
/// # Errors
///
/// Standard output is closed, full or absent.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    write(text.as_ref()).map_err(|error| not_written(&error))
}

/// The same for a text that hands out no device: if its reader has seen enough (head(1)),
/// this process ends by SIGPIPE without a word, as every filter does.
///
/// # Errors
///
/// Standard output is full or absent.
pub fn show(text: &str) -> Result<(), Failure> {
    write(text.as_bytes()).map_err(|error| {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            getgpu_linux::sys::end_by_sigpipe();
        }
        not_written(&error)
    })
}

fn not_written(error: &std::io::Error) -> Failure {
    let why = reason(error);
    ModelCause::NotWritten { why }.into()
}

/// Writes `bytes` to standard output and makes sure that they have arrived.
///
/// # Errors
///
/// Those of write(2), and a standard output that was closed from the start.
pub fn write(bytes: &[u8]) -> std::io::Result<()> {
    if getgpu_linux::sys::stdout_was_closed() {
        return Err(std::io::Error::other("it is closed"));
    }
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// `text` with all that a reader cannot see made visible (`is_hidden`), so that a name cannot
/// forge a second line, drive a terminal, or look like another name.
pub fn printable(text: &str) -> String {
    escaped(text, |c| c.escape_default().to_string())
}

/// The same for a document in JSON, where such characters stand in texts alone: each is written as
/// `\u` and four digits, twice where UTF-16 needs two, and a reader gets the text as it was
/// (RFC 8259, section 7). Line breaks are the document's own.
pub fn json(document: &str) -> String {
    escaped(document, |c| {
        let mut halves = [0; 2];
        let halves = c.encode_utf16(&mut halves).iter();
        match c {
            '\n' => "\n".into(),
            _ => halves.map(|half| format!("\\u{half:04x}")).collect(),
        }
    })
}

/// `text` as one word of a line of words, such as the system's log has.
pub fn word(text: &str) -> String {
    printable(text).replace(' ', "_")
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown += &escape(c);
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character is a control, is white and no space, or has no form of its own: Cc, Cf, Zl,
/// Zp and Zs of the Unicode Character Database and its `Default_Ignorable_Code_Point`, and the
/// letters that are drawn as nothing. Blocks are kept whole where characters may be added.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || c.is_whitespace()
        || matches!(
            u32::from(c),
            0xad | 0x34f
                | 0x600..=0x605
                | 0x61c
                | 0x6dd
                | 0x70f
                | 0x890..=0x891
                | 0x8e2
                | 0x115f..=0x1160
                | 0x17b4..=0x17b5
                | 0x180b..=0x180f
                | 0x200b..=0x200f
                | 0x2028..=0x202f
                | 0x205f..=0x206f
                | 0x2800
                | 0x3164
                | 0xfe00..=0xfe0f
                | 0xfeff
                | 0xffa0
                | 0xfff0..=0xfffb
                | 0x1_10bd
                | 0x1_10cd
                | 0x1_3430..=0x1_345f
                | 0x1_bca0..=0x1_bcaf
                | 0x1_d173..=0x1_d17a
                | 0xe_0000..=0xe_0fff
        )
}

#[cfg(test)]
mod tests {
    use super::{json, printable, word};

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(printable("a\x1b[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(printable("größe /x y"), "größe /x y");
    }

    /// C1 controls drive terminals, U+202E turns what follows around, and the others are not seen.
    #[test]
    fn what_cannot_be_seen_is_shown() {
        let hidden = [
            ('\u{85}', "\\u{85}"),
            ('\u{9b}', "\\u{9b}"),
            ('\u{a0}', "\\u{a0}"),
            ('\u{ad}', "\\u{ad}"),
            ('\u{200b}', "\\u{200b}"),
            ('\u{202e}', "\\u{202e}"),
            ('\u{2029}', "\\u{2029}"),
            ('\u{2066}', "\\u{2066}"),
            ('\u{3164}', "\\u{3164}"),
            ('\u{feff}', "\\u{feff}"),
            ('\u{e0041}', "\\u{e0041}"),
        ];
        for (c, shown) in hidden {
            assert_eq!(printable(&format!("a{c}b")), format!("a{shown}b"));
        }
        for seen in ["größe", "程序", "тест", "🚀", "a-b_c.d"] {
            assert_eq!(printable(seen), seen);
        }
    }

    #[test]
    fn a_reader_of_json_gets_the_text_as_it_was() {
        let text = "\u{1b}\u{7f}\u{9b}\u{200b}\u{202e}\u{e0041} größe";
        let document = json(&(serde_json::to_string(text).unwrap() + "\n"));
        let shown = "\"\\u001b\\u007f\\u009b\\u200b\\u202e\\udb40\\udc41 größe\"\n";
        assert_eq!(document, shown);
        assert_eq!(serde_json::from_str::<String>(&document).unwrap(), text);
    }

    #[test]
    fn a_word_has_no_space_of_any_kind() {
        assert_eq!(word("a b\u{2003}held=1s\n"), "a_b\\u{2003}held=1s\\n");
    }
}
