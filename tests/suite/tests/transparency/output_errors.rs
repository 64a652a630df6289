//! An answer that cannot be printed is no answer: the status says so and nothing stays
//! reserved. `set -e`, pipes that end early and full disks meet this.

use std::fs::OpenOptions;

use harness::Sandbox;
use nix::libc;

#[test]
fn a_full_disk_or_a_closed_pipe_leaves_nothing_reserved() {
    let sandbox = Sandbox::new("a100x1");
    #[rustfmt::skip]
    let cases = ["", "--hold", "0", "--list", "--count-free", "--help", "--show-config"];
    for arguments in cases {
        let ask = || sandbox.getgpu(arguments.split_whitespace());
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let outcome = ask().stdout(full).run();
        outcome.refuses(4, "getgpu: standard output: No space left on device");
        assert!(!sandbox.locked(), "it is free when the call has exited");
        sandbox.assert_clean();
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        drop(reader);
        let outcome = ask().stdout(writer).run();
        match outcome.stderr.as_str() {
            // What gives nobody a device ends as every filter does.
            "" => assert_eq!(outcome.signal(), Some(libc::SIGPIPE), "{outcome:#?}"),
            _ => drop(outcome.refuses(4, "getgpu: standard output: Broken pipe")),
        }
        let quiet = !["", "--hold", "0"].contains(&arguments);
        assert_eq!(outcome.stderr.is_empty(), quiet, "{outcome:#?}");
        sandbox.assert_clean();
    }
}

#[test]
fn a_closed_stdout_leaves_nothing_reserved() {
    let sandbox = Sandbox::new("a100x1");
    for words in ["getgpu", "getgpu --hold", "getgpu 0", "getgpu --list"] {
        let outcome = sandbox.shell("dash", &format!("{words} >&-")).run();
        let line = "getgpu: standard output: it is closed";
        outcome.exits(4).says(&[line]);
        sandbox.assert_clean();
    }
}

#[test]
fn closed_streams_besides_stdout_do_no_harm() {
    let sandbox = Sandbox::new("a100x1");
    for redirection in ["<&-", "2>&-", "<&- 2>&-", "<&- 2>/dev/full"] {
        let ask = |words: &str| sandbox.shell("dash", &format!("getgpu {words} {redirection}"));
        let picked = ask("--no-reserve").run().line();
        assert!(sandbox.uuids().contains(&picked), "{redirection}");
        let kept = ask("--for=30").run().line();
        let mut holders = sandbox.holders().into_iter();
        assert!(
            holders.any(|holder| holder.words.contains(&kept)),
            "{redirection}"
        );
    }
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let failed = sandbox.words("getgpu --nonsense").stdout(full);
    failed.run().exits(2);
    sandbox.ask("--release-all").exits(0).prints("");
    sandbox.line("");
}
