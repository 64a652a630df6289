//! What is refused with a line: no control program, a daemon that does not start, a planted
//! directory, a device without a share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use getgpu_tests::mps::{CONTROL, Node};
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Command, wait};

#[test]
fn without_the_control_program_nothing_is_run() {
    let node = Node::bare();
    let there = skip::tool(CONTROL);
    if there.is_some() && skip::lacks(&[Need::Mounts]) {
        return;
    }
    let hidden = there
        .map(|path| format!("mount --bind /dev/null {} && ", path.display()))
        .unwrap_or_default();
    let script = format!("{hidden}exec cudawrap --share 1/2 --mps -- echo run");
    let shell = if hidden.is_empty() {
        "bash -c"
    } else {
        "unshare -m bash -c"
    };
    let outcome = node.sandbox.words(shell).args([&script]).run();
    let line = format!("MPS: {CONTROL} is not installed");
    outcome
        .refuses(125, &line)
        .mentions("package nvidia-cuda-mps");
    assert!(!node.sandbox.locked() && !node.place().exists());
}

#[test]
fn a_daemon_that_does_not_start_is_told_with_the_end_of_its_log() {
    let node = Node::bare();
    let text = "#!/bin/sh\necho 'no such device' >> $CUDA_MPS_LOG_DIRECTORY/control.log\necho 'cannot do it'\nexit 1\n";
    node.sandbox.file(&format!("bin/{CONTROL}"), text, 0o755);
    let why = "the MPS daemon cannot be started: cannot do it";
    for _ in 0..2 {
        let outcome = node.share("1/2", &["echo", "run"]).run();
        outcome.refuses(125, &format!("{}: {why}", node.uuid));
        outcome.mentions("hint: its log ends with: no such device");
    }
    // Nor under a link.
    let app = wrap(&node.sandbox, "opt", "app", "probe");
    let linked = node.sandbox.command(&app).env("CUDAWRAP_SHARE", "1/2");
    let linked = linked.env("CUDAWRAP_MPS", "1").run();
    linked.refuses(125, "the MPS daemon cannot be started");
    node.until_gone();
    assert!(!node.sandbox.locked());
}

#[test]
fn a_directory_that_another_user_has_planted_is_refused() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let (node, uid) = (Node::stand_in(), 1077);
    let planted = Path::new("/tmp").join(format!("getgpu-mps-{uid}"));
    let start = || node.share("1/2", &["echo", "run"]).uid(uid).run();
    let own = |path: &Path, uid| std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    let directory = format!("MPS directory {}", planted.display());
    let told = |why: &str| start().refuses(125, &format!("{directory}: {why}")).clone();
    fs::create_dir(&planted).unwrap();
    own(&planted, 1002);
    told("it belongs to uid 1002, not to you")
        .mentions("hint: its owner or an administrator has to move it away");
    own(&planted, uid);
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o770)).unwrap();
    told("others can enter it");
    fs::remove_dir(&planted).unwrap();
    std::os::unix::fs::symlink(node.sandbox.path("work"), &planted).unwrap();
    own(&planted, uid);
    told("it is not a directory");
    fs::remove_file(&planted).unwrap();
    assert_eq!(start().exits(0).stdout, "run\n");
    wait::until("nothing is left", || !planted.exists());
}

#[test]
fn without_a_share_there_is_no_daemon() {
    let node = Node::stand_in();
    let sandbox = &node.sandbox;
    let line = "--mps: without a share the program has the device to itself";
    let whole = || sandbox.words("cudawrap --mps -- true");
    whole().run().refuses(125, line);
    whole().visible(&node.uuid).run().refuses(125, line);
    // As a setting or a variable it is without effect on a whole device.
    let app = wrap(sandbox, "opt", "app", "probe");
    let pipe = |command: Command| {
        let name = "CUDA_MPS_PIPE_DIRECTORY";
        Facts::of(command.env(name, "/own")).env(name).to_owned()
    };
    let named = |words: &[&str]| {
        let command = sandbox.command("cudawrap").args(words);
        command.args(["--", "probe"])
    };
    let linked = || sandbox.command(&app);
    let linked_share = || linked().env("CUDAWRAP_SHARE", "1/2");
    let ours = node.place().join("pipe").display().to_string();
    // Without MPS the user's own daemon is left alone.
    assert_eq!(pipe(named(&["--share=1/2"])), "/own");
    sandbox.set_settings("mps = true");
    assert_eq!(pipe(named(&[])), "/own");
    assert_eq!(pipe(linked()), "/own");
    assert_eq!(pipe(named(&["--share=1/2"])), ours);
    assert_eq!(pipe(linked_share()), ours);
    assert_eq!(pipe(linked_share().env("CUDAWRAP_MPS", "0")), "/own");
    sandbox.set_settings("[program.\"app\"]\nmps = true\nshare = '1/4'");
    assert_eq!(pipe(linked()), ours);
    assert_eq!(pipe(named(&["--share=1/2"])), "/own");
    let with = |mps: &str| named(&["--share=1/2"]).env("CUDAWRAP_MPS", mps);
    assert_eq!(pipe(with("true")), ours);
    with("maybe").run().refuses(125, "CUDAWRAP_MPS: `maybe`");
    node.until_gone();
}
