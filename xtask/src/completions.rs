//! Completions for bash, zsh and fish, made by clap_complete from the parsers. What the
//! parsers check later than clap does, such as the names of policies, is told to it here.

use std::path::PathBuf;

use clap::{ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate};
use getgpu_common::settings::{Policy, Shown, Type};

use crate::Made;
use crate::programs::{self, getgpu};

/// Options whose value is one of a few words.
const WORDS: [(&str, &[&str]); 5] = [
    ("color", &["auto", "always", "never"]),
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
                &mut told(program.command.clone()),
                program.name,
                &mut script,
            );
            let text = String::from_utf8_lossy(&script).into_owned();
            let text = text + &more(shell, program.name, &program.command);
            made.extend(files(shell, program.name, text));
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

fn file(name: &str, text: String) -> Made {
    Made {
        path: PathBuf::from("completions").join(name),
        text,
    }
}

/// What stands behind the text of clap_complete, which is taken as it is: in bash and fish
/// the command behind cudawrap's options.
fn more(shell: Shell, program: &str, command: &Command) -> String {
    match (program, shell) {
        ("cudawrap", Shell::Bash) => BEHIND_OPTIONS.replace("VALUED", &valued(command).join("|")),
        ("cudawrap", Shell::Fish) => COMMAND_IN_FISH.to_owned(),
        _ => String::new(),
    }
}

const COMMAND_IN_FISH: &str =
    "complete -c cudawrap -x -a \"(__fish_complete_subcommand --fcs-skip=1)\"\n";

/// The function for bash: skips cudawrap's own options, and leaves the rest to the
/// completion of commands, where bash-completion is loaded.
const BEHIND_OPTIONS: &str = r#"
_cudawrap_command() {
    local word=1
    while [[ $word -lt $COMP_CWORD ]]; do
        case "${COMP_WORDS[word]}" in
            --) word=$((word + 1)); break ;;
            VALUED) word=$((word + 1)) ;;
            -*) ;;
            *) break ;;
        esac
        word=$((word + 1))
    done
    if [[ $word -gt $COMP_CWORD || ( $word -eq $COMP_CWORD && "$2" == -* ) ]]; then
        _cudawrap "$@"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$word"
    elif [[ $word -eq $COMP_CWORD ]]; then
        COMPREPLY=($(compgen -c -- "$2"))
    else
        COMPREPLY=()
    fi
}
complete -F _cudawrap_command -o bashdefault -o default cudawrap
"#;

/// The options of a parser that take the next word as their value.
fn valued(command: &Command) -> Vec<String> {
    let options = command.get_arguments().filter(|arg| {
        !arg.is_positional() && arg.get_action().takes_values() && !arg.is_require_equals_set()
    });
    options
        .flat_map(|arg| {
            let long = arg.get_long().map(|long| format!("--{long}"));
            let short = arg.get_short().map(|short| format!("-{short}"));
            long.into_iter().chain(short)
        })
        .collect()
}

/// The parser, told which words an option has, and that no option but those that say so
/// has the name of a file. A value that stands behind `=` only is left out: a shell would
/// take the next word for it.
fn told(command: Command) -> Command {
    let command = WORDS.iter().fold(command, |command, (name, words)| {
        let has = command.get_arguments().any(|arg| arg.get_id() == *name);
        if has {
            command.mut_arg(name, |arg| arg.value_parser(words.to_vec()))
        } else {
            command
        }
    });
    command.mut_args(|arg| {
        if arg.is_require_equals_set() {
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
