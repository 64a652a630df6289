//! `--report`: what the lines of the system's log come to.

use std::fs::File;

use harness::{Command, Sandbox};

const DEVICE: &str = "MIG-0d1e2f30-1111-5222-8333-444455556666";

/// The command with this text on standard input.
fn report(sandbox: &Sandbox, words: &[&str], text: &str) -> Command {
    let lines = sandbox.file("work/lines", text, 0o644);
    sandbox.getgpu(words).stdin(File::open(lines).unwrap())
}

#[test]
fn lines_are_summed_up_by_user_tag_or_program() {
    let sandbox = Sandbox::new("none");
    let text = format!(
        "cudawrap[7]: leased {DEVICE} user=ana program=train share=0.5 tag=exp waited=1800s\n\
         Nov 25 18:00:00 n1 systemd[1]: Started something else.\n\
         released {DEVICE} user=ana program=train share=0.5 tag=exp idle=3600.0s held=7200.0s\n\
         getgpu[8]: reserved {DEVICE} user=bo for=bash share=1 waited=0s\n\
         getgpu[8]: released {DEVICE} user=bo for=bash share=1 held=1800.0s\n\
         getgpu[9]: refused user=bo program=getgpu: no free device: 1 of 1 in use\n"
    );
    let by_user = "USER STARTS LEASED H IDLE H RESERVED H WAITED H REFUSED\n\
                   ana  1      1.00     0.50   0.00       0.50     0\n\
                   bo   1      0.00     0.00   0.50       0.00     1\n";
    report(&sandbox, &["--report"], &text)
        .run()
        .exits(0)
        .prints(by_user);
    let by_tag = report(&sandbox, &["--report=tag"], &text).run();
    let names: Vec<&str> = by_tag
        .exits(0)
        .stdout
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(names, ["TAG", "exp", "-"]);
    let json = report(&sandbox, &["--report=program", "--json"], &text).run();
    let json: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    assert_eq!(
        (json["by"].as_str(), json["rows"][0]["name"].as_str()),
        (Some("program"), Some("train"))
    );
    assert_eq!(json["rows"][0]["leased_hours"], 1.0);
}

#[test]
fn what_cannot_be_summed_up_is_one_line() {
    let sandbox = Sandbox::new("none");
    let empty = report(&sandbox, &["--report"], "Started something else.\n").run();
    empty.refuses(1, "no line of getgpu's or cudawrap's to report");
    sandbox.refuses(&[
        ("getgpu --report --list", 2, "--list"),
        ("getgpu --since=yesterday", 2, "--since goes with --report"),
        (
            "getgpu --report=device",
            2,
            "`device` is not user, tag or program",
        ),
    ]);
}
