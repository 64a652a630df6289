//! The node's cudawrap is changed through a wrapped path, since cp(1), chmod(1) and chown(1)
//! follow a link: `--status` and `--check` say so, and a setuid cudawrap runs nothing.

use std::os::unix::fs::PermissionsExt;

use getgpu_tests::OTHER;
use harness::skip::{Need, lacks};
use harness::{Outcome, Sandbox};

/// A sandbox with a cudawrap of its own, since the usual one is a link to the built file, and
/// a wrapped program.
fn site() -> Sandbox {
    let sandbox = Sandbox::new("mig4");
    let script = "mv bin/cudawrap bin/built && cp bin/built bin/cudawrap && rm bin/built && \
                  mkdir opt && ln -s ../bin/cudawrap opt/app && cp bin/probe opt/CUDAWRAP_app";
    shell(&sandbox, script).exits(0);
    sandbox
}

fn shell(sandbox: &Sandbox, script: &str) -> Outcome {
    let script = format!("cd {} && {script}", sandbox.root().display());
    sandbox.shell("sh", &script).run()
}

#[test]
fn what_cp_chmod_and_chown_do_through_a_link_is_said() {
    let root = nix::unistd::geteuid().is_root();
    let ways = [
        ("cp bin/probe opt/app", "is not cudawrap"),
        ("chmod 4755 opt/app", "is setuid or setgid"),
        ("chmod 700 opt/app", "cannot be executed by everybody"),
        ("chown 1 opt/app", "belongs to user 1"),
        ("chmod 777 opt/app", "can be written to by everybody"),
        (
            "chmod 777 bin",
            "is in a directory that everybody can write to",
        ),
    ];
    for (way, words) in ways
        .iter()
        .filter(|(way, _)| root || !way.contains("chown"))
    {
        let sandbox = site();
        let run = |line: &str| sandbox.words(line).run();
        let status = "create-cudawrap --status @/opt/app";
        run(status).exits(0);
        shell(&sandbox, way).exits(0);
        run(status).exits(1).shows(words);
        run("getgpu --check @/opt").exits(1).shows(words);
        let wrap = run("create-cudawrap @/bin/probe");
        wrap.exits(1).mentions(words);
    }
}

#[test]
fn a_setuid_cudawrap_runs_nothing() {
    if lacks(&[Need::Root]) {
        return;
    }
    for mode in [0o4755, 0o2755] {
        let sandbox = site();
        let wrapper = sandbox.path("bin/cudawrap");
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(mode)).unwrap();
        for line in ["@/opt/app", "@/bin/cudawrap -- @/bin/probe"] {
            for (uid, disabled) in [(0, "0"), (OTHER, "0"), (OTHER, "1")] {
                let command = sandbox.words(line).env("CUDAWRAP_DISABLE", disabled);
                let outcome = command.uid(uid).run();
                outcome
                    .exits(125)
                    .prints("")
                    .mentions("is setuid or setgid");
            }
        }
    }
}

/// A caller whose two user ids differ makes every program that it executes secure; that is
/// no setuid cudawrap.
#[test]
fn a_caller_with_two_user_ids_runs_wrapped_programs() {
    if lacks(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let sandbox = site();
    let line = format!("setpriv --ruid={OTHER} @/opt/app");
    let outcome = sandbox.words(&line).run();
    assert!(!outcome.stderr.contains("setuid"), "{outcome:#?}");
}

#[test]
fn without_proc_a_disabled_cudawrap_is_a_plain_exec() {
    if lacks(&[Need::Mounts, Need::Tool("unshare")]) {
        return;
    }
    let sandbox = site();
    let start = |disabled: &str| {
        let script = format!(
            "mount -t tmpfs none /proc && CUDAWRAP_DISABLE={disabled} exec {}",
            sandbox.text("opt/app")
        );
        sandbox.apart(&script).run()
    };
    let outcome = start("1");
    assert!(
        !outcome.stdout.is_empty(),
        "the probe reports: {outcome:#?}"
    );
    assert!(start("0").stderr.contains("/proc is not mounted"));
}
