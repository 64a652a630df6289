//! Completions know one's own reservations, whatever the driver does, and their indices if
//! it answers.

use std::path::Path;

use getgpu_tests::somebody;
use harness::skip::{self, Need};
use harness::{Sandbox, Terminal};

#[test]
fn completions_offer_ones_own_reservations() {
    let sandbox = Sandbox::new("mig4");
    let completions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../completions");
    let completions = completions.display();
    let uuid = sandbox.getgpu(["--tag", "train", "--for=600"]).run().line();
    somebody(&sandbox, &["--tag", "theirs", "--for=600"])
        .run()
        .exits(0);
    let uuids = sandbox.uuids();
    let index = uuids.iter().position(|device| *device == uuid).unwrap();
    let scripts = [
        (
            "bash",
            format!(
                "source {completions}/bash/getgpu; COMP_WORDS=(getgpu --release ''); COMP_CWORD=2; \
                 _getgpu_release getgpu '' --release; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            ),
        ),
        (
            "fish",
            format!(
                "source {completions}/fish/getgpu.fish; complete -C 'getgpu --release ' | cut -f1"
            ),
        ),
    ];
    for (shell, script) in &scripts {
        if skip::lacks(&[skip::Need::Tool(shell)]) {
            continue;
        }
        let offered = sandbox.shell(shell, script).run();
        let offers = |name: &str| offered.stdout.lines().any(|line| line == name);
        assert!(
            offers("train") && offers(&uuid) && offers(&index.to_string()),
            "{shell}: {offered:#?}"
        );
        let reserved = (0..uuids.len()).filter(|index| offers(&index.to_string()));
        let all = if nix::unistd::geteuid().is_root() {
            2
        } else {
            1
        };
        assert_eq!(reserved.count(), all, "{shell}: {offered:#?}");
    }
    // A driver that hangs keeps no key from being answered.
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    for (shell, script) in &scripts {
        if skip::lacks(&[skip::Need::Tool(shell)]) {
            continue;
        }
        let outcome = sandbox.shell(shell, script).run();
        let mut offered: Vec<&str> = outcome.exits(0).stdout.lines().collect();
        offered.sort_unstable();
        let root = nix::unistd::geteuid().is_root();
        let own = offered
            .iter()
            .filter(|name| **name == "train" || **name == uuid);
        assert_eq!(own.count(), 2, "{shell}: {outcome:#?}");
        // Root can release everybody's.
        assert_eq!(offered.contains(&"theirs"), root, "{shell}: {outcome:#?}");
    }
}

#[test]
fn zsh_completes_options() {
    if skip::lacks(&[Need::Tool("zsh")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let mut terminal = Terminal::new(160, 24);
    let shell = sandbox
        .command("zsh")
        .args(["-f", "-i"])
        .env("TERM", "dumb");
    let _shell = terminal.all_streams(shell).spawn();
    let completions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../completions/zsh");
    let load = format!(
        "fpath=({} $fpath); autoload -U compinit; compinit -D -u; echo loaded=$?\n",
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
