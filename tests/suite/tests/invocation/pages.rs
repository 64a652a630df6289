//! Each block of shell of the pages is typed on a simulated node, so that what a person copies
//! works. A comment `<!-- not typed: WHY -->` before a block marks one that cannot run here.

use std::path::Path;

use harness::Sandbox;
use harness::skip::{self, Need};

const PAGES: [&str; 7] = [
    "README.md",
    "docs/GUIDE.md",
    "docs/LAUNCHERS.md",
    "docs/AUTO.md",
    "docs/ADMIN.md",
    "docs/TROUBLESHOOTING.md",
    "docs/CLUSTER.md",
];

/// What the reader has, and the sandbox has elsewhere or not at all: paths, a python, a terminal.
const HERE: [(&str, &str); 6] = [
    ("/opt/bin/", "$PWD/bin/"),
    ("/opt/fsl/bin/", "$PWD/bin/"),
    ("python render.py", "./app"),
    ("getgpu --watch ", ": "), // needs a terminal: listing::watch
    (
        "getgpu --release 3",
        "d=$(getgpu 3 --hold); getgpu --release 3",
    ),
    ("getgpu --check", "getgpu --check || [ $? = 1 ]"),
];

/// Programs that start a command on other hosts: here, on this one. ssh has the host as its first
/// word, the others have it behind `-w`.
const ON_HOSTS: &str = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do [ \"$1\" = -w ] && shift; shift; done\n\
    case $0 in */ssh) shift ;; esac\nexec \"$@\"\n";

/// A page's blocks of shell: the line each begins at, its text, and whether it is typed.
fn blocks(page: &str) -> Vec<(usize, String, bool)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(top.join(page)).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let begins = (0..lines.len()).filter(|&at| lines[at] == "```sh");
    let block = |at: usize| {
        let inside = lines[at + 1..].iter().take_while(|line| **line != "```");
        let text: String = inside.map(|line| format!("{line}\n")).collect();
        let is_marked = at > 0 && lines[at - 1].starts_with("<!-- not typed: ");
        (at + 1, text, !is_marked)
    };
    begins.map(block).collect()
}

/// A node with what the pages name.
fn node() -> Sandbox {
    let sandbox = Sandbox::new("gpus4");
    for name in ["app", "bin/app", "bin/eddy_cuda10.2"] {
        sandbox.file(
            &format!("work/{name}"),
            "#!/bin/sh\n[ -n \"$CUDA_VISIBLE_DEVICES\" ]\n",
            0o755,
        );
    }
    for name in ["ssh", "pdsh", "clush"] {
        sandbox.file(&format!("bin/{name}"), ON_HOSTS, 0o755);
    }
    sandbox
}

#[test]
fn each_block_of_the_pages_runs_as_printed() {
    let mut typed = 0;
    for page in PAGES {
        for (line, text, _) in blocks(page).into_iter().filter(|block| block.2) {
            let sandbox = node();
            let here = |text: String, (there, here): &(&str, &str)| text.replace(there, here);
            let script = HERE.iter().fold(text, here);
            let shell = sandbox.shell("bash", &format!("set -eo pipefail\n{script}"));
            let outcome = shell.env("XDG_STATE_HOME", sandbox.path("state")).run();
            assert_eq!(outcome.code(), Some(0), "{page}:{line}: {outcome:#?}");
            typed += 1;
        }
    }
    assert!(typed >= 7, "only {typed} blocks are typed");
}

/// Where the variable for projects is unset, fish would start nothing.
#[test]
fn a_script_of_fish_starts_its_command_with_the_variable_and_without() {
    if skip::lacks(&[Need::Tool("fish")]) {
        return;
    }
    let begin = "set -q GPU_LEASE_CMD; or set -g GPU_LEASE_CMD env";
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(top.join("docs/LAUNCHERS.md")).unwrap();
    assert!(page.contains(begin));
    let sandbox = node();
    let set = "set -gx GPU_LEASE_CMD cudawrap --wait --";
    for (before, expected) in [(set, 0), ("", 1)] {
        let script = format!("{before}\n{begin}\n$GPU_LEASE_CMD ./app");
        // The program ends with 1 where it has no device.
        sandbox.shell("fish", &script).run().exits(expected);
    }
}
