//! What a shell was started for, by the text behind its `-c`: `sh -c 'getgpu --hold'`
//! exits as soon as getgpu does. Pure, and rough on purpose: in doubt the shell is a
//! script like any other.

/// What a `sh -c` does with getgpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It runs this one command and exits: whoever started the shell is the caller.
    OnlyRuns,
    /// It runs getgpu as its last command, behind others.
    EndsWith,
    /// Anything else.
    Script,
}

/// The role of a getgpu that was called with `own` words in a shell with these
/// `arguments`, its name first.
pub fn role<'a>(arguments: impl Iterator<Item = &'a [u8]>, own: &[String]) -> Role {
    let text = command_text(arguments).unwrap_or_default();
    let text = without_redirections(text.trim().trim_end_matches(';'));
    let mut commands = text
        .split(|c: char| ";&|\n".contains(c))
        .filter(|command| !command.trim().is_empty());
    let Some(last) = commands.next_back() else {
        return Role::Script;
    };
    if last.contains(|c: char| "`$(){}".contains(c)) || !runs_getgpu(last) {
        return Role::Script;
    }
    // `a | getgpu`, `getgpu &` and the like are left to be scripts.
    let simple = text
        .split_once('|')
        .is_none_or(|(_, behind)| behind.starts_with('|'));
    match (commands.next(), simple && !text.ends_with('&')) {
        (None, true) => Role::OnlyRuns,
        (Some(_), true)
            if own.iter().eq(last
                .split_whitespace()
                .skip_while(|word| !is_getgpu(word))
                .skip(1)) =>
        {
            Role::EndsWith
        }
        _ => Role::Script,
    }
}

/// The word behind `-c`, which may stand among other letters (`bash -ec`) and behind
/// other options.
fn command_text<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut words = arguments.skip(1).map(String::from_utf8_lossy);
    let mut commands = false;
    words.find_map(|word| match word.strip_prefix('-') {
        Some(letters) => {
            commands |= !letters.starts_with('-') && letters.contains('c');
            None
        }
        None => Some(commands.then(|| word.into_owned())),
    })?
}

/// Whether the first word that is no assignment is getgpu.
fn runs_getgpu(command: &str) -> bool {
    let mut words = command
        .split_whitespace()
        .filter(|word| !word.contains('=') && !matches!(*word, "exec" | "command"));
    words.next().is_some_and(is_getgpu)
}

fn is_getgpu(word: &str) -> bool {
    word.trim_matches(['"', '\'']).rsplit('/').next() == Some("getgpu")
}

/// The text without `2>/dev/null`, `2>&1` and `< file`.
fn without_redirections(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut file_follows = false;
    for word in text.split(' ') {
        let bare = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let (file, target) = match bare.strip_prefix(['<', '>']) {
            Some(rest) => (true, rest.trim_start_matches(['>', '&'])),
            None => (std::mem::take(&mut file_follows), word),
        };
        if !file {
            words.push(word);
            continue;
        }
        file_follows = target.is_empty();
        // What ends the command may stand right behind the file's name.
        words.extend(target.find([';', '|', '&', '\n']).map(|end| &target[end..]));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_may_only_run_getgpu() {
        let own = ["--hold".to_owned()];
        for (words, expected) in [
            (&["sh", "-c", "getgpu --hold"][..], Role::OnlyRuns),
            (
                &[
                    "/bin/bash",
                    "--norc",
                    "-ec",
                    " /usr/bin/getgpu --hold -n 2 2>/dev/null ;",
                ],
                Role::OnlyRuns,
            ),
            (&["sh", "-c", "exec getgpu --hold 2> log"], Role::OnlyRuns),
            (
                &["sh", "-c", "GETGPU_LOCK=/x getgpu --hold 2>&1"],
                Role::OnlyRuns,
            ),
            (&["sh", "-c", "cd /tmp && getgpu --hold"], Role::EndsWith),
            (
                &["sh", "-c", "getgpu --hold; getgpu --count-free"],
                Role::Script,
            ),
            (
                &["sh", "-c", "module load cuda; getgpu --hold"],
                Role::EndsWith,
            ),
            (
                &[
                    "sh",
                    "-c",
                    "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); ./app",
                ],
                Role::Script,
            ),
            (
                &["sh", "-c", "CUDA_VISIBLE_DEVICES=$(getgpu --hold) ./app"],
                Role::Script,
            ),
            (
                &["sh", "-c", "export CUDA_VISIBLE_DEVICES=$(getgpu --hold)"],
                Role::Script,
            ),
            (&["sh", "-c", "getgpu --hold & wait"], Role::Script),
            (&["sh", "-c", "getgpu --hold >d; sh -c true"], Role::Script),
            (&["sh", "-c", "getgpu --hold 2>&1; exit"], Role::Script),
            (&["sh", "-c", "getgpu --hold > d; exit"], Role::Script),
            (&["sh", "-c", "getgpu --hold | tee x"], Role::Script),
            (&["sh", "-c", "echo x | getgpu --hold"], Role::Script),
            (&["sh", "-c", "getgpus"], Role::Script),
            (&["sh", "script", "-c", "getgpu"], Role::Script),
            (&["bash"], Role::Script),
            (&[], Role::Script),
        ] {
            assert_eq!(
                role(words.iter().map(|word| word.as_bytes()), &own),
                expected,
                "{words:?}"
            );
        }
    }
}
