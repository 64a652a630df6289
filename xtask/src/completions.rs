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
            let text = same_word(text, &program.command);
            let text = match program.name {
                "getgpu" if shell == Shell::Zsh => index_is_told(&reservations(&text, shell)),
                "getgpu" => reservations(&text, shell),
                "cudawrap" => commands(text, shell, &program.command),
                _ => text,
            };
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

/// What getgpu answers when a completion asks for the values of `--release`.
const ASK: &str = "getgpu --complete release 2>/dev/null";

/// Behind `--release`: one's own reservations, which only getgpu knows.
fn reservations(text: &str, shell: Shell) -> String {
    let mut found = false;
    let mut in_release = false;
    let line = |line: &str| -> String {
        let new = match shell {
            Shell::Bash => {
                let value = in_release && line.trim() == "COMPREPLY=(\"${cur}\")";
                in_release = line.trim() == "--release)";
                value.then(|| {
                    let start = &line[..line.find('C').unwrap_or(0)];
                    format!("{start}COMPREPLY=($(compgen -W \"$({ASK})\" -- \"${{cur}}\"))\n{start}return 0")
                })
            }
            Shell::Zsh => line.starts_with("'--release=").then(|| {
                line.replace(
                    ":DEVICE-or-TAG:'",
                    &format!(":DEVICE-or-TAG:{{compadd - ${{(f)\"$({ASK})\"}}}}'"),
                )
            }),
            _ => line
                .starts_with("complete -c getgpu -l release -d")
                .then(|| format!("{line} -a \"({ASK})\"")),
        };
        found |= new.is_some();
        new.unwrap_or_else(|| line.to_owned()) + "\n"
    };
    let text: String = text.lines().map(line).collect();
    assert!(found, "clap_complete writes --release in another way");
    text
}

/// The function for bash: skips cudawrap's own options, and leaves the rest to the
/// completion of commands, where bash-completion is loaded.
const BEHIND_OPTIONS: &str = r#"_cudawrap_command() {
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

/// zsh offers an option at the first Tab only if the words beside it have an action
/// (zshcompsys(1), _arguments): a message is one.
fn index_is_told(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("'*::index -- ") {
        Some(help) => {
            let help = help
                .split(":'")
                .next()
                .unwrap_or_default()
                .replace(';', ",");
            format!("'*:index:_message \"INDEX\\: {help}\"' \\\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// What stands behind cudawrap's options is a command with its own arguments. To zsh the
/// parser says so, but not that `--` is no part of it.
fn commands(text: String, shell: Shell, command: &Command) -> String {
    match shell {
        Shell::Bash => {
            let offset = BEHIND_OPTIONS.replace("VALUED", &valued(command).join("|"));
            let (functions, registered) = text
                .rsplit_once("\nif [[ ")
                .expect("clap_complete registers the function in another way");
            format!(
                "{functions}\n{offset}if [[ {}",
                registered.replace("-F _cudawrap ", "-F _cudawrap_command ")
            )
        }
        Shell::Fish => {
            text + "complete -c cudawrap -x -a \"(__fish_complete_subcommand --fcs-skip=1)\"\n"
        }
        _ => text.replacen(
            "    local context curcontext",
            "    if (( $words[(i)--] < CURRENT )); then\n        words[(i)--]=()\n        (( CURRENT-- ))\n    fi\n    local context curcontext",
            1,
        ),
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
