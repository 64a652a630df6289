//! Preemption, cancelling, suspending and requeueing: Slurm's signals reach the program
//! itself, which keeps its device as long as it runs and no longer.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use getgpu_tests::listing;
use getgpu_tests::slurm::{self, Cluster};
use harness::{Sandbox, wait};

/// A program that writes down its signals and goes on until it may end.
const PROGRAM: &str = "#!/bin/dash
for signal in CONT TERM USR1; do trap \"echo $signal >>$1\" $signal; done
echo $$ >>$1
while ! [ -e $1-stop ]; do sleep 0.02; done
";

/// One run of it.
struct Watched<'a> {
    cluster: &'a Cluster<'a>,
    sandbox: &'a Sandbox,
    name: &'a str,
    job: String,
}

impl Watched<'_> {
    /// Its process id, then its signals.
    fn log(&self) -> Vec<String> {
        let path = self.sandbox.path(&format!("work/{}", self.name));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn until_log(&self, signals: &[&str]) {
        // A shell that gets two at once has its own order for them.
        let sorted = |mut signals: Vec<String>| {
            signals.sort();
            signals
        };
        let expected = sorted(signals.iter().map(|&signal| signal.to_owned()).collect());
        let told = wait::holds_within(Duration::from_secs(10), || {
            sorted(self.log().into_iter().skip(1).collect()) == expected
        });
        let output = self.cluster.output(&self.job);
        let (name, log) = (self.name, self.log());
        assert!(told, "{name}: {log:?}, not {signals:?}; {output}");
    }

    /// Its state (proc_pid_stat(5)); none: it is gone.
    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(Path::new("/proc").join(&self.log()[0]).join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn over(&self) -> bool {
        matches!(self.state(), None | Some('Z' | 'X'))
    }

    /// Lets it end, and holds that its device is free again by then.
    #[track_caller]
    fn stop(&self, within: Duration) {
        assert!(self.sandbox.locked(), "kept until the end");
        let stop = format!("work/{}-stop", self.name);
        self.sandbox.file(&stop, "", 0o644);
        wait::until("it has exited", || self.over());
        wait::until_within(within, "its device is free", || !self.sandbox.locked());
    }
}

#[test]
fn slurms_signals_reach_a_program_that_keeps_its_device() {
    if slurm::lacks(&[]) {
        return;
    }
    // By cudawrap, as the batch script and as a task, and by TaskProlog.
    let ways = [
        ("batch", "cudawrap -- ", 100),
        ("step", "cudawrap -- ", 100),
        ("hook", "", 1000),
    ];
    getgpu_tests::all_at_once(ways, |(name, wrapper, within)| {
        let sandbox = Sandbox::new("h200x1");
        let asked = slurm::task_prolog(&sandbox, "tasks = 'asked'");
        let cluster = Cluster::start(&sandbox, 1, &asked);
        sandbox.file("work/program", PROGRAM, 0o755);
        let log = sandbox.text(&format!("work/{name}"));
        let run = format!("{wrapper}dash program {log}");
        let _step = if name == "batch" {
            cluster.sbatch("-n1", &format!("exec {run}"));
            None
        } else {
            let wish = if name == "hook" { "yes" } else { "no" };
            let step = cluster
                .srun(&format!("-n1 {run}"))
                .env("GETGPU_SLURM", wish);
            Some(step.limit(Duration::MAX).spawn())
        };
        let mut watched = Watched {
            cluster: &cluster,
            sandbox: &sandbox,
            name,
            job: String::new(),
        };
        wait::until("it runs", || !watched.log().is_empty());
        let jobs = cluster.ask(&["squeue", "-h", "-o", "%i"]);
        jobs.trim().clone_into(&mut watched.job);
        let slurm = |words: &[&str]| {
            let command = cluster.command(words).args([&watched.job]);
            command.run().exits(0);
        };
        let free = || listing::free_devices(&sandbox);
        slurm(if name == "batch" {
            &["scancel", "--batch", "--signal=USR1"]
        } else {
            &["scancel", "--signal=USR1"]
        });
        watched.until_log(&["USR1"]);
        // Stopped, 2 s later; a stopped program keeps its device.
        slurm(&["scontrol", "suspend"]);
        let stopped = wait::holds_within(wait::LONG, || watched.state() == Some('T'));
        assert!(stopped, "{name}: {:?} {}", watched.log(), cluster.logs());
        assert_eq!(free(), "0");
        slurm(&["scontrol", "resume"]);
        watched.until_log(&["USR1", "CONT"]);
        // Slurm kills 5 s later, if it has to.
        slurm(&["scancel"]);
        watched.until_log(&["USR1", "CONT", "CONT", "TERM"]);
        assert_eq!(free(), "0", "in the time of grace");
        assert!(!watched.over());
        watched.stop(Duration::from_millis(within));
        cluster.until_empty();
        sandbox.assert_clean(Duration::from_secs(1));
    });
}

#[test]
fn a_requeued_job_finds_nothing_in_its_way() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    // No epilog: what the first run had reserved is still there at the second.
    let shares = "shares = ['gpushare4=1']";
    let prolog = slurm::hook(&sandbox, "prolog", shares);
    let lines = format!("Prolog={prolog}\n{}", slurm::task_prolog(&sandbox, shares));
    let cluster = Cluster::start(&sandbox, 1, &lines);
    sandbox.file("work/program", PROGRAM, 0o755);
    let script = "echo run ${SLURM_RESTART_COUNT-0} $CUDA_VISIBLE_DEVICES\nexec cudawrap -- dash program $PWD/run${SLURM_RESTART_COUNT-0}";
    let options = "--requeue -n1 --constraint=gpushare4 --open-mode=append";
    let job = cluster.sbatch(options, script);
    let first = Watched {
        cluster: &cluster,
        sandbox: &sandbox,
        name: "run0",
        job: job.clone(),
    };
    wait::until("it runs", || !first.log().is_empty());
    let requeue = cluster.command(&["scontrol", "requeue", &job]);
    requeue.run().exits(0);
    first.until_log(&["CONT", "TERM"]);
    sandbox.file("work/run0-stop", "", 0o644);
    wait::until("it has exited", || first.over());
    let second = Watched {
        name: "run1",
        ..first
    };
    // Slurm would wait two minutes, since a node refuses the second run's credential if
    // it is of the second in which the first one's ended.
    let ended = Instant::now();
    wait::until("that second has passed", || {
        ended.elapsed() > Duration::from_secs(2)
    });
    let now = wait::holds_within(wait::LONG, || {
        let job = format!("JobId={job}");
        cluster.ask(&["scontrol", "update", &job, "StartTime=now"]);
        !second.log().is_empty()
    });
    assert!(now, "{} {}", cluster.output(&job), cluster.logs());
    let uuid = &sandbox.uuids()[0];
    let output = cluster.output(&job);
    let runs = output.lines().filter(|line| line.starts_with("run "));
    let expected = [format!("run 0 {uuid}"), format!("run 1 {uuid}")];
    assert_eq!(runs.collect::<Vec<_>>(), expected);
    assert_eq!(sandbox.holders().len(), 1);
    sandbox.file("work/run1-stop", "", 0o644);
    cluster.until_empty();
}
