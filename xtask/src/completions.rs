//! Completions for bash, zsh and fish, made by clap_complete from the parsers. What the
//! parsers check later than clap does, such as the names of policies, is told to it here.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate};
use getgpu_common::settings::{Policy, Shown, Type};

use crate::Made;
use crate::programs::{self, getgpu};

/// Options whose value is one of a few words.
const WORDS: [(&str, &[&str]); 4] = [
    ("type", Type::WORDS),
    ("policy", Policy::WORDS),
    ("visible", Shown::WORDS),
    ("format", &getgpu::FORMATS),
];

/// Programs that have a second name, which completes as the first does: the program, the
/// name.
const SECOND_NAMES: [(&str, &str); 1] = [("create-cudawrap", "create_cudawrap")];

pub fn all() -> Vec<Made> {
    let mut made = Vec::new();
    for program in programs::all() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(
                shell,
                &mut told(program.command.clone(), shell),
                program.name,
                &mut script,
            );
            let text = String::from_utf8_lossy(&script).into_owned();
            made.extend(files(
                shell,
                program.name,
                same_word(text, &program.command),
            ));
        }
    }
    made
}

/// A program's file for a shell, and what its second name needs: bash and fish look for a
/// file by the name that was typed, zsh into the first line of all files.
fn files(shell: Shell, program: &str, text: String) -> Vec<Made> {
    let second = SECOND_NAMES
        .iter()
        .find(|(of, _)| *of == program)
        .map(|(_, name)| *name);
    let file = |name: &str, text| Made {
        path: PathBuf::from("completions").join(name),
        text,
    };
    match (shell, second) {
        (Shell::Bash, None) => vec![file(&format!("bash/{program}"), text)],
        (Shell::Bash, Some(name)) => {
            let all = format!(
                "{text}complete -F _{} -o bashdefault -o default {name}\n",
                program.replace('-', "__")
            );
            vec![
                file(&format!("bash/{name}"), all.clone()),
                file(&format!("bash/{program}"), all),
            ]
        }
        (Shell::Zsh, second) => {
            let names =
                second.map_or_else(|| program.to_owned(), |name| format!("{program} {name}"));
            let all = text.replacen(
                &format!("#compdef {program}\n"),
                &format!("#compdef {names}\n"),
                1,
            );
            vec![file(&format!("zsh/_{program}"), all)]
        }
        (_, None) => vec![file(&format!("fish/{program}.fish"), text)],
        (_, Some(name)) => vec![
            file(
                &format!("fish/{name}.fish"),
                format!("complete -c {name} -w {program}\n"),
            ),
            file(&format!("fish/{program}.fish"), text),
        ],
    }
}

/// In zsh `--wait=-[` says that the value is in the same word (zshcompsys(1), optspecs),
/// which the maker of the scripts does not write.
fn same_word(text: String, command: &Command) -> String {
    let options = command
        .get_arguments()
        .filter(|arg| arg.is_require_equals_set())
        .filter_map(Arg::get_long);
    options.fold(text, |text, name| {
        text.replace(&format!("'--{name}=["), &format!("'--{name}=-["))
    })
}

/// The parser, told which words an option has, and that no option but those that say so
/// has the name of a file. A value that stands behind `=` only is for zsh; the others
/// would take the next word for it.
fn told(command: Command, shell: Shell) -> Command {
    let command = WORDS.iter().fold(command, |command, (name, words)| {
        let has = command.get_arguments().any(|arg| arg.get_id() == *name);
        if has {
            command.mut_arg(name, |arg| arg.value_parser(words.to_vec()))
        } else {
            command
        }
    });
    command.mut_args(|arg| {
        if arg.is_require_equals_set() && shell != Shell::Zsh {
            return arg
                .require_equals(false)
                .num_args(0)
                .action(ArgAction::SetTrue);
        }
        let plain = arg.get_value_hint() == ValueHint::Unknown
            && !WORDS.iter().any(|(name, _)| arg.get_id() == *name);
        if plain && arg.get_action().takes_values() {
            arg.value_hint(ValueHint::Other)
        } else {
            arg
        }
    })
}
