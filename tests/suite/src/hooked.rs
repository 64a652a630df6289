//! Programs that nobody wrapped: the driver loads libcudawrap.so into them at their first
//! CUDA call.

use std::path::PathBuf;

use harness::{Command, Outcome, Running, Sandbox};

/// The variable that names the library.
pub const VARIABLE: &str = "CUDA_INJECTION64_PATH";

/// The library, installed in the sandbox's prefix.
pub fn hook(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("lib/getgpu/libcudawrap.so")
}

/// The program `cuda` with these words, and the library.
pub fn cuda(sandbox: &Sandbox, words: &str) -> Command {
    let command = sandbox.words(&format!("cuda {words}"));
    command.env(VARIABLE, hook(sandbox))
}

/// A program that has leased a device of the node, until it is killed.
pub fn holder(sandbox: &Sandbox) -> Running {
    let holder = sandbox.leased().spawn();
    sandbox.until_running(1);
    holder
}

/// What the program said of one of its words, the first time.
///
/// # Panics
///
/// If it said nothing of it.
#[track_caller]
pub fn said<'a>(outcome: &'a Outcome, word: &str) -> &'a str {
    all_said(outcome, word)
        .first()
        .copied()
        .unwrap_or_else(|| panic!("nothing of {word}: {outcome:#?}"))
}

/// Asserts what the program said of these words, the first time.
#[track_caller]
pub fn tells(outcome: &Outcome, words: &[(&str, &str)]) {
    let told = words.iter().map(|(word, _)| (*word, said(outcome, word)));
    assert!(told.eq(words.iter().copied()), "{words:?}: {outcome:#?}");
}

/// Everything that it said of a word.
pub fn all_said<'a>(outcome: &'a Outcome, word: &str) -> Vec<&'a str> {
    let lines = outcome.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
        .collect()
}

/// A device's 16 bytes, as the driver tells them.
pub fn bytes(uuid: &str) -> String {
    let digits = uuid.chars().skip(4).filter(char::is_ascii_hexdigit);
    digits.collect()
}
