//! The TaskProlog called by hand, and what it printed.

use getgpu_tests::slurm;
use harness::skip::{self, Need};
use harness::{Outcome, Sandbox, wait};

/// A task of a step, as Slurm tells it.
pub(crate) const STEP: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0";

/// What hides all GPUs.
pub(crate) const NONE: &str = "export CUDA_VISIBLE_DEVICES=\n";

/// How the line begins that says so.
pub(crate) const HIDDEN: &str =
    "getgpu task-prolog: started without a GPU, CUDA_VISIBLE_DEVICES is empty: ";

pub(crate) fn script() -> String {
    slurm::script("task-prolog").display().to_string()
}

/// Asserts that the task was told why it sees no GPU.
#[track_caller]
pub(crate) fn hidden(outcome: &Outcome, why: &str) {
    outcome.exits(0).prints(NONE).mentions(why);
}

/// Four GPUs, where the script can be called; none: it has been said.
pub(crate) fn gpus4() -> Option<Sandbox> {
    let lacks = skip::lacks(&[Need::Root, Need::Tool("dash")]);
    (!lacks).then(|| Sandbox::new("gpus4"))
}

/// The same, where it has nothing to tell its user.
#[track_caller]
pub(crate) fn called(sandbox: &Sandbox, variables: &str) -> Outcome {
    let outcome = told(sandbox, variables);
    outcome.says(&[]);
    outcome
}

/// What the script prints with these variables, split at blanks, which a failed test
/// shows. Names in small letters are settings of the table `[slurm]`. Its parent, the
/// future task, exits at once. Its stderr is that parent's: its own is closed, as
/// slurmstepd does it.
#[track_caller]
pub(crate) fn told(sandbox: &Sandbox, variables: &str) -> Outcome {
    let call = "dash -c 'exec dash \"$0\" 2>&-' \"$0\" || exit";
    let words = ["-c", call, &script(), variables];
    let (variables, settings) = taken_apart(variables);
    let file = slurm::with_settings(sandbox, &settings);
    let command = sandbox.words(&format!("{variables} dash")).args(words);
    let outcome = command.env("GETGPU_CONFIG", file).run();
    wait::until("its reservation ends", || {
        sandbox.holders().is_empty() && !sandbox.locked()
    });
    outcome
}

/// The hook as it is called for a task beside others of the sandbox that run on.
pub(crate) fn beside(sandbox: &Sandbox, variables: &str, settings: &str) -> Outcome {
    let file = slurm::with_settings(sandbox, settings);
    let words = ["-c", "dash \"$0\"; :", &script()];
    let command = sandbox.words(&format!("{variables} dash")).args(words);
    command.env("GETGPU_CONFIG", file).run()
}

/// Variables, and lines of settings.
fn taken_apart(words: &str) -> (String, String) {
    let is_setting = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    let (settings, variables): (Vec<&str>, Vec<&str>) =
        words.split_ascii_whitespace().partition(is_setting);
    let line = |setting: &str| {
        let (name, value) = setting.split_once('=').unwrap();
        match value {
            "true" | "false" => format!("{name} = {value}\n"),
            _ => format!("{name} = {value:?}\n"),
        }
    };
    let settings = settings.into_iter().map(line).collect();
    (variables.join(" "), settings)
}

/// The device of the first line; after it come at most the framework variables of a part.
#[track_caller]
pub(crate) fn device(sandbox: &Sandbox, lines: &str) -> String {
    let (first, more) = lines.split_once('\n').unwrap_or_default();
    let of_part = |line: &str| line.starts_with("export TF_") || line.starts_with("export XLA_");
    assert!(more.lines().all(of_part), "{lines:?}");
    let uuid = first.strip_prefix("export CUDA_VISIBLE_DEVICES=");
    let mut uuids = sandbox.uuids().into_iter();
    let known = uuids.find(|known| Some(known.as_str()) == uuid);
    known.unwrap_or_else(|| panic!("not a line for one device: {lines:?}"))
}

/// The device of a task with these variables.
#[track_caller]
pub(crate) fn given(sandbox: &Sandbox, variables: &str) -> String {
    let outcome = called(sandbox, variables);
    outcome.exits(0);
    device(sandbox, &outcome.stdout)
}
