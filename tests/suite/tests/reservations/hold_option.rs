//! `--hold` in every shell and form: held until the calling shell exits, then free at
//! once. The caller is the shell itself, not the fork that a pipe, a function or a
//! command substitution makes.

use std::time::Duration;

use getgpu_tests::{OTHER, all_at_once, free_again, somebody};
use harness::{Sandbox, Signal, skip, wait};

/// What each shell does before it tells that it is ready and waits: each line ends with
/// the device reserved for the shell.
#[rustfmt::skip]
const FORMS: [(&str, &str); 18] = [
    // A program that has used it ends nothing.
    ("bash", "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); sim-cuda --run 0.3"),
    ("bash", "X=$(getgpu --hold)"),
    ("bash", "export CUDA_VISIBLE_DEVICES=$(getgpu --hold | cat)"),
    ("bash", "X=$(getgpu --hold || exit)"),
    ("bash", "f() { local y; y=$(getgpu --hold); X=$y; }; f"),
    ("bash", "f() { getgpu --hold; }; X=$(f)"),
    ("bash", "X=$(eval \"$(echo getgpu --hold)\")"),
    ("bash", "eval \"$(getgpu --hold --format env)\"; X=$CUDA_VISIBLE_DEVICES"),
    ("bash", "read X < <(getgpu --hold)"),
    ("dash", "X=`getgpu --hold`"),
    ("dash", "X=$(getgpu --hold | cat)"),
    ("dash", "X=$(getgpu --hold || exit)"),
    ("dash", "f() { getgpu --hold; }; X=$(f)"),
    ("zsh", "X=$(getgpu --hold)"),
    ("zsh", "X=$(getgpu --hold | cat)"),
    ("zsh", "f() { getgpu --hold || exit; }; X=$(f)"),
    ("tcsh", "set X = `getgpu --hold`"),
    ("tcsh", "set X = `getgpu --hold || exit`"),
];

#[test]
fn hold_lasts_until_that_shell_is_over() {
    all_at_once(FORMS, |(shell, form)| {
        if skip::lacks(&[skip::Need::Tool(shell)]) {
            return;
        }
        let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
        // tcsh has no loops on its command line.
        let script = match shell {
            "tcsh" => format!("{form}; touch ready; probe --out facts --until go; exit 0"),
            _ => format!("{form}; : >ready; while [ ! -e go ]; do sleep 0.05; done"),
        };
        let program = sandbox.shell(shell, &script).spawn();
        sandbox.until_file("work/ready");
        let held = || sandbox.holders().len() == 1 && sandbox.locked();
        let what = format!("held by {shell}: {form}");
        wait::throughout(Duration::from_millis(700), &what, held);
        somebody(&sandbox, &[]).run().exits(1);
        sandbox.file("work/go", "", 0o644);
        program.wait().exits(0);
        free_again(&sandbox);
    });
}

#[test]
fn it_is_that_shells_also_where_addresses_are_not_randomised() {
    let Some(sandbox) = Sandbox::given(
        &[skip::Need::Tool("setarch"), skip::Need::Tool("dash")],
        "mig4",
        "",
    ) else {
        return;
    };
    // dash would put PWD right in what it starts.
    let place = format!("PWD={}", sandbox.text("work"));
    let fixed = |words: &[&str]| {
        let command = sandbox.command("env").args([&place, "setarch", "-R"]);
        command.args(words)
    };
    if fixed(&["true"]).run().code() != Some(0) {
        return skip::say("setarch -R is not allowed here");
    }
    // Words and environments of the same length: the arguments lie at one address.
    sandbox.file("work/inner", "X=$(getgpu --hold); echo $$; :\n", 0o644);
    let outer = "dash ./inner; : >ready; while [ ! -e go ]; do sleep 0.05; done\n";
    sandbox.file("work/outer", outer, 0o644);
    let program = fixed(&["dash", "./outer"]).spawn();
    sandbox.until_file("work/ready");
    free_again(&sandbox);
    sandbox.file("work/go", "", 0o644);
    program.wait().exits(0);
}

#[test]
fn hold_may_name_any_process_of_any_user() {
    let sandbox = Sandbox::new("h200x1");
    let other = sandbox.words("probe --until never").spawn();
    let hold = format!("--hold={}", other.pid());
    somebody(&sandbox, &[&hold]).run().line();
    wait::throughout(Duration::from_millis(300), "held", || {
        sandbox.holders().len() == 1
    });
    other.signal(Signal::SIGKILL);
    assert_eq!(other.wait().signal(), Some(9));
    free_again(&sandbox);
}

#[test]
fn hold_refuses_what_is_not_there_or_never_ends() {
    let sandbox = Sandbox::new("h200x1");
    let gone = sandbox.command("true").spawn();
    let pid = gone.pid();
    gone.wait().exits(0);
    let line = format!("getgpu: --hold={pid}: no such process");
    sandbox.ask(&format!("--hold={pid}")).refuses(2, &line);
    sandbox.ask("--hold=4194305").refuses(2, "no such process");
    for wrong in ["--hold --no-reserve", "--hold=0 --for=3"] {
        sandbox.ask(wrong).exits(2).prints("");
    }
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    for pid in ["1", "2", "0"] {
        let hold = format!("--hold={pid}");
        sandbox
            .ask_as(OTHER, &hold)
            .refuses(2, &format!("{hold}: "));
    }
    sandbox.assert_clean();
}

#[test]
fn a_release_by_owner_or_root_returns_when_the_device_is_free() {
    let sandbox = Sandbox::new("a100x1");
    let uuids: Vec<String> = (0..3)
        .map(|_| somebody(&sandbox, &[]).run().line())
        .collect();
    for uuid in &uuids[..2] {
        let before = sandbox.holders().len();
        somebody(&sandbox, &["--release", uuid]).run().answers("");
        assert_eq!(sandbox.holders().len(), before - 1);
    }
    for name in [uuids[0].as_str(), "no-such-tag"] {
        let again = somebody(&sandbox, &["--release", name]).run();
        again.refuses(1, &format!("{name}: no reservation"));
    }
    sandbox.line("");
    sandbox.ask("--release-all").answers("");
    assert!(
        sandbox.holders().is_empty() && !sandbox.locked(),
        "root's and the other's"
    );
    sandbox.ask("--release-all").answers("");
}

#[test]
fn what_was_printed_of_several_devices_releases_all_or_none_of_them() {
    let sandbox = Sandbox::new("a100x1");
    let several = sandbox.line("-q -n 2 --hold");
    let other = sandbox.line("--hold");
    // Of one reservation, of two, and of a part of one, which is given up whole.
    sandbox.ask(&format!("--release {several}")).answers("");
    assert_eq!(sandbox.holders().len(), 1);
    let more = sandbox.line("-q -n 2 --hold");
    let (part, _) = more.split_once(',').unwrap();
    let unknown = sandbox.ask(&format!("--release {other},{part},GPU-0"));
    unknown.refuses(1, "GPU-0: no reservation of yours");
    let gone = sandbox.uuids();
    let gone = gone
        .iter()
        .find(|uuid| !more.contains(*uuid) && **uuid != other);
    let gone = gone.unwrap();
    let refused = sandbox.ask(&format!("--release {other},{part},{gone}"));
    refused.refuses(1, &format!("getgpu: {gone}: no reservation of yours"));
    assert_eq!(sandbox.holders().len(), 2, "nothing is given up");
    sandbox
        .ask(&format!("--release {other},{part}"))
        .answers("");
    sandbox.assert_clean();
}

/// Process 1 adopts what a shell leaves behind, and never exits: nothing is held for it, as
/// long as it is of another session (in a container it may not be, so each call is given
/// one of its own here; of the first its leader waits, of the second it is dead).
/// Whoever is asked by a shell that began a session is held for that shell.
#[test]
fn nothing_is_held_for_whoever_adopts_the_call_of_a_dead_shell() {
    let sandbox = Sandbox::new("h200x1");
    let adopted =
        "( while read -r _ _ _ parent _ </proc/$BASHPID/stat && [ $parent = $$ ]; do :; done
        exec getgpu --hold >out 2>err ) & disown; kill -9 $$";
    #[rustfmt::skip]
    let cases: [&[&str]; 2] = [
        &["setsid", "-w", "bash", "-c", "bash -c \"$0\" 8>&1 | cat", adopted],
        &["setsid", "bash", "-c", adopted],
    ];
    for words in cases {
        sandbox.command(words[0]).args(&words[1..]).run();
        let read = |file: &str| std::fs::read_to_string(sandbox.path(file)).unwrap_or_default();
        wait::until("it answers", || {
            !read("work/out").is_empty() || read("work/err").contains("hint")
        });
        let lines = "getgpu: --hold: the calling process has exited\n\
                     getgpu: hint: name the process to hold for: --hold=PID\n";
        assert_eq!((&*read("work/out"), &*read("work/err")), ("", lines));
        std::fs::remove_file(sandbox.path("work/err")).unwrap();
        sandbox.assert_clean();
    }
    #[rustfmt::skip]
    let cases = [
        ["setsid", "-w", "bash", "-c", "d=$(getgpu --hold) && echo $d"].as_slice(),
        &["bash", "-c", "d=$(setsid -w getgpu --hold) && echo $d"],
    ];
    for words in cases {
        let line = sandbox.command(words[0]).args(&words[1..]).run().line();
        assert_eq!(line, sandbox.uuids()[0]);
        sandbox.assert_clean();
    }
}

/// The kernel does not show who reads a file: there the caller is the shell, and it has exited.
#[test]
fn a_shell_whose_answer_goes_to_a_file_is_the_caller() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    for text in [
        "getgpu --hold; true",
        "getgpu --hold && true",
        "echo $(getgpu --hold)",
    ] {
        let script = format!(
            "dash -c '{text}' >out; while getgpu --list --json | grep -q '\"reserved\"'; do sleep 0.05; done"
        );
        sandbox.shell("bash", &script).run().exits(0);
    }
}
