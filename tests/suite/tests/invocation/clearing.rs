//! A program that clears the environment loses CUDA_VISIBLE_DEVICES: cudawrap says so once, to a
//! person at a terminal, and names the order that works.

use harness::{Command, Sandbox, Terminal};

/// What is started, and the order that is named for it.
const CLEARING: [(&str, &str); 8] = [
    ("tox -p", "in tox.ini: commands = cudawrap -- pytest"),
    ("sudo -u ana ./app", "sudo -u USER cudawrap -- ./app"),
    ("su - ana", "su USER -c 'cudawrap -- ./app'"),
    ("env -i ./app", "env -i PATH=\"$PATH\" cudawrap -- ./app"),
    (
        "docker run image",
        "docker run --gpus device=$(getgpu) image",
    ),
    (
        "podman run image",
        "podman run --device nvidia.com/gpu=$(getgpu) image",
    ),
    (
        "cwltool tool.cwl",
        "cudawrap -- cwltool --preserve-environment CUDA_VISIBLE_DEVICES tool.cwl",
    ),
    ("lit tests", "in a test: RUN: cudawrap --wait -- ./app"),
];
const SAID: &str = "clears the environment, so its program does not see the leased device: ";

/// A node with programs of these names, which do nothing.
fn node() -> Sandbox {
    let sandbox = Sandbox::new("mig4");
    for (line, _) in CLEARING {
        let name = line.split(' ').next().unwrap();
        sandbox.file(&format!("bin/{name}"), "#!/bin/sh\n", 0o755);
    }
    sandbox
}

/// What a terminal shows that is the standard error of this command, which succeeds.
#[track_caller]
fn shown(command: Command) -> String {
    let terminal = Terminal::new(300, 24);
    command.stderr(terminal.slave()).run().exits(0);
    terminal.rest()
}

#[test]
fn a_terminal_shows_one_line_for_each_program_that_clears() {
    let sandbox = node();
    for (line, order) in CLEARING {
        let name = line.split(' ').next().unwrap();
        let text = shown(sandbox.words(&format!("cudawrap -- {line}")));
        assert_eq!(
            text,
            format!("cudawrap: {name} {SAID}{order}\r\n"),
            "{line}"
        );
    }
    // By its path, too.
    let text = shown(sandbox.words("cudawrap -- @/bin/tox"));
    assert_eq!(text.matches(SAID).count(), 1, "{text}");
}

/// These run their job later, or elsewhere, when the lease has ended.
#[test]
fn a_terminal_shows_a_line_for_what_hands_its_job_to_a_server() {
    let sandbox = node();
    for (line, order) in [
        ("at now", "echo 'cudawrap -- ./app' | at now"),
        ("pueue add ./app", "pueue add -- 'cudawrap --wait -- ./app'"),
        (
            "tmux new-window ./app",
            "tmux new-window 'cudawrap --wait -- bash'",
        ),
    ] {
        let name = line.split(' ').next().unwrap();
        sandbox.file(&format!("bin/{name}"), "#!/bin/sh\n", 0o755);
        let text = shown(sandbox.words(&format!("cudawrap -- {line}")));
        let said = "hands its job to a server, which does not hold the leased device: ";
        assert_eq!(text, format!("cudawrap: {name} {said}{order}\r\n"));
    }
}

#[test]
fn nothing_is_said_without_a_terminal_or_with_quiet() {
    let sandbox = node();
    for (line, _) in CLEARING {
        let piped = sandbox.words(&format!("cudawrap -- {line}")).run();
        piped.exits(0).says(&[]);
        // Standard error decides, not the other two.
        let terminal = Terminal::new(300, 24);
        let command = sandbox.words(&format!("cudawrap -- {line}"));
        let command = command.stdin(terminal.slave()).stdout(terminal.slave());
        command.run().exits(0).says(&[]);
        assert_eq!(terminal.rest(), "", "{line}");
        for quiet in ["-q", "--quiet"] {
            assert_eq!(
                shown(sandbox.words(&format!("cudawrap {quiet} -- {line}"))),
                ""
            );
        }
    }
}

#[test]
fn nothing_is_said_where_the_program_gets_the_device() {
    let sandbox = node();
    for line in [
        "cudawrap -- sudo --preserve-env=CUDA_VISIBLE_DEVICES ./app",
        "cudawrap -- docker run -e CUDA_VISIBLE_DEVICES image",
        "cudawrap -- docker ps",
        "cudawrap -- env A=1 true",
        // Nothing is leased, so nothing is lost.
        "CUDAWRAP_DISABLE=1 cudawrap -- tox",
    ] {
        assert_eq!(shown(sandbox.words(line)), "", "{line}");
    }
}
