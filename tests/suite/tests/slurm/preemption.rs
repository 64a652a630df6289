//! Preemption, cancelling and suspending: Slurm's signals reach the program
//! itself, which keeps its device as long as it runs and no longer.

use std::fs;
use std::time::Duration;

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
}

impl Watched<'_> {
    /// Its process id, then its signals.
    fn log(&self) -> Vec<String> {
        let path = self.sandbox.path(&format!("work/{}", self.name));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until it had these signals, which are sorted: a shell that gets two at once has
    /// its own order for them.
    #[track_caller]
    fn until_log(&self, signals: &[&str]) {
        let told = wait::holds_within(wait::LONG, || {
            let mut all: Vec<String> = self.log().into_iter().skip(1).collect();
            all.sort();
            all == signals
        });
        let (name, log) = (self.name, self.log());
        assert!(
            told,
            "{name}: {log:?}, not {signals:?}; {}",
            self.cluster.logs()
        );
    }

    /// Its state (proc_pid_stat(5)); none: it is gone.
    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.log()[0])).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn over(&self) -> bool {
        matches!(self.state(), None | Some('Z' | 'X'))
    }
}

#[test]
fn slurms_signals_reach_a_program_that_keeps_its_device() {
    if slurm::lacks(&[]) {
        return;
    }
    // By cudawrap, as the batch script and as a task, and by TaskProlog.
    #[rustfmt::skip]
    let ways = [
        ("batch", "cudawrap -- ", 100), ("step", "cudawrap -- ", 100), ("hook", "", 1000),
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
            let step = cluster.srun(&format!("-n1 {run}"));
            let step = step.env("GETGPU_SLURM", wish);
            Some(step.limit(Duration::MAX).spawn())
        };
        let watched = Watched {
            cluster: &cluster,
            sandbox: &sandbox,
            name,
        };
        wait::until("it runs", || !watched.log().is_empty());
        let job = cluster.ask(&["squeue", "-h", "-o", "%i"]);
        let slurm = |words: &str| {
            let words: Vec<&str> = words.split(' ').chain([job.trim()]).collect();
            cluster.command(&words).run().exits(0);
        };
        let free = || listing::free_devices(&sandbox);
        slurm(match name {
            "batch" => "scancel --batch --signal=USR1",
            _ => "scancel --signal=USR1",
        });
        watched.until_log(&["USR1"]);
        // Stopped, 2 s later; a stopped program keeps its device.
        slurm("scontrol suspend");
        let stopped = wait::holds_within(wait::LONG, || watched.state() == Some('T'));
        assert!(stopped, "{name}: {:?} {}", watched.log(), cluster.logs());
        assert_eq!(free(), "0");
        slurm("scontrol resume");
        watched.until_log(&["CONT", "USR1"]);
        // Slurm kills 5 s later, if it has to.
        slurm("scancel");
        watched.until_log(&["CONT", "CONT", "TERM", "USR1"]);
        assert_eq!(free(), "0", "in the time of grace");
        assert!(!watched.over());
        assert!(sandbox.locked(), "kept until the end");
        sandbox.file(&format!("work/{name}-stop"), "", 0o644);
        wait::until("it has exited", || watched.over());
        let within = Duration::from_millis(within);
        wait::until_within(within, "its device is free", || !sandbox.locked());
        cluster.until_empty();
        sandbox.assert_clean();
    });
}

/// The lines of the page for training jobs: a trap does not run while a foreground program does.
#[test]
fn a_script_that_waits_in_the_background_hands_its_signal_on() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let cluster = Cluster::start(&sandbox, 1, "");
    sandbox.file("work/program", PROGRAM, 0o755);
    let page = fs::read_to_string(slurm::script("README.md")).unwrap();
    let at = page.find("cudawrap -- python train.py & pid=$!").unwrap();
    let (recipe, _) = page[at..].split_once("\n```").unwrap();
    let log = sandbox.text("work/saves");
    let recipe = recipe.replace("python train.py", &format!("dash program {log}"));
    let job = cluster.sbatch(
        "-n1",
        &format!("exec bash -c '{}'", recipe.replace('\'', "'\\''")),
    );
    let watched = Watched {
        cluster: &cluster,
        sandbox: &sandbox,
        name: "saves",
    };
    wait::until("it runs", || !watched.log().is_empty());
    let signal = ["scancel", "--batch", "--signal=TERM", &job];
    cluster.command(&signal).run().exits(0);
    watched.until_log(&["TERM"]);
    assert!(!watched.over(), "the script waits for it");
    sandbox.file("work/saves-stop", "", 0o644);
    cluster.until_empty();
    sandbox.assert_clean();
}
