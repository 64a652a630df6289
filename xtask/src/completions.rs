//! Completions for bash, zsh and fish, made by clap_complete from the parsers. What the
//! parsers check later than clap does, such as the names of policies, is told to it here.

use std::path::PathBuf;

use clap::{ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate};
use getgpu_settings::{Policy, Shown, Type};

use crate::Made;
use crate::programs::{self, create_cudawrap};

/// Options whose value is one of a few words.
const WORDS: [(&str, &[&str]); 3] = [
    ("type", Type::WORDS),
    ("policy", Policy::WORDS),
    ("visible", Shown::WORDS),
];

pub fn all() -> Vec<Made> {
    let programs = programs::all().map(|program| (program.name, program.command));
    // Its second name.
    let second = ("create_cudawrap", create_cudawrap::command());
    let mut made = Vec::new();
    for (name, command) in &[&programs[..], &[second]].concat() {
        let mut told = told(command.clone());
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(shell, &mut told, *name, &mut script);
            let file = match shell {
                Shell::Bash => format!("bash/{name}"),
                Shell::Zsh => format!("zsh/_{name}"),
                _ => format!("fish/{name}.fish"),
            };
            made.push(Made {
                path: PathBuf::from("completions").join(file),
                text: text(shell, &script) + &more(shell, name, command),
            });
        }
    }
    made
}

/// The text of clap_complete. In zsh the first `--` is a word of the command behind it, so
/// a function that leaves it out stands before the one that completes commands.
fn text(shell: Shell, script: &[u8]) -> String {
    let text = String::from_utf8_lossy(script);
    let completes_command = shell == Shell::Zsh && text.contains(COMMANDS_IN_ZSH);
    if !completes_command {
        return text.into_owned();
    }
    let text = text.replace(COMMANDS_IN_ZSH, ":_cudawrap_program'");
    let (title, rest) = text.split_once("\n\n").unwrap_or(("", &text));
    format!("{title}\n\n{PROGRAM_IN_ZSH}\n{rest}")
}

/// What stands behind the text of clap_complete: in bash the values behind an equals sign, in
/// bash and fish the command behind cudawrap's options.
fn more(shell: Shell, program: &str, command: &Command) -> String {
    let values = AFTER_EQUALS.replace("PROGRAM", program);
    match (program, shell) {
        ("getgpu", Shell::Bash) => {
            values + "complete -F _getgpu_values -o bashdefault -o default getgpu\n"
        }
        ("cudawrap", Shell::Bash) => {
            values + &BEHIND_OPTIONS.replace("VALUED", &valued(command).join("|"))
        }
        ("cudawrap", Shell::Fish) => COMMAND_IN_FISH.replace("OPTIONS", &of_argparse(command)),
        _ => String::new(),
    }
}

/// How zsh's completion of commands is named in a line of clap_complete.
const COMMANDS_IN_ZSH: &str = ":_cmdambivalent'";
const PROGRAM_IN_ZSH: &str = r#"(( $+functions[_cudawrap_program] )) ||
_cudawrap_program() {
    if [[ $words[1] == -- ]]; then
        shift words
        (( CURRENT-- ))
    fi
    _cmdambivalent
}
"#;

const COMMAND_IN_FISH: &str = r#"
function __cudawrap_program
    set -l argv (commandline -opc)[2..] (commandline -ct)
    argparse --stop-nonopt OPTIONS -- $argv 2>/dev/null
    and set -q argv[1]
    and complete -C (string join ' ' -- (string escape -- $argv[1..-2]) $argv[-1])
end
complete -c cudawrap -x -a "(__cudawrap_program)"
"#;

/// The options of a parser as fish's argparse(1) has them.
fn of_argparse(command: &Command) -> String {
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    let options = options.filter_map(|arg| {
        let short = arg.get_short().map(String::from);
        let long = arg.get_long().map(str::to_owned);
        let names = short.into_iter().chain(long).collect::<Vec<_>>().join("/");
        let value = match (arg.get_action().takes_values(), arg.is_require_equals_set()) {
            (false, _) => "",
            (true, false) => "=+",
            (true, true) => "=?",
        };
        (!names.is_empty()).then(|| format!("'{names}{value}'"))
    });
    options.collect::<Vec<_>>().join(" ")
}

/// The function for bash that completes `--option=value`, of which bash makes three words.
const AFTER_EQUALS: &str = r#"
_PROGRAM_values() {
    if [[ "${COMP_WORDS[COMP_CWORD]}" == "=" ]]; then
        _PROGRAM "$1" "" "${COMP_WORDS[COMP_CWORD - 1]}"
    elif [[ "${COMP_WORDS[COMP_CWORD - 1]}" == "=" ]]; then
        _PROGRAM "$1" "$2" "${COMP_WORDS[COMP_CWORD - 2]}"
    else
        _PROGRAM "$@"
    fi
}
"#;

/// The function for bash: skips cudawrap's own options, and leaves the rest to the
/// completion of commands, where bash-completion is loaded.
const BEHIND_OPTIONS: &str = r#"
_cudawrap_command() {
    local word=1
    while [[ $word -lt $COMP_CWORD ]]; do
        case "${COMP_WORDS[word]}" in
            --) word=$((word + 1)); break ;;
            VALUED | -*)
                if [[ "${COMP_WORDS[word + 1]}" == "=" ]]; then
                    word=$((word + 2))
                else
                    case "${COMP_WORDS[word]}" in VALUED) word=$((word + 1)) ;; esac
                fi ;;
            *) break ;;
        esac
        word=$((word + 1))
    done
    if [[ $word -gt $COMP_CWORD || ( $word -eq $COMP_CWORD && "$2" == -* ) ]]; then
        _cudawrap_values "$@"
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
    command.mut_args(|arg| {
        if let Some((_, words)) = WORDS.iter().find(|(name, _)| arg.get_id() == *name) {
            return arg.value_parser(words.to_vec());
        }
        if arg.is_require_equals_set() {
            return arg
                .require_equals(false)
                .num_args(0)
                .action(ArgAction::SetTrue);
        }
        if arg.get_value_hint() == ValueHint::Unknown && arg.get_action().takes_values() {
            arg.value_hint(ValueHint::Other)
        } else {
            arg
        }
    })
}
