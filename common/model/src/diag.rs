//! The lines a person sees: `prog: what: why`, then `prog: hint: ...`, on standard error
//! alone. Writing never fails the program and never lets a file or program name send
//! control characters to a terminal.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use crate::error::{Failure, Kind, reason};

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
pub fn print(text: &str) -> Result<(), Failure> {
    write(text.as_bytes()).map_err(|error| not_written(&error))
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
    let text = format!("standard output: {}", reason(error));
    Failure::new(Kind::LockPlace, text)
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

/// `text` with control characters made visible, so that a name cannot forge a second line
/// or drive a terminal.
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect::<Vec<_>>()
            } else {
                vec![c]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(printable("a\x1b[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(printable("größe /x y"), "größe /x y");
    }
}
