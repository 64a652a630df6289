//! Who the caller is: the one who reads the answer. A subshell, a function in the background or a
//! shell with more to do that keeps the answer has its device for itself, and one that passes it
//! on has none.

use std::time::Duration;

use getgpu_tests::{all_at_once, free_again};
use harness::{Sandbox, skip, wait};

use super::scripts::{different, ran_on};

/// Shells that have functions and subshells in the same words.
const SHELLS: [&str; 6] = ["bash", "dash", "busybox", "zsh", "ksh", "mksh"];

/// Whether a shell can be started; `busybox` is started as `busybox sh`.
fn shell(sandbox: &Sandbox, shell: &str, script: &str) -> harness::Command {
    match shell {
        "busybox" => sandbox.command("busybox").args(["sh", "-c", script]),
        _ => sandbox.shell(shell, script),
    }
}

/// Four functions in the background want two devices, each for as long as it runs.
#[test]
fn each_background_job_of_a_function_has_a_device_of_its_own() {
    let run = "run() { export CUDA_VISIBLE_DEVICES=$(getgpu --wait --hold); sim-cuda --run 0.3; }";
    let local = "run() { pick() { d=$(getgpu --wait --hold); echo $d; }; export CUDA_VISIBLE_DEVICES=$(pick); sim-cuda --run 0.3; }";
    let cases = SHELLS
        .iter()
        .flat_map(|shell| [(shell, run), (shell, local)]);
    for some in cases.collect::<Vec<_>>().chunks(4) {
        all_at_once(some, |(program, function)| {
            if skip::lacks(&[skip::Need::Tool(program)]) {
                return;
            }
            let sandbox = Sandbox::with("mig4", "linger = '100ms'");
            let others = [sandbox.hold_here(), sandbox.hold_here()];
            let script = format!("{function}; for i in 1 2 3 4; do run & done; wait");
            let command = shell(&sandbox, program, &script);
            command.run().exits(0);
            let devices = ran_on(&sandbox);
            assert_eq!(devices.len(), 4, "{program}: {function}");
            assert!(devices.iter().all(|device| !others.contains(device)));
            sandbox.assert_exclusive();
        });
    }
}

/// A loop of subshells does not run dry.
#[test]
fn a_subshell_gives_its_device_back() {
    // The subshells of ksh93 are no processes.
    let shells = SHELLS.into_iter().filter(|shell| *shell != "ksh");
    all_at_once(shells, |program| {
        if skip::lacks(&[skip::Need::Tool(program)]) {
            return;
        }
        let sandbox = Sandbox::with("mig4", "linger = '100ms'");
        let script = "for i in 1 2 3 4 5 6; do ( export CUDA_VISIBLE_DEVICES=$(getgpu --hold); sim-cuda --run 0.2 ) || exit 9; done; :";
        shell(&sandbox, program, script).run().exits(0);
        assert_eq!(ran_on(&sandbox).len(), 6);
        free_again(&sandbox);
    });
}

/// Two jobs at a time of one pipeline each keep their own.
#[test]
fn the_reader_in_a_pipeline_has_the_device() {
    let sandbox = Sandbox::with("mig4", "linger = '100ms'");
    let script = "for i in 1 2; do echo $i | while read n; do \
        export CUDA_VISIBLE_DEVICES=$(getgpu --hold); sim-cuda --run 0.5; done | cat & done; wait; getgpu --list --json >list";
    sandbox.shell("bash", script).run().exits(0);
    assert_eq!(different(&ran_on(&sandbox)), 2);
    sandbox.assert_exclusive();
    free_again(&sandbox);
}

/// What holds a device until it exits: program, how it is started, its script before it waits.
fn readers() -> Vec<(&'static str, Vec<&'static str>, String)> {
    let python = |call: &str| {
        format!(
            "import os, subprocess, time; x = {call}; open('ready', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.05)"
        )
    };
    let perl = |call: &str| {
        format!(
            "{call}; open(F, '>ready'); close F; select(undef, undef, undef, 0.05) until -e 'go';"
        )
    };
    let node = "const c = require('child_process'), fs = require('fs'); c.execSync('getgpu --hold; true'); \
        fs.writeFileSync('ready', ''); const t = setInterval(() => { if (fs.existsSync('go')) clearInterval(t); }, 50);";
    let wait = ": >ready; while [ ! -e go ]; do sleep 0.05; done";
    let mut all = vec![
        ("python3", vec!["-c"], python("subprocess.check_output('getgpu --hold; true', shell=True)")),
        ("python3", vec!["-c"], python("subprocess.check_output(['getgpu', '--hold'])")),
        ("python3", vec!["-c"], python("os.popen('getgpu --hold && true').read()")),
        ("perl", vec!["-e"], perl("my $x = `getgpu --hold; true`")),
        ("perl", vec!["-e"], perl("open(G, 'getgpu --hold |'); my $x = <G>; close G")),
        ("node", vec!["-e"], node.to_owned()),
        ("make", vec!["-s", "-f"], format!("X := $(shell getgpu --hold)\nall:\n\t{wait}\n")),
        ("bash", vec!["-c"], format!("coproc getgpu --hold; read X <&${{COPROC[0]}}; {wait}")),
        ("xargs", vec!["-a", "/dev/null", "sh", "-c"], format!("X=$(getgpu --hold); {wait}")),
        ("fish", vec!["-c"], "set X (getgpu --hold); touch ready; while test ! -e go; sleep 0.05; end".into()),
        ("fish", vec!["-c"], "function pick; set d (getgpu --hold); echo $d; end; set X (pick); touch ready; while test ! -e go; sleep 0.05; end".into()),
    ];
    for shell in SHELLS {
        let how = if shell == "busybox" {
            vec!["sh", "-c"]
        } else {
            vec!["-c"]
        };
        for call in [
            "X=$(getgpu --hold)",
            "X=`getgpu --hold || exit`",
            "f() { getgpu --hold; }; X=$(f)",
            "pick() { d=$(getgpu --hold); echo $d; }; X=$(pick)",
            "X=$(getgpu --hold | cat)",
        ] {
            all.push((shell, how.clone(), format!("{call}; {wait}")));
        }
    }
    all
}

#[test]
fn a_device_is_held_for_the_program_that_has_the_answer() {
    for some in readers().chunks(8) {
        all_at_once(some, |(program, options, script)| {
            if skip::lacks(&[skip::Need::Tool(program)]) {
                return;
            }
            let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
            let file = sandbox.file("work/script", script, 0o644);
            let script = match *program {
                "make" => file.display().to_string(),
                _ => script.clone(),
            };
            let command = sandbox.command(program).args(options).args([&script]);
            let running = command.spawn();
            sandbox.until_file("work/ready");
            let held = || sandbox.holders().len() == 1 && sandbox.locked();
            let what = format!("held by {program}: {script}");
            wait::throughout(Duration::from_millis(500), &what, held);
            sandbox.file("work/go", "", 0o644);
            running.wait().exits(0);
            free_again(&sandbox);
        });
    }
}
