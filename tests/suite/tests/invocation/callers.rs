//! Unusual callers of wrapped programs: Python's ways to start processes, trees five deep,
//! virtual environments, multicall programs, tmux. Each runs the right program on one
//! device and gives it back.

use std::os::unix::fs::symlink;

use getgpu_tests::wrapped::{lacks_python, python, wrap};
use getgpu_tests::{OTHER, free_again, root};
use harness::Sandbox;
use harness::skip::{self};

/// The device in every line, which must be one and the same.
#[track_caller]
fn one_device(sandbox: &Sandbox, lines: &str, count: usize) -> String {
    let devices: Vec<&str> = lines.lines().collect();
    assert_eq!(devices.len(), count, "{lines}");
    let same = devices.iter().all(|device| *device == devices[0]);
    assert!(
        same && sandbox.uuids().contains(&devices[0].into()),
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
        let outcome = sandbox.command(&program).args([file]).run();
        one_device(&sandbox, &outcome.exits(0).says(&[]).stdout, 5);
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
    sandbox.file("work/tree", script, 0o755);
    let tree = "PATH=@/opt:/usr/bin:/bin @/opt/sh5 @/work/tree 5";
    let outcome = sandbox.words(tree).run();
    one_device(&sandbox, &outcome.exits(0).says(&[]).stdout, 63);
    free_again(&sandbox);
    // A wrapped shell that runs a wrapped program, and the other way round by cudawrap's
    // own name.
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let script = "../opt/app; cudawrap -- ../opt/app; ../opt/app --exit 3";
    let outcome = sandbox.words("@/opt/sh5 -c").args([script]).run();
    let lines = &outcome.exits(3).says(&[]).stdout;
    assert_eq!(lines.matches("RUN MIG-").count(), 3);
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
    let make = "@/opt/python3 -m venv --without-pip --symlinks env";
    if sandbox.words(make).run().code() != Some(0) {
        return skip::say("this Python has no venv");
    }
    let show = "import sys, os; print(sys.prefix, os.environ['CUDA_VISIBLE_DEVICES'][:4])";
    let python = sandbox.words("@/work/env/bin/python3 -c").args([show]);
    let outcome = python.run();
    // The link of the environment leads to the wrapped one, whose name CPython takes for
    // its own place.
    let line = outcome.says(&[]).line();
    let (prefix, device) = line.split_once(' ').unwrap();
    let known = prefix == sandbox.text("work/env") || prefix.starts_with("/usr");
    assert!(known && device == "MIG-", "{line}");
    let lines = "import os, sys\nprint(os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:])\n";
    for interpreter in [&program, "/usr/bin/env python3"] {
        let text = format!("#!{interpreter}\n{lines}");
        let script = sandbox.file("work/script", &text, 0o755);
        let path = format!("{}:/usr/bin:/bin", sandbox.text("opt"));
        let command = sandbox.command(&script).args(["a b", "--help"]);
        let line = command.env("PATH", &path).run().says(&[]).line();
        assert!(line.ends_with(" ['a b', '--help']"), "{line}");
    }
}

/// The path of a program that is a link to a link, from a working directory that nobody
/// may read.
#[test]
fn a_working_directory_without_rights_does_no_harm() {
    let Some(sandbox) = root("mig4") else { return };
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
    let app = sandbox.text("opt/app");
    let script = format!("mkdir -m 700 closed; cd closed; exec {user} {app}");
    let outcome = sandbox.shell("sh", &script).run();
    outcome.exits(0).shows("RUN MIG-");
}
