//! The setting `enforce_memory`: the driver keeps a job with a part of a GPU to that part of its memory,
//! by the cgroup of the job. Here the cgroups are the kernel's, made as slurmstepd makes them, and the
//! driver is the simulated one of branch 615.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use getgpu_tests::{OTHER, listing, slurm};
use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, wait};

use crate::hook_calls::{epilog, hook, job, quiet};
use crate::task_prolog_call::{hidden, told};

const NODE: &str = "driver = \"615.10.02\"\n[[gpu]]\nmodel = \"A100-SXM4-80GB\"\ncount = 1\n";
const SHARES: &str = "[slurm]\nshares = ['gpushare4=1/4']\ntasks = 'asked'";
const GIB: u64 = 1 << 30;

/// A job's cgroup, removed at the end.
struct JobCgroup {
    top: PathBuf,
    job: PathBuf,
}

impl JobCgroup {
    /// None where this machine has no such cgroups, which has been said.
    fn make(number: &str) -> Option<Self> {
        let Some(top) = sim_node::cgroup_top() else {
            skip::say("no cgroups of version 2 are mounted");
            return None;
        };
        let top = top.join(format!("getgpu-test-{number}"));
        let cgroup = Self {
            job: top.join(format!("slurmstepd.scope/job_{number}")),
            top,
        };
        if let Err(error) = fs::create_dir_all(cgroup.job.join("step_extern")) {
            skip::say(&format!("no cgroup of version 2 can be made: {error}"));
            return None;
        }
        Some(cgroup)
    }

    /// A line of a shell that takes it into the cgroup.
    fn enter(&self) -> String {
        let procs = self.job.join("step_extern/cgroup.procs");
        format!("echo $$ > {} && ", procs.display())
    }

    /// The job's Prolog as PrologFlags=RunInJob runs it.
    fn prolog(&self, sandbox: &Sandbox, number: &str) -> Running {
        let lines = format!(
            "{}{{ {}\n}}",
            self.enter(),
            slurm::hook_lines(sandbox, "prolog", "")
        );
        let variables = format!(
            "SLURM_JOB_ID={number} SLURM_JOB_UID={OTHER} SLURM_JOB_GID={OTHER} SLURM_JOB_PARTITION=main SLURM_JOB_CONSTRAINTS=gpushare4"
        );
        let line = format!("env -i {variables} /bin/sh -c");
        let command = sandbox.words(&line).args([lines]);
        command.directory("/").spawn()
    }

    /// A program of the job, as its user, that wants so many GiB.
    fn program(&self, sandbox: &Sandbox, number: &str, gib: u64) -> Command {
        let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
        let app = format!("cudawrap -- sim-cuda --max 9 --memory {}", gib * GIB);
        let script = format!("{}exec {user} {app} \"$@\"", self.enter());
        let environment = format!("SLURM_JOB_ID={number} SLURM_STEP_ID=0 sh -c");
        sandbox.words(&environment).args([script.as_str(), "sh"])
    }
}

impl Drop for JobCgroup {
    /// Its last processes have just ended, and the kernel may still be at it.
    fn drop(&mut self) {
        let is_removed = || {
            for place in [
                &self.job.join("step_extern"),
                &self.job,
                &self.top.join("slurmstepd.scope"),
                &self.top,
            ] {
                let _ = fs::remove_dir(place);
            }
            !self.top.exists()
        };
        wait::holds_within(Duration::from_secs(20), is_removed);
    }
}

/// What the driver lets the holders of the only device have, in GiB.
fn limits(sandbox: &Sandbox) -> Vec<Option<u64>> {
    let listed = listing::json(sandbox);
    let holders = listing::devices(&listed)[0]["holders"].as_array().cloned();
    let holders = holders.unwrap_or_default();
    let limits = holders.iter().map(|holder| holder["memory_limit"].as_u64());
    limits.map(|limit| limit.map(|bytes| bytes / GIB)).collect()
}

#[test]
fn a_job_has_its_part_of_the_memory_and_no_more() {
    if skip::lacks(&[Need::Root, Need::Tool("setpriv")]) {
        return;
    }
    let sandbox = Sandbox::with(NODE, &format!("enforce_memory = true\n{SHARES}"));
    let numbers = [job(0), job(1)];
    let Some(greedy) = JobCgroup::make(&numbers[0]) else {
        return;
    };
    let Some(other) = JobCgroup::make(&numbers[1]) else {
        return;
    };
    quiet(greedy.prolog(&sandbox, &numbers[0]));
    quiet(other.prolog(&sandbox, &numbers[1]));
    assert_eq!(limits(&sandbox), [Some(20), Some(20)]);
    let table = sandbox.words("getgpu --list").uid(OTHER).run().output();
    assert!(table.contains("LIMIT GIB"), "{table}");
    let checked = sandbox.words("getgpu --check").run();
    checked.shows("the driver can keep jobs to their parts of the memory");
    // A neighbour has all of its part, whatever the first one wants.
    other.program(&sandbox, &numbers[1], 20).run().exits(0);
    let neighbour = other.program(&sandbox, &numbers[1], 20);
    let neighbour = neighbour.args(["--run", "forever"]).spawn();
    sandbox.until_running(1);
    let too_much = greedy.program(&sandbox, &numbers[0], 21).run();
    assert!(too_much.stdout.starts_with("NOMEMORY "), "{too_much:#?}");
    too_much.exits(102);
    greedy.program(&sandbox, &numbers[0], 20).run().exits(0);
    assert_eq!(sandbox.folder().running().unwrap().len(), 1);
    drop(neighbour);
    // A job that is started again has another cgroup, and its limit.
    quiet(epilog(&sandbox, &numbers[0]));
    drop(greedy);
    let again = JobCgroup::make(&numbers[0]).unwrap();
    quiet(again.prolog(&sandbox, &numbers[0]));
    assert_eq!(limits(&sandbox), [Some(20), Some(20)]);
    let too_much = again.program(&sandbox, &numbers[0], 21).run();
    too_much.exits(102);
    for number in &numbers {
        quiet(epilog(&sandbox, number));
    }
    sandbox.assert_clean();
}

/// As where a GPU hangs, or the library dies, at any other question.
#[test]
fn a_listing_stands_whatever_becomes_of_the_question() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let settings = format!("enforce_memory = true\nnvml_timeout = '6s'\n{SHARES}");
    let sandbox = Sandbox::with(NODE, &settings);
    let own = job(0);
    let Some(cgroup) = JobCgroup::make(&own) else {
        return;
    };
    quiet(cgroup.prolog(&sandbox, &own));
    assert_eq!(limits(&sandbox), [Some(20)]);
    for does in ["hang", "abort"] {
        let function = "nvmlDeviceGetMemoryLimits_v1";
        sandbox.faults(&format!(
            "[[rule]]\nfunction = '{function}'\ndoes = '{does}'\n"
        ));
        assert_eq!(limits(&sandbox), [None], "{does}");
    }
    sandbox.faults("");
    quiet(epilog(&sandbox, &own));
    sandbox.assert_clean();
}

#[test]
fn where_the_driver_cannot_the_part_is_counted_or_refused() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let older = NODE.replace("615.10.02", "550.54.15");
    let outside = "the prolog does not run in the job's cgroup (PrologFlags=RunInJob, cgroup v2)";
    let absent = "NVML DeviceGetMemoryLimits_v1: ";
    let mig = "the driver limits the memory of whole GPUs only";
    let cases = [
        (NODE, false, outside),
        (&older, true, absent),
        ("mig4", true, mig),
    ];
    for (node, is_inside, why) in cases {
        for (setting, is_refused) in [("true", false), ("'always'", true)] {
            let sandbox = Sandbox::with(node, &format!("enforce_memory = {setting}\n{SHARES}"));
            let own = job(0);
            let Some(cgroup) = JobCgroup::make(&own) else {
                return;
            };
            let prolog = if is_inside {
                cgroup.prolog(&sandbox, &own)
            } else {
                hook(&sandbox, "prolog", "", &own, "gpushare4")
            };
            if is_inside {
                let checked = sandbox.words("getgpu --check").run();
                checked.shows(&format!("enforce_memory is set: {why}"));
            }
            let said = prolog.wait();
            said.exits(0).prints("");
            if is_refused {
                said.mentions(&format!("job {own}: nothing reserved: {why}"));
                assert!(sandbox.holders().is_empty());
                let reason = "the driver of this node cannot limit its memory";
                let step = format!("SLURM_JOB_ID={own} SLURM_STEP_ID=0");
                hidden(&told(&sandbox, &step), reason);
            } else {
                said.mentions(&format!("job {own}: its part is counted only: {why}"));
                assert_eq!(sandbox.holders().len(), 1);
            }
            quiet(epilog(&sandbox, &own));
            sandbox.assert_clean();
        }
    }
}
