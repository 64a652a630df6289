//! Completions in a shell on a terminal.

use std::path::Path;

use harness::skip::Need;
use harness::{Sandbox, Terminal};

#[test]
fn zsh_completes_options() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("zsh")], "mig4", "") else {
        return;
    };
    let mut terminal = Terminal::new(160, 24);
    let shell = sandbox.words("zsh -f -i").env("TERM", "dumb");
    let _shell = terminal.all_streams(shell).spawn();
    let completions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../completions/zsh");
    let load = format!(
        "fpath=('{}' $fpath); autoload -U compinit; compinit -D -u; echo loaded=$?\n",
        completions.display()
    );
    terminal.type_keys(load.as_bytes());
    terminal.until_shows("loaded=0");
    for (typed, completed) in [
        // zsh offers an option beside words without an action at the second Tab.
        ("getgpu --poli\t", "getgpu --policy"),
        ("cudawrap --vis", "cudawrap --visible"),
    ] {
        terminal.type_keys(format!("{typed}\t").as_bytes());
        terminal.until_shows(completed);
        // The line is given up.
        terminal.type_keys(b"\x15");
    }
}

/// bash takes `--option=value` for three words.
#[test]
fn bash_completes_options_values_and_commands() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("bash")], "mig4", "") else {
        return;
    };
    let mut terminal = Terminal::new(160, 24);
    let shell = sandbox
        .words("bash --norc --noprofile -i")
        .env("TERM", "dumb");
    let _shell = terminal.all_streams(shell).spawn();
    let completions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../completions/bash");
    for program in ["getgpu", "cudawrap"] {
        let file = completions.join(program);
        terminal.type_keys(format!("source '{}'; echo {program}=$?\n", file.display()).as_bytes());
        terminal.until_shows(&format!("{program}=0"));
    }
    for (typed, completed) in [
        ("getgpu --policy=pac", "getgpu --policy=pack"),
        ("getgpu --policy spr", "getgpu --policy spread"),
        (
            "getgpu --list --format=prom",
            "getgpu --list --format=prometheus",
        ),
        ("cudawrap --policy=pack --ignore-g", "--ignore-grant"),
        ("cudawrap --wait=10m -- sim-cu", "-- sim-cuda"),
        ("cudawrap --wait=5m --share 1/2 sim-cu", "1/2 sim-cuda"),
        ("cudawrap -- sim-cu", "cudawrap -- sim-cuda"),
    ] {
        terminal.type_keys(format!("{typed}\t").as_bytes());
        terminal.until_shows(completed);
        // The line is given up.
        terminal.type_keys(b"\x15");
    }
}
