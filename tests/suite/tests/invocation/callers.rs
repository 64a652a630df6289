//! Unusual callers of wrapped programs: Python's ways to start processes, trees five deep,
//! virtual environments, multicall programs, tmux. Each runs the right program on one
//! device and gives it back.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use getgpu_tests::wrapped::{lacks_python, python, wrap};
use getgpu_tests::{OTHER, free_again, root};
use harness::Sandbox;
use harness::skip::{self};

/// The device in every line, which must be one and the same.
#[track_caller]
fn one_device(sandbox: &Sandbox, lines: &str, count: usize) -> String {
    let devices: Vec<&str> = lines.lines().collect();
    assert_eq!(devices.len(), count, "{lines}");
    assert!(
        devices.iter().all(|device| *device == devices[0]),
        "{lines}"
    );
    assert!(
        sandbox.uuids().iter().any(|uuid| uuid == devices[0]),
        "{lines}"
    );
    devices[0].to_owned()
}

/// A wrapped python3, as an administrator would wrap it.
fn wrapped_python(sandbox: &Sandbox) -> String {
    std::fs::create_dir_all(sandbox.path("opt")).unwrap();
    symlink(python().unwrap(), sandbox.path("opt/CUDAWRAP_python3")).unwrap();
    symlink(sandbox.path("bin/cudawrap"), sandbox.path("opt/python3")).unwrap();
    sandbox.text("opt/python3")
}

#[test]
fn pythons_own_processes_stay_on_its_device() {
    if lacks_python() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let program = wrapped_python(&sandbox);
    for method in ["spawn", "fork", "forkserver"] {
        let text = format!(
            "import multiprocessing as m, os, sys, subprocess\n\
             def f(i):\n  print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n\
             if __name__ == '__main__':\n  m.set_start_method('{method}')\n\
             \x20 ps = [m.Process(target=f, args=(i,)) for i in range(4)]\n  [p.start() for p in ps]\n  [p.join() for p in ps]\n\
             \x20 sys.exit(sum(p.exitcode for p in ps) + subprocess.call([sys.executable, '-c', \
             'import os; print(os.environ[\"CUDA_VISIBLE_DEVICES\"])']))\n"
        );
        let file = sandbox.file("work/processes.py", &text, 0o644);
        let began = std::time::Instant::now();
        let outcome = sandbox.command(&program).args([file]).run();
        one_device(&sandbox, &outcome.exits(0).says(&[]).stdout, 5);
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "{method}: {:?}",
            began.elapsed()
        );
        free_again(&sandbox);
    }
}

/// As torchrun does it: a launcher starts workers, which start helpers, all by the
/// wrapped name.
#[test]
fn a_tree_five_deep_has_one_device() {
    let sandbox = Sandbox::new("mig4");
    std::fs::create_dir_all(sandbox.path("opt")).unwrap();
    symlink("/bin/bash", sandbox.path("opt/CUDAWRAP_sh5")).unwrap();
    symlink(sandbox.path("bin/cudawrap"), sandbox.path("opt/sh5")).unwrap();
    let script = "echo $CUDA_VISIBLE_DEVICES; [ $1 -eq 0 ] || { sh5 $0 $(($1 - 1)) & sh5 $0 $(($1 - 1)); wait; }";
    let file = sandbox.file("work/tree", script, 0o755);
    let path = format!("{}:/usr/bin:/bin", sandbox.text("opt"));
    let command = sandbox
        .command(sandbox.path("opt/sh5"))
        .args([file.to_str().unwrap(), "5"])
        .env("PATH", &path);
    let outcome = command.run();
    one_device(&sandbox, &outcome.exits(0).says(&[]).stdout, 63);
    free_again(&sandbox);
    // A wrapped shell that runs a wrapped program, and the other way round by cudawrap's
    // own name.
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    let words = [
        "-c".to_owned(),
        format!("{0}; cudawrap -- {0}; {0} --exit 3", app.display()),
    ];
    let outcome = sandbox.command(sandbox.path("opt/sh5")).args(words).run();
    assert_eq!(
        outcome
            .exits(3)
            .says(&[])
            .stdout
            .matches("RUN MIG-")
            .count(),
        3
    );
    free_again(&sandbox);
}

#[test]
fn a_virtual_environment_and_scripts_find_their_interpreter() {
    if lacks_python() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let program = wrapped_python(&sandbox);
    // python finds its virtual environment by the name that it was called by.
    let made = sandbox
        .command(&program)
        .args(["-m", "venv", "--without-pip", "--symlinks", "env"])
        .run();
    if made.code() != Some(0) {
        skip::say("this Python has no venv");
        return;
    }
    let show = "import sys, os; print(sys.prefix, os.environ['CUDA_VISIBLE_DEVICES'][:4])";
    let outcome = sandbox
        .command(sandbox.path("work/env/bin/python3"))
        .args(["-c", show])
        .run();
    // The link of the environment leads to the wrapped one, whose name CPython takes for
    // its own place.
    let prefix = outcome
        .exits(0)
        .says(&[])
        .stdout
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    assert!(outcome.stdout.ends_with(" MIG-\n"), "{outcome:#?}");
    assert!(
        prefix == sandbox.text("work/env") || prefix.starts_with("/usr"),
        "{prefix}"
    );
    let line = format!(
        "#!{program}\nimport os, sys\nprint(os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:])\n"
    );
    let script = sandbox.file("work/script", &line, 0o755);
    let outcome = sandbox.command(&script).args(["a b", "--help"]).run();
    assert!(
        outcome.exits(0).stdout.ends_with(" ['a b', '--help']\n"),
        "{outcome:#?}"
    );
    let env = format!(
        "#!/usr/bin/env python3\n{}",
        line.split_once('\n').unwrap().1
    );
    let script = sandbox.file("work/script2", &env, 0o755);
    let path = format!("{}:/usr/bin:/bin", sandbox.text("opt"));
    sandbox
        .command(&script)
        .env("PATH", &path)
        .run()
        .exits(0)
        .says(&[]);
}

/// The path of a program that is a link to a link, from a working directory that nobody
/// may read.
#[test]
fn a_working_directory_without_rights_does_no_harm() {
    let Some(sandbox) = root("mig4") else { return };
    let app = wrap(&sandbox, "opt", "app", "sim-cuda");
    sandbox.file("closed/file", "", 0o600);
    std::fs::set_permissions(
        sandbox.path("closed"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    let script = format!(
        "cd {}; exec setpriv --reuid={OTHER} --regid={OTHER} --clear-groups {}",
        sandbox.text("closed"),
        app.display()
    );
    assert!(
        sandbox
            .shell("sh", &script)
            .run()
            .exits(0)
            .stdout
            .starts_with("RUN MIG-")
    );
    assert!(Path::new(&app).is_symlink());
}
