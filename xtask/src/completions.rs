//! Completions for bash, zsh and fish, made by clap_complete from the parsers.
//! What the parsers check later than clap does, such as the names of policies, is told to it here.

use std::path::PathBuf;

use clap::Command;
use clap_complete::{Shell, generate};
use getgpu_common::settings::{Policy, Shown, Type};

use crate::Made;
use crate::programs::{self, getgpu};

/// Options whose value is one of a few words.
const WORDS: [(&str, &[&str]); 4] =
    [("type", Type::WORDS), ("policy", Policy::WORDS), ("visible", Shown::WORDS), ("format", &getgpu::FORMATS)];

/// All of them.
pub fn all() -> Vec<Made> {
    let mut made = Vec::new();
    for program in programs::all() {
        for (shell, file) in [
            (Shell::Bash, format!("bash/{}", program.name)),
            (Shell::Zsh, format!("zsh/_{}", program.name)),
            (Shell::Fish, format!("fish/{}.fish", program.name)),
        ] {
            let mut script = Vec::new();
            generate(shell, &mut with_words(program.command.clone()), program.name, &mut script);
            let text = String::from_utf8_lossy(&script).into_owned();
            made.push(Made { path: PathBuf::from("completions").join(file), text });
        }
    }
    made
}

fn with_words(command: Command) -> Command {
    WORDS.iter().fold(command, |command, (name, words)| {
        let has = command.get_arguments().any(|arg| arg.get_id() == *name);
        if has { command.mut_arg(name, |arg| arg.value_parser(words.to_vec())) } else { command }
    })
}
