//! Completions as the shells use them: each loads, and what a user types so far becomes
//! what the tables have.

use std::process::Command;

use harness::skip::{Need, lacks};

/// What a shell says to this script.
fn said(shell: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(shell);
    command.args(arguments).current_dir(xtask::top());
    // Shells write into it.
    let home = tempfile::tempdir().unwrap();
    let output = command.env("HOME", home.path()).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shell}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// What bash offers for the last of `words`, by the function that the script registers
/// for the program.
fn bash(words: &[&str]) -> Vec<String> {
    let (program, last) = (words[0], words.len() - 1);
    let (current, before) = (words[last], words[last - 1]);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "set -u; source completions/bash/{program}; COMP_WORDS=({}); COMP_CWORD={last}; COMPREPLY=(); \
         function_of=$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
         \"$function_of\" {program} '{current}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" ")
    );
    let said = said("bash", &["--norc", "--noprofile", "-c", &script]);
    let mut words: Vec<String> = said.lines().map(str::to_owned).collect();
    // A command may be in two folders of PATH.
    words.dedup();
    words
}

#[test]
fn bash_completes_options_and_their_words() {
    if lacks(&[Need::Tool("bash")]) {
        return;
    }
    for (words, offered) in [
        (&["getgpu", "--po"][..], &["--policy"][..]),
        (&["getgpu", "--release"], &["--release", "--release-all"]),
        (&["getgpu", "--policy", "sp"], &["spread"]),
        (&["cudawrap", "--vis"], &["--visible"]),
        (&["create-cudawrap", "--link"], &["--link-dir"]),
        // A program, and its own arguments, which are files here.
        (&["cudawrap", "--", "mkfif"], &["mkfifo"]),
        (&["cudawrap", "--share", "1/2", "mkfif"], &["mkfifo"]),
        (&["cudawrap", "mkfifo", "--po"], &[""]),
        (&["cudawrap", "--share", "1/2", "--po"], &["--policy"]),
        // Nothing is reserved here.
        (&["getgpu", "--release", ""], &[""]),
        (&["create_cudawrap", "--link"], &["--link-dir"]),
        // A number or a size is not the name of a file.
        (&["getgpu", "--share", "R"], &["R"]),
        (&["getgpu", "--count", ""], &[""]),
    ] {
        assert_eq!(bash(words), offered, "{words:?}");
    }
}

#[test]
fn fish_completes_options_and_their_words() {
    if lacks(&[Need::Tool("fish")]) {
        return;
    }
    for (typed, offered) in [
        ("getgpu --po", "--policy"),
        ("getgpu --policy sp", "spread"),
        ("cudawrap --vis", "--visible"),
        ("create_cudawrap --link", "--link-dir"),
        ("cudawrap mkfif", "mkfifo"),
        ("cudawrap -- mkfif", "mkfifo"),
        ("cudawrap --share 1/2 -n 2 mkfif", "mkfifo"),
        ("cudawrap --wait --share=1/2 -- mkfif", "mkfifo"),
        ("cudawrap mkfifo --contex", "--context"),
        // Its time stands behind a `=`, not in the next word.
        ("getgpu --wait --po", "--policy"),
    ] {
        let script = format!(
            "complete -c mkfifo -l context; for file in completions/fish/*.fish; source $file; end; complete -C '{typed}'"
        );
        let lines = said("fish", &["--no-config", "-c", &script]);
        let mut words = lines.lines().map(|line| line.split('\t').next());
        assert!(words.any(|word| word == Some(offered)), "{typed}: {lines}");
    }
}

#[test]
fn zsh_completes_the_program_behind_the_options() {
    if lacks(&[Need::Tool("zsh")]) {
        return;
    }
    // A shell on a terminal of its own: each match is printed, and when there are no more.
    let script = r#"zmodload zsh/zpty; zpty z zsh -f -i
        zpty -w z "PS1=; fpath=(${(q)PWD}/completions/zsh \$fpath); autoload -U compinit; compinit -D -u
            compadd() { builtin compadd -O hits \"\$@\"; print -r -- MET \$hits; builtin compadd \"\$@\" }
            ended() { print EN''DED }; comppostfuncs=(ended); print READ''Y"
        zpty -r z said '*READY*'; zpty -w -n z "$1"$'\t'; zpty -r z said '*ENDED*'
        [[ $said == *"MET mkfifo"* ]] && print found"#;
    for typed in [
        "",
        "-- ",
        "--share 1/2 ",
        "--share=1/2 -- ",
        "--wait -n 2 -- ",
    ] {
        let typed = format!("cudawrap {typed}mkfif");
        let found = said("zsh", &["-f", "-c", script, "zsh", &typed]);
        assert_eq!(found, "found\n", "{typed}");
    }
}

#[test]
fn zsh_loads_them() {
    if lacks(&[Need::Tool("zsh")]) {
        return;
    }
    for program in ["getgpu", "cudawrap", "create-cudawrap", "create_cudawrap"] {
        // compinit reads the first line, and defines a function that is loaded on first
        // use: +X loads it now.
        let script = format!(
            "fpath=($PWD/completions/zsh $fpath); autoload -U compinit && compinit -D -u && autoload -U +X _{program} && print $_comps[{program}]"
        );
        let function = said("zsh", &["-f", "-c", &script]);
        assert_eq!(function.trim(), format!("_{program}"));
    }
}
