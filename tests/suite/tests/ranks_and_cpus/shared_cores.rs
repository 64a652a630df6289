//! Shares and neighbouring devices divide the cores that are near to them.

use std::fs;
use std::time::Duration;

use getgpu_tests::mps::Node;
use getgpu_tests::wrapped::Facts;
use harness::{Command, Running, Sandbox, wait};

use crate::cpu_masks::{cores, cpus, facts, mask, masked, mig, near_all, node, told};

/// A program with a share that runs until it is ended, and its CPUs.
fn sharer(sandbox: &Sandbox, cores: &[usize], share: &str, name: &str) -> (Running, Vec<usize>) {
    let out = sandbox.path(&format!("work/{name}"));
    let words = [
        "cudawrap", "--share", share, "--bind", "--", "probe", "--sleep", "600", "--out",
    ];
    let running = masked(sandbox, cores, &words)
        .args([&out])
        .limit(Duration::from_secs(600))
        .spawn();
    wait::until("the program has told", || out.exists());
    (running, mask(&Facts::read(&out)))
}

#[test]
fn shares_have_cores_of_their_own() {
    let Some(cores) = cores(2) else { return };
    let all = format!("{},{}", cores[0], cores[1]);
    for form in [node(&[&all]), mig(&all).replace("2x1g.5gb", "1g.5gb")] {
        let sandbox = Sandbox::new(&form);
        let (first, one) = sharer(&sandbox, &cores, "1/2", "one");
        let (_second, two) = sharer(&sandbox, &cores, "1/2", "two");
        assert_eq!((one, two), (cores[..1].to_vec(), cores[1..].to_vec()));
        first.kill();
        // What was free again is given again; of more sharers than cores each has one.
        let quarters = ["three", "four"].map(|name| sharer(&sandbox, &cores, "1/4", name));
        let same = quarters.iter().all(|(_, mask)| *mask == cores[..1]);
        assert!(same, "{quarters:?}");
    }
}

#[test]
fn a_share_that_was_reserved_is_the_same_part() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&format!("{},{}", cores[0], cores[1])]));
    let words = "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2); cudawrap --bind -- probe";
    let _first = sharer(&sandbox, &cores, "1/2", "one");
    let second = masked(&sandbox, &cores, &["bash", "-c", words]);
    assert_eq!(mask(&facts(second)), cores[1..]);
}

#[test]
fn inside_a_share_it_matters_whether_the_share_was_bound() {
    let Some(cores) = cores(2) else { return };
    let both = format!("{},{}", cores[0], cores[1]);
    let sandbox = Sandbox::new(&node(&[&both]));
    let run = |outside: &[usize], words: &[&str]| {
        let share = ["bash", "-c", "cudawrap --share 1/2 -- \"$@\"; :", "bash"];
        mask(&facts(masked(&sandbox, outside, &[&share, words].concat())))
    };
    let bind = ["cudawrap", "--bind", "--", "probe"];
    // The mask is not divided yet.
    assert_eq!(run(&cores, &bind), cores[..1]);
    // A mask that was changed inside may be that of the other half too.
    let changed = [&["taskset", "-c", &both], &bind[..]].concat();
    assert_eq!(run(&cores[..1], &changed), cores[..1]);
}

#[test]
fn neighbouring_devices_divide_the_cores_that_are_near_to_both() {
    if cores(2).is_none() {
        return;
    }
    let bind = |facts: &Facts| told(facts, "OMP_PROC_BIND");
    let sandbox = near_all(2);
    let run = |command: Command| facts(command.env("CUDAWRAP_BIND", "1"));
    let start = |words: &[&str]| {
        let command = sandbox.command("cudawrap").args(words);
        run(command.args(["--", "probe"]))
    };
    let halves = ["0", "1"].map(|gpu| start(&["--gpu", gpu]));
    assert_eq!(halves.each_ref().map(mask).concat(), cpus());
    for half in &halves {
        assert_eq!(bind(half).as_deref(), Some("true"));
    }
    // A share has its part of that; half a core is not its own.
    let (half, share) = (mask(&halves[1]), start(&["--gpu", "1", "--share", "1/2"]));
    assert_eq!(mask(&share), half[..half.len().div_ceil(2)]);
    assert_eq!(bind(&share).is_none(), half.len() % 2 == 1);
    // A grant of one device: all that is near, which in a batch job is the job's own
    // mask.
    let granted = |job: Option<&str>| {
        let command = sandbox.words("cudawrap -- probe");
        let command = command.visible(&sandbox.uuids()[1]);
        run(match job {
            Some(job) => command.env("SLURM_JOB_ID", job),
            None => command,
        })
    };
    let (alone, job) = (granted(None), granted(Some("7")));
    assert_eq!([mask(&alone), mask(&job)], [cpus(), cpus()]);
    assert_eq!((bind(&alone), bind(&job).as_deref()), (None, Some("true")));
    // A grant of several, and a list of allowed devices, are those among whom is divided.
    sandbox.set_settings(&format!("allowed = ['{}']", sandbox.uuids()[0]));
    assert_eq!(mask(&start(&[])), cpus());
    // Fewer cores than devices.
    let sandbox = near_all(cpus().len() + 1);
    let words = ["cudawrap", "--bind", "--", "probe"];
    let facts = facts(sandbox.command(words[0]).args(&words[1..]));
    assert_eq!((mask(&facts).is_empty(), bind(&facts)), (false, None));
}

#[test]
fn the_daemon_of_mps_is_not_bound_with_its_first_client() {
    let Some(cores) = cores(2) else { return };
    let node = Node::stand_in();
    let cpus = format!("{},{}", cores[0], cores[1]);
    node.sandbox.set_node(&self::node(&[&cpus]));
    let mut client = node.client("client", |command| command.env("CUDAWRAP_BIND", "1"));
    assert_eq!(mask(&client.facts()).len(), 1);
    let [daemon] = node.daemons()[..] else {
        panic!("one daemon")
    };
    let allowed = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"));
        line.map(str::to_owned)
    };
    assert_eq!(allowed(&daemon.to_string()), allowed("self"));
    node.go();
    node.until_gone();
}
