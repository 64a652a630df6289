//! The recipes of docs/ADMIN.md for CI runners, by stand-ins that start each step of a job as a
//! shell of its own. The real runners need a server; which process lives how long is the same.

use std::path::PathBuf;
use std::time::Duration;

use getgpu_tests::listing::free_devices;
use harness::{Command, Running, Sandbox, wait};

use crate::launchers::documented_in;

/// GitHub's Runner.Worker: the variables that a step writes into a file are those of later steps,
/// and a step ends with its shell and the end of its output. It pauses behind each.
const GITHUB: &str = r#"#!/bin/bash
set -o pipefail
export GITHUB_ENV=$PWD/env
: >"$GITHUB_ENV"
for step in step?; do
    mapfile -t variables <"$GITHUB_ENV"
    env "${variables[@]}" bash -e "$step" 2>&1 | cat >>log || exit
    touch "done.$step"
    until [ -e "next.$step" ]; do sleep 0.02; done
done
"#;

/// GitLab's shell executor: the text of a stage is piped into a bash, which evaluates it behind
/// another pipe.
const GITLAB: &str = r#"#!/bin/bash
for step in step?; do
    printf 'set -eo pipefail\n: | eval %q\nexit 0\n' "$(cat "$step")" | bash >>log 2>&1 || exit
    touch "done.$step"
    until [ -e "next.$step" ]; do sleep 0.02; done
done
"#;

/// GitLab's custom executor: `run_exec` for each stage, `cleanup_exec` after the last one.
const GITLAB_CUSTOM: &str = r#"#!/bin/bash
export SYSTEM_FAILURE_EXIT_CODE=2
for step in step?; do
    ./run_exec "$step" >>log 2>&1 || exit
    touch "done.$step"
    until [ -e "next.$step" ]; do sleep 0.02; done
done
./cleanup_exec
# The process is that of all jobs.
touch cleaned
until [ -e end ]; do sleep 0.02; done
"#;

const GITHUB_LEASE: [&str; 2] = [
    "d=$(getgpu --wait=1h --hold=$PPID)",
    "echo \"CUDA_VISIBLE_DEVICES=$d\" >> \"$GITHUB_ENV\"",
];
const GITLAB_LEASE: [&str; 2] = [
    "d=$(getgpu --wait=1h --hold)",
    "export CUDA_VISIBLE_DEVICES=$d",
];
const CUSTOM_RUN: [&str; 3] = [
    "d=$(getgpu --wait=1h --hold=$PPID --tag=\"ci-$CUSTOM_ENV_CI_JOB_ID\") || exit \"$SYSTEM_FAILURE_EXIT_CODE\"",
    "export CUDA_VISIBLE_DEVICES=$d",
    "exec bash \"$1\"",
];
const CUSTOM_CLEANUP: &str = "getgpu --release=\"ci-$CUSTOM_ENV_CI_JOB_ID\"";

/// A step that uses its device, and one whose program leases inside it.
const USES: &str = "echo $CUDA_VISIBLE_DEVICES >>seen; sim-cuda --run 0.1";
const LEASES: &str = "cudawrap -- sim-cuda --run 0.1; echo $CUDA_VISIBLE_DEVICES >>seen";

/// The lines of a recipe, all of which the page has.
#[track_caller]
fn recipe(lines: &[&str]) -> String {
    lines
        .iter()
        .for_each(|line| documented_in("ADMIN.md", line));
    lines.join("\n")
}

/// A job in a directory of its own.
struct Job<'s> {
    sandbox: &'s Sandbox,
    name: &'s str,
}

impl<'s> Job<'s> {
    fn new(sandbox: &'s Sandbox, name: &'s str, runner: &str, steps: &[&str]) -> Self {
        let job = Self { sandbox, name };
        sandbox.file(&format!("work/{name}/Runner.Worker"), runner, 0o755);
        for (number, step) in (1..).zip(steps) {
            sandbox.file(
                &format!("work/{name}/step{number}"),
                &format!("{step}\n"),
                0o644,
            );
        }
        job
    }

    fn path(&self, file: &str) -> PathBuf {
        self.sandbox.path("work").join(self.name).join(file)
    }

    /// Waits for the end of a step; the runner pauses then.
    #[track_caller]
    fn has_done(&self, step: usize) {
        let done = self.path(&format!("done.step{step}"));
        let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let ended = wait::holds_within(Duration::from_secs(20), || done.exists());
        assert!(ended, "step {step} of {}: {}", self.name, log());
    }

    fn goes_on(&self, step: usize) {
        std::fs::write(self.path(&format!("next.step{step}")), "").unwrap();
    }

    /// The device of each step that has noted it.
    fn seen(&self) -> Vec<String> {
        let seen = std::fs::read_to_string(self.path("seen")).unwrap_or_default();
        seen.lines().map(str::to_owned).collect()
    }
}

/// The runner of a job.
fn runner_of(job: &Job<'_>) -> Command {
    let runner = job.sandbox.command(job.path("Runner.Worker"));
    let runner = runner.directory(job.path(""));
    runner.env("CUSTOM_ENV_CI_JOB_ID", job.name)
}

/// A node on which what no program uses any more is soon free.
fn node() -> Sandbox {
    Sandbox::with("mig4", "linger = '100ms'")
}

/// Asserts that one device is held for some time, longer than it lingers.
#[track_caller]
fn keeps_one(sandbox: &Sandbox) {
    wait::throughout(Duration::from_millis(600), "one device is held", || {
        free_devices(sandbox) == "3"
    });
}

#[track_caller]
fn all_are_free_soon(sandbox: &Sandbox) {
    wait::until_within(Duration::from_secs(3), "all devices are free", || {
        free_devices(sandbox) == "4"
    });
}

/// The runner goes through all steps of a job, which has one device in all and between them.
#[track_caller]
fn goes_through(sandbox: &Sandbox, job: &Job<'_>) -> Running {
    let runner = runner_of(job).spawn();
    for step in 1..=3 {
        job.has_done(step);
        keeps_one(sandbox);
        job.goes_on(step);
    }
    let seen = job.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen[0] == seen[1] && sandbox.uuids().contains(&seen[0]),
        "{seen:?}"
    );
    assert_eq!(sandbox.runs_by_device().len(), 1);
    runner
}

#[test]
fn a_github_job_has_one_device_in_all_steps() {
    let sandbox = node();
    let job = Job::new(
        &sandbox,
        "job",
        GITHUB,
        &[&recipe(&GITHUB_LEASE), USES, LEASES],
    );
    goes_through(&sandbox, &job).wait().exits(0);
    sandbox.assert_clean();
    assert_eq!(free_devices(&sandbox), "4");
}

/// A runner that is killed after its job's first step leaves nothing.
#[track_caller]
fn frees_when_killed(sandbox: &Sandbox, job: &Job) {
    let runner = runner_of(job).spawn();
    job.has_done(1);
    keeps_one(sandbox);
    runner.kill();
    all_are_free_soon(sandbox);
    sandbox.assert_clean();
}

#[test]
fn a_killed_github_runner_frees_the_device() {
    let sandbox = node();
    let job = Job::new(&sandbox, "job", GITHUB, &[&recipe(&GITHUB_LEASE), USES]);
    frees_when_killed(&sandbox, &job);
}

/// Two more are in use, so that two runners have all there are.
#[track_caller]
fn two_runners_have_two_devices(sandbox: &Sandbox, started: impl Fn(&Job<'_>) -> Command) {
    sandbox.line(&format!("-n 2 --hold={}", std::process::id()));
    let lease = recipe(&GITHUB_LEASE);
    let jobs = ["one", "two"].map(|name| Job::new(sandbox, name, GITHUB, &[&lease, USES]));
    let mut runners = Vec::from_iter(jobs.iter().map(|job| started(job).spawn()));
    jobs.iter().for_each(|job| job.has_done(1));
    sandbox
        .ask("--no-reserve")
        .refuses(1, "no free device: 4 of 4 in use");
    jobs[0].goes_on(1);
    jobs[0].has_done(2);
    jobs[0].goes_on(2);
    runners.remove(0).wait().exits(0);
    // The other one is still between its steps.
    wait::until("the first one's device is free", || {
        free_devices(sandbox) == "1"
    });
    jobs[1].goes_on(1);
    jobs[1].has_done(2);
    jobs[1].goes_on(2);
    runners.remove(0).wait().exits(0);
    assert_ne!(jobs[0].seen(), jobs[1].seen());
    sandbox.assert_exclusive();
    wait::until("both are free", || free_devices(sandbox) == "2");
}

#[test]
fn two_github_runners_of_one_user_have_two_devices() {
    two_runners_have_two_devices(&node(), runner_of);
}

/// As with PrivateTmp=yes: each runner has an empty /tmp, in which only the simulated node is.
#[test]
fn two_github_runners_with_a_private_tmp_have_two_devices() {
    let Some(sandbox) = getgpu_tests::root("mig4") else {
        return;
    };
    two_runners_have_two_devices(&sandbox, |job| {
        let (root, own) = (job.sandbox.text(""), job.path(""));
        let script = format!(
            "cd {root} && mount -t tmpfs none /tmp && mkdir -p {root} && \
             mount -c --bind . {root} && cd {} && exec ./Runner.Worker",
            own.display()
        );
        job.sandbox.apart(&script)
    });
}

/// Its shell is the caller and ends with the step; later steps name a device that is not theirs.
#[test]
fn a_device_held_by_a_step_alone_is_free_when_the_step_ends() {
    documented_in("ADMIN.md", "Its device is free as soon as the step\nends");
    let sandbox = node();
    let lease = GITHUB_LEASE.join("\n").replace("=$PPID", "");
    let job = Job::new(&sandbox, "job", GITHUB, &[&lease, USES]);
    let runner = runner_of(&job).spawn();
    job.has_done(1);
    all_are_free_soon(&sandbox);
    job.goes_on(1);
    job.has_done(2);
    job.goes_on(2);
    runner.wait().exits(0);
    assert!(sandbox.uuids().contains(&job.seen()[0]));
    sandbox.assert_clean();
}

#[test]
fn a_github_step_that_gets_no_device_fails() {
    let sandbox = node();
    sandbox.line(&format!("-n 4 --hold={}", std::process::id()));
    let lease = recipe(&GITHUB_LEASE).replace("=1h", "=0.1");
    let job = Job::new(&sandbox, "job", GITHUB, &[&lease, USES]);
    runner_of(&job).run().exits(1);
    assert!(job.seen().is_empty());
}

/// `after_script` is a shell of its own.
#[test]
fn a_gitlab_job_has_its_device_until_its_shell_ends() {
    let sandbox = node();
    let script = format!(
        "{}\n{USES}\ntouch uses; until [ -e go ]; do sleep 0.02; done\n{LEASES}",
        recipe(&GITLAB_LEASE)
    );
    let after = "echo ${CUDA_VISIBLE_DEVICES-none} >>seen";
    let job = Job::new(&sandbox, "job", GITLAB, &[&script, after]);
    let runner = runner_of(&job).spawn();
    wait::until("the script runs", || job.path("uses").exists());
    keeps_one(&sandbox);
    std::fs::write(job.path("go"), "").unwrap();
    job.has_done(1);
    all_are_free_soon(&sandbox);
    job.goes_on(1);
    job.has_done(2);
    job.goes_on(2);
    runner.wait().exits(0);
    let seen = job.seen();
    assert!(seen[0] == seen[1] && seen[2] == "none", "{seen:?}");
    sandbox.assert_clean();
}

/// A job by the custom executor, with its scripts.
fn custom_job(sandbox: &Sandbox) -> Job<'_> {
    let job = Job::new(sandbox, "job", GITLAB_CUSTOM, &["true", USES, LEASES]);
    let scripts = [
        ("run_exec", recipe(&CUSTOM_RUN)),
        ("cleanup_exec", recipe(&[CUSTOM_CLEANUP])),
    ];
    for (name, text) in scripts {
        sandbox.file(
            &format!("work/job/{name}"),
            &format!("#!/bin/bash\n{text}\n"),
            0o755,
        );
    }
    job
}

#[test]
fn a_job_of_gitlabs_custom_executor_has_one_device_until_cleanup() {
    let sandbox = node();
    let job = custom_job(&sandbox);
    let runner = goes_through(&sandbox, &job);
    wait::until("the job is cleaned up", || job.path("cleaned").exists());
    all_are_free_soon(&sandbox);
    std::fs::write(job.path("end"), "").unwrap();
    runner.wait().exits(0);
    sandbox.assert_clean();
}

#[test]
fn a_killed_gitlab_runner_frees_the_device_without_cleanup() {
    let sandbox = node();
    let job = custom_job(&sandbox);
    frees_when_killed(&sandbox, &job);
}
