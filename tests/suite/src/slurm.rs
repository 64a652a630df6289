//! A real Slurm in a sandbox: controller and node daemons as children of the test, on
//! ports of their own, for the simulated node's GPUs. No munge, no users, no cgroups:
//! nothing is written outside the sandbox, and what a test leaves running ends with it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, wait};

/// The most nodes that a cluster has.
const NODES: u16 = 2;

/// A cluster whose nodes `n1`, `n2` ... are all this host: 32 CPUs, and 4 GPUs for
/// `--gres=gpu:N`, each; 8 of `gpuquarter`, which only `job_submit.lua` asks for.
#[derive(Debug)]
pub struct Cluster<'a> {
    sandbox: &'a Sandbox,
    /// The controller first. Killed when this goes.
    daemons: Vec<Running>,
    watcher: Child,
    /// Keeps the ports from others.
    _ports: TcpListener,
}

/// Whether this machine lacks a Slurm, or what it needs; then it has been said.
pub fn lacks(more: &[Need]) -> bool {
    let daemons = ["slurmctld", "slurmd", "srun"].map(Need::Tool);
    skip::lacks(&[Need::Root]) || skip::lacks(&daemons) || skip::lacks(more)
}

impl<'a> Cluster<'a> {
    /// Starts one with this many nodes and these lines of `slurm.conf` (slurm.conf(5)),
    /// and waits until jobs can run.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox, nodes: u16, lines: &str) -> Self {
        assert!(nodes <= NODES, "{nodes} nodes");
        let (port, own) = ports();
        // Numbers of jobs that no other cluster on this host has: processes say which job
        // they are of, and nothing more.
        let lines = format!("FirstJobId={port}000\n{lines}");
        configure(sandbox, port + 1, nodes, &lines);
        let watcher = watcher(port, &sandbox.path("slurm.conf"));
        let mut cluster = Self {
            sandbox,
            daemons: Vec::new(),
            watcher,
            _ports: own,
        };
        cluster.daemon(&["slurmctld", "-D"]);
        for node in 1..=nodes {
            cluster.daemon(&["slurmd", "-D", "-N", &format!("n{node}")]);
        }
        let idle = || cluster.ask(&["sinfo", "-h", "-t", "idle", "-o", "%D"]);
        let ready = wait::holds_within(wait::LONG, || idle().trim() == nodes.to_string());
        assert!(ready, "no Slurm: {}", cluster.logs());
        cluster
    }

    fn daemon(&mut self, words: &[&str]) {
        let daemon = self.command(words).limit(Duration::MAX).spawn();
        self.daemons.push(daemon);
    }

    /// A command of Slurm, in the sandbox's environment, which srun and sbatch hand on to
    /// tasks.
    pub fn command(&self, words: &[&str]) -> Command {
        self.sandbox
            .command(words[0])
            .args(&words[1..])
            .env("SLURM_CONF", self.sandbox.path("slurm.conf"))
    }

    /// What such a command prints, however it ends.
    pub fn ask(&self, words: &[&str]) -> String {
        self.command(words).run().stdout
    }

    /// `srun` with these words, split at blanks; it does not tell that a job waits, which
    /// some do when they follow each other at once.
    pub fn srun(&self, words: &str) -> Command {
        let words = words.split_ascii_whitespace();
        self.command(&["srun", "-Q"]).args(words)
    }

    /// Submits a script with these options, and gives the number of the job. Output of
    /// all jobs is in `work/out-JOB`.
    #[track_caller]
    pub fn sbatch(&self, options: &str, script: &str) -> String {
        let text = format!("#!/bin/sh\n{script}\n");
        let file = self.sandbox.file("work/script", &text, 0o755);
        let command = self.command(&["sbatch", "--parsable", "--output=out-%j"]);
        let command = command.args(options.split_ascii_whitespace());
        command.args([file]).run().line()
    }

    /// Waits until no job is left, not even one that is ending.
    #[track_caller]
    pub fn until_empty(&self) {
        wait::until("no job is left", || {
            self.ask(&["squeue", "-h"]).trim().is_empty()
        });
    }

    /// The output of a job of [`Cluster::sbatch`], so far.
    pub fn output(&self, job: &str) -> String {
        fs::read_to_string(self.sandbox.path(&format!("work/out-{job}"))).unwrap_or_default()
    }

    /// What the daemons said, for a failed test.
    pub fn logs(&self) -> String {
        let said = |running: &Running| format!("{}{}", running.stdout(), running.stderr());
        self.daemons.iter().map(said).collect()
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        self.daemons.clear();
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// Ends what is left of a cluster when its standard input ends, which happens however the
/// test ends: programs that name the cluster, and what watches over steps (`slurmstepd:
/// [JOB.STEP]`), which writes over its environment and would ask for a dead daemon for
/// ever.
const WATCHER: &str = r#"
cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do
    left=$({
        grep -lsazE "^slurmstepd: \[$1[0-9]{3}\." /proc/[0-9]*/cmdline
        grep -lsazFx "SLURM_CONF=$2" /proc/[0-9]*/environ
    } | cut -d / -f 3)
    [ -n "$left" ] || exit 0
    kill -KILL $left
    sleep 0.05
done
"#;

/// `jobs`: the number that the numbers of the cluster's jobs are thousandths of.
fn watcher(jobs: u16, conf: &Path) -> Child {
    let mut command = process::Command::new("/bin/sh");
    command
        .args(["-c", WATCHER, "watcher", &jobs.to_string()])
        .arg(conf);
    // Not among those that a terminal or a time limit ends together with the test.
    command.env_remove("SLURM_CONF").process_group(0);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("a shell")
}

/// A hook of `etc/slurm` with the sandbox's environment before it, since Slurm hands its
/// own hooks nothing but its own variables. `settings`: lines of the table `[slurm]`, and
/// lines `export ...` for the environment.
pub fn hook(sandbox: &Sandbox, name: &str, settings: &str) -> String {
    hook_of_lines(sandbox, name, &hook_lines(sandbox, name, settings))
}

/// The line of `slurm.conf` for TaskProlog with these settings.
pub fn task_prolog(sandbox: &Sandbox, settings: &str) -> String {
    format!("TaskProlog={}", hook(sandbox, "task-prolog", settings))
}

/// Lines of `slurm.conf` for Prolog, Epilog and TaskProlog with these settings.
pub fn hooks(sandbox: &Sandbox, settings: &str) -> String {
    hooks_from(|name| hook(sandbox, name, settings))
}

/// The same, with what `hook` makes.
pub fn hooks_from(hook: impl Fn(&str) -> String) -> String {
    let [prolog, epilog, task_prolog] = ["prolog", "epilog", "task-prolog"].map(hook);
    format!("Prolog={prolog}\nEpilog={epilog}\nTaskProlog={task_prolog}")
}

/// A hook of these lines for a shell.
pub fn hook_of_lines(sandbox: &Sandbox, name: &str, lines: &str) -> String {
    let text = format!("#!/bin/sh\n{lines}\n");
    sandbox
        .file(&format!("hooks/{name}"), &text, 0o755)
        .display()
        .to_string()
}

/// The same as lines for a shell.
pub fn hook_lines(sandbox: &Sandbox, name: &str, settings: &str) -> String {
    let (exports, settings): (Vec<&str>, Vec<&str>) = settings
        .lines()
        .partition(|line| line.starts_with("export "));
    format!(
        "{}\n{}\nexport GETGPU_CONFIG='{}'\nexec '{}'",
        environment(sandbox),
        exports.join("\n"),
        with_settings(sandbox, &settings.join("\n")).display(),
        script(name).display()
    )
}

/// One of the scripts that are installed.
pub fn script(name: &str) -> PathBuf {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/slurm");
    hooks.join(name)
}

/// The sandbox's settings file or, with lines for the table `[slurm]`, a copy with these.
pub fn with_settings(sandbox: &Sandbox, lines: &str) -> PathBuf {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    if lines.is_empty() {
        return sandbox.settings_file();
    }
    let text = fs::read_to_string(sandbox.settings_file()).unwrap_or_default();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("config-{number}.toml");
    sandbox.file(&name, &format!("{text}\n[slurm]\n{lines}\n"), 0o644)
}

/// Lines of a shell that set a sandbox's environment.
pub fn environment(sandbox: &Sandbox) -> String {
    let own = [
        ("SIM_NODE", sandbox.folder().root().to_owned()),
        ("LD_LIBRARY_PATH", sandbox.path("lib")),
        ("GETGPU_LOCK", sandbox.lock()),
        ("GETGPU_CONFIG", sandbox.settings_file()),
    ];
    let lines = own.map(|(name, value)| format!("export {name}='{}'\n", value.display()));
    let (lines, bin) = (lines.concat(), sandbox.text("bin"));
    format!("{lines}export PATH='{bin}:/usr/sbin:/usr/bin:/sbin:/bin'")
}

/// A port that is ours alone as long as it is kept, with [`NODES`] and one more behind it
/// that nobody listens on: outside of those that the kernel gives to clients.
fn ports() -> (u16, TcpListener) {
    const BLOCK: u16 = NODES + 2;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 1000) as u16;
    let bind = |port| TcpListener::bind(("127.0.0.1", port));
    loop {
        let block = (start * 3 + NEXT.fetch_add(1, Ordering::Relaxed)) % 3000;
        let first = 20_000 + block * BLOCK;
        let Ok(own) = bind(first) else { continue };
        if (first + 1..first + BLOCK).all(|port| bind(port).is_ok()) {
            return (first, own);
        }
    }
}

/// slurm.conf(5) and gres.conf(5). The GPUs' files only have to be devices: without
/// cgroups nobody opens them.
fn configure(sandbox: &Sandbox, port: u16, nodes: u16, lines: &str) {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the host's name");
    let host = host.trim().split('.').next().unwrap_or_default();
    let at = sandbox.text("slurm");
    for directory in ["slurm", "slurm/state", "slurm/dev"] {
        fs::create_dir(sandbox.path(directory)).expect("a directory of the cluster");
    }
    for device in 0..4 {
        let device = sandbox.path(&format!("slurm/dev/nvidia{device}"));
        std::os::unix::fs::symlink("/dev/null", device).expect("a device of the cluster");
    }
    let node = |number: u16| {
        format!(
            "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=32 CoresPerSocket=32 Gres=gpu:4,gpuquarter:8 Features=gpushare4\n",
            port + number
        )
    };
    let text = format!(
        "ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool-%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
GresTypes=gpu,gpuhalf,gpuquarter,gpueighth
KillWait=3
ReturnToService=2
SlurmdParameters=config_overrides
{lines}
{}PartitionName=main Nodes=ALL Default=YES State=UP
",
        (1..=nodes).map(node).collect::<String>()
    );
    sandbox.file("slurm.conf", &text, 0o644);
    let gres = format!(
        "NodeName=n[1-{nodes}] Name=gpu File={at}/dev/nvidia[0-3]
NodeName=n[1-{nodes}] Name=gpuquarter Count=8 Flags=CountOnly\n"
    );
    sandbox.file("gres.conf", &gres, 0o644);
    sandbox.file("cgroup.conf", "CgroupPlugin=cgroup/v1\n", 0o644);
}
