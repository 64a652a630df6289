//! `cudawrap --bind` as programs see it: which CPUs they may run on and what their
//! libraries are told, on two cores of this machine that the simulated GPU is said to be
//! near to. Machines of other forms are in the unit tests of `cudawrap/src/bind`.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use std::fs;
use std::time::Duration;

use getgpu_tests::mps::Node;
use getgpu_tests::wrapped::{Facts, wrap};
use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, Signal, wait};

const THREADS: [&str; 4] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];

fn list(text: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    };
    text.trim().split(',').flat_map(range).collect()
}

/// One CPU of each of `count` cores that this test may run on; none: said.
fn cores(count: usize) -> Option<Vec<usize>> {
    if skip::lacks(&[Need::Tool("taskset")]) {
        return None;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = list(
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap(),
    );
    let first = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(path).map_or(*cpu, |text| {
            *list(&text)
                .iter()
                .find(|sibling| mask.contains(sibling))
                .unwrap()
        })
    };
    let cores: Vec<usize> = mask
        .iter()
        .copied()
        .filter(|cpu| first(cpu) == *cpu)
        .take(count)
        .collect();
    if cores.len() < count {
        skip::say(&format!("fewer than {count} cores"));
        return None;
    }
    Some(cores)
}

/// A node with a GPU near each of these lists of CPUs.
fn node(gpus: &[&str]) -> String {
    let gpu = |cpus: &&str| format!("[[gpu]]\nmodel = 'H200'\ncpus = '{cpus}'\n");
    format!(
        "driver = '570.133.20'\n{}",
        gpus.iter().map(gpu).collect::<String>()
    )
}

/// A node with two MIG devices near these CPUs.
fn mig(cpus: &str) -> String {
    let gpu = "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '2x1g.5gb'\n";
    format!("driver = '570.133.20'\n{gpu}cpus = '{cpus}'\n")
}

/// A program under a mask.
fn masked(sandbox: &Sandbox, mask: &[usize], words: &[&str]) -> Command {
    let mask = mask
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    sandbox.command("taskset").args(["-c", &mask]).args(words)
}

#[track_caller]
fn facts(command: Command) -> Facts {
    Facts::parse(&command.run().exits(0).stdout)
}

#[track_caller]
fn mask(facts: &Facts) -> Vec<usize> {
    list(facts.get("Cpus_allowed_list").unwrap())
}

fn told(facts: &Facts, name: &str) -> Option<String> {
    facts.get(&format!("env {name}")).map(str::to_owned)
}

#[test]
fn a_program_runs_on_the_cpus_near_its_device_if_that_is_asked_for_or_set() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let app = wrap(&sandbox, "opt", "app", "probe").display().to_string();
    let run = |words: &[&str]| masked(&sandbox, &cores, words);
    let (typed, plain) = (
        ["cudawrap", "--bind", "--", "probe"],
        ["cudawrap", "--", "probe"],
    );
    let bound = |command: Command| {
        let facts = facts(command);
        assert_eq!(mask(&facts), cores[1..]);
        assert!(
            THREADS
                .iter()
                .all(|name| told(&facts, name).as_deref() == Some("1")),
            "{facts:#?}"
        );
        assert_eq!(told(&facts, "OMP_PROC_BIND").as_deref(), Some("true"));
    };
    let free = |command: Command| {
        let facts = facts(command);
        assert_eq!(mask(&facts), cores);
        assert!(
            THREADS
                .iter()
                .chain(&["OMP_PROC_BIND"])
                .all(|name| told(&facts, name).is_none()),
            "{facts:#?}"
        );
    };
    bound(run(&typed));
    free(run(&plain));
    free(run(&[&app]));
    for words in [&plain[..], &[&app]] {
        bound(run(words).env("CUDAWRAP_BIND", "1"));
    }
    sandbox.set_settings("bind = true");
    for words in [&plain[..], &[&app]] {
        bound(run(words));
        free(run(words).env("CUDAWRAP_BIND", "0"));
        free(run(words).env("CUDAWRAP_DISABLE", "1"));
    }
    bound(run(&typed).env("CUDAWRAP_BIND", "0"));
    sandbox.set_settings("[program.'other*']\nbind = true");
    free(run(&[&app]));
    run(&plain)
        .env("CUDAWRAP_BIND", "soup")
        .run()
        .refuses("cudawrap", 125, "CUDAWRAP_BIND");
}

#[test]
fn the_mask_only_ever_gets_narrower_and_never_empty() {
    let Some(cores) = cores(2) else { return };
    let (near, both) = (
        cores[1].to_string(),
        format!("{},{},5000", cores[0], cores[1]),
    );
    let sandbox = Sandbox::new(&node(&[&both]));
    for cores in [&cores[..], &cores[..1], &cores[1..]] {
        let facts = facts(masked(
            &sandbox,
            cores,
            &["cudawrap", "--bind", "--", "probe"],
        ));
        assert_eq!(
            (mask(&facts), told(&facts, THREADS[0])),
            (cores.to_vec(), Some(cores.len().to_string()))
        );
    }
    sandbox.set_node(&node(&[&near]));
    let apart = |options: &str| {
        masked(
            &sandbox,
            &cores[..1],
            &["cudawrap", options, "--bind", "--", "probe"],
        )
        .run()
    };
    let outcome = apart("-v");
    let line = format!(
        "CPUs ({near}) are none of those that this process may run on ({}): not bound",
        cores[0]
    );
    outcome.exits(0).mentions(&line);
    let facts = Facts::parse(&outcome.stdout);
    assert_eq!(
        (
            mask(&facts),
            told(&facts, THREADS[0]),
            told(&facts, "OMP_PROC_BIND")
        ),
        (vec![cores[0]], None, None)
    );
    apart("-q").exits(0).says(&[]);
}

#[test]
fn what_the_user_has_set_stays() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let command = masked(&sandbox, &cores, &["cudawrap", "--bind", "--", "probe"]);
    let facts = facts(
        command
            .env("OMP_NUM_THREADS", "7")
            .env("OMP_PROC_BIND", "close")
            .env("MKL_NUM_THREADS", ""),
    );
    let names = [
        "OMP_NUM_THREADS",
        "OMP_PROC_BIND",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ];
    assert_eq!(
        names.map(|name| told(&facts, name).unwrap()),
        ["7", "close", "", "1", "1"]
    );
    assert_eq!(mask(&facts), cores[1..]);
}

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
        first.signal(Signal::SIGKILL);
        first.wait();
        // What was free again is given again; of more sharers than cores each has one.
        let quarters = ["three", "four"].map(|name| sharer(&sandbox, &cores, "1/4", name));
        assert!(
            quarters.iter().all(|(_, mask)| *mask == cores[..1]),
            "{quarters:?}"
        );
    }
}

#[test]
fn a_share_that_was_reserved_is_the_same_part() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&format!("{},{}", cores[0], cores[1])]));
    let words = "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2); cudawrap --bind -- probe";
    let _first = sharer(&sandbox, &cores, "1/2", "one");
    assert_eq!(
        mask(&facts(masked(&sandbox, &cores, &["bash", "-c", words]))),
        cores[1..]
    );
}

#[test]
fn a_program_inside_a_bound_one_has_no_part_of_a_part() {
    let Some(cores) = cores(4) else { return };
    let all: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let sandbox = Sandbox::new(&node(&[&all.join(",")]));
    let _first = sharer(&sandbox, &cores, "1/2", "one");
    let inside = [
        "cudawrap --bind -- probe",
        "bash -c 'cudawrap --bind -- probe; :'",
    ];
    let parts = ["cudawrap --share 1/4 --bind -- probe"];
    for (inside, expected) in inside
        .map(|words| (words, &cores[2..]))
        .into_iter()
        .chain(parts.map(|words| (words, &cores[2..3])))
    {
        let script = format!("cudawrap --share 1/2 --bind -- {inside}; :");
        // The shell has the mask that the outer one was started with.
        let facts = facts(masked(&sandbox, &cores, &["bash", "-c", &script]));
        assert_eq!(mask(&facts), expected, "{inside}");
    }
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
    assert_eq!(
        run(&cores, &bind),
        cores[..1],
        "the mask is not divided yet"
    );
    // A mask that somebody has changed inside is what the program was given.
    assert_eq!(
        run(
            &cores[..1],
            &[&["taskset", "-c", &both], &bind[..]].concat()
        ),
        cores
    );
}

#[test]
fn several_devices_have_the_cpus_of_all() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[0].to_string(), &cores[1].to_string()]));
    let run = |words: &[&str]| {
        facts(masked(
            &sandbox,
            &cores,
            &[&["cudawrap", "--bind"], words, &["--", "probe"]].concat(),
        ))
    };
    let facts = run(&["--count", "2"]);
    assert_eq!(
        (mask(&facts), told(&facts, THREADS[0]).as_deref()),
        (cores.clone(), Some("2"))
    );
    for (gpu, core) in ["0", "1"].iter().zip(&cores) {
        assert_eq!(mask(&run(&["--gpu", gpu])), [*core]);
        let of = |facts: &Facts| {
            sandbox
                .uuids()
                .iter()
                .position(|uuid| facts.visible() == Some(uuid))
        };
        let any = run(&[]);
        assert_eq!(
            mask(&any),
            [cores[of(&any).unwrap()]],
            "the GPU that was chosen"
        );
    }
}

#[test]
fn neighbouring_devices_divide_the_cores_that_are_near_to_both() {
    let Some(cores) = cores(2) else { return };
    let both = format!("{},{}", cores[0], cores[1]);
    let bind = |facts: &Facts| told(facts, "OMP_PROC_BIND");
    let sandbox = Sandbox::new(&node(&[&both, &both]));
    let run = |command: Command| facts(command.env("CUDAWRAP_BIND", "1"));
    let start = |words: &[&str]| {
        run(masked(
            &sandbox,
            &cores,
            &[&["cudawrap"], words, &["--", "probe"]].concat(),
        ))
    };
    for (gpu, core) in ["0", "1"].iter().zip(&cores) {
        let facts = start(&["--gpu", gpu]);
        assert_eq!(
            (mask(&facts), bind(&facts).as_deref()),
            (vec![*core], Some("true")),
            "GPU {gpu}"
        );
    }
    // A share has its part of that; half a core is not its own.
    let facts = start(&["--gpu", "1", "--share", "1/2"]);
    assert_eq!((mask(&facts), bind(&facts)), (vec![cores[1]], None));
    // A grant of one device: all that is near, which in a batch job is the job's own
    // mask.
    let granted = |job: Option<&str>| {
        let command =
            masked(&sandbox, &cores, &["cudawrap", "--", "probe"]).visible(&sandbox.uuids()[1]);
        run(match job {
            Some(job) => command.env("SLURM_JOB_ID", job),
            None => command,
        })
    };
    let (alone, job) = (granted(None), granted(Some("7")));
    assert_eq!(
        (mask(&alone), bind(&alone), mask(&job)),
        (cores.clone(), None, cores.clone())
    );
    assert_eq!(bind(&job).as_deref(), Some("true"));
    // A grant of several, and a list of allowed devices, are those among whom is divided.
    sandbox.set_settings(&format!("allowed = ['{}']", sandbox.uuids()[0]));
    assert_eq!(mask(&start(&[])), cores);
    sandbox.set_settings("");
    sandbox.set_node(&node(&[&both, &both, &both]));
    let facts = start(&["--gpu", "2"]);
    assert_eq!(
        (mask(&facts), bind(&facts)),
        (vec![cores[1]], None),
        "fewer cores than devices"
    );
}

#[test]
fn a_named_device_is_asked_about_where_it_is_needed() {
    let Some(cores) = cores(2) else { return };
    let near = cores[1].to_string();
    for form in [node(&["5000", &near]), mig(&near)] {
        let sandbox = Sandbox::new(&form);
        let app = wrap(&sandbox, "opt", "app", "probe").display().to_string();
        let uuid = sandbox.uuids().remove(1);
        let listing = sandbox.getgpu(["--list", "--json"]).run().stdout;
        let device = &serde_json::from_str::<serde_json::Value>(&listing).unwrap()["devices"][1];
        let text = |name: &str| device[name].to_string().replace('"', "");
        let old = format!(
            "MIG-{}/{}/{}",
            text("gpu_uuid"),
            text("gpu_instance"),
            text("compute_instance")
        );
        let other = if text("mig") == "true" {
            old
        } else {
            uuid[..uuid.len() - 4].to_owned()
        };
        let typed = ["cudawrap", "--bind", "--", "probe"];
        for (words, name) in [
            (&[&*app][..], &uuid),
            (&[&*app], &other),
            (&typed, &uuid),
            (&typed, &other),
        ] {
            let facts = facts(
                masked(&sandbox, &cores, words)
                    .env("CUDAWRAP_BIND", "1")
                    .visible(name),
            );
            assert_eq!(mask(&facts), cores[1..], "{words:?} {name}");
            assert_eq!(
                facts.visible(),
                Some(if words.len() == 1 { name } else { &uuid }.as_str())
            );
        }
        sandbox.folder().log_calls().unwrap();
        assert_eq!(
            mask(&facts(masked(&sandbox, &cores, &[&app]).visible(&uuid))),
            cores
        );
        assert!(
            sandbox.folder().calls().unwrap().is_empty(),
            "without it NVML is not asked"
        );
        // Where NVML cannot be asked the program runs all the same.
        fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
        let outcome = masked(&sandbox, &cores, &[&app])
            .env("CUDAWRAP_BIND", "1")
            .visible(&uuid)
            .run();
        outcome.exits(0).says(&[]);
        assert_eq!(mask(&Facts::parse(&outcome.stdout)), cores);
    }
}

#[test]
fn it_costs_one_call_in_the_same_session() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&mig(&cores[1].to_string()));
    let cost = |options: &[&str]| {
        sandbox.folder().log_calls().unwrap();
        sandbox
            .command("cudawrap")
            .args(options)
            .args(["--", "true"])
            .run()
            .exits(0);
        let names = sandbox
            .folder()
            .calls()
            .unwrap()
            .into_iter()
            .map(|call| call.function);
        let names: Vec<String> = names.filter(|name| name != "attach").collect();
        (
            names.len(),
            names
                .iter()
                .filter(|name| *name == "nvmlDeviceGetCpuAffinity")
                .count(),
        )
    };
    for options in [
        &["--policy", "first"][..],
        &["--policy", "first", "--share", "1/2"],
        &["--gpu", "0"],
    ] {
        let plain = cost(options);
        let bound = cost(&[&["--bind"], options].concat());
        assert_eq!((plain.1, bound), (0, (plain.0 + 1, 1)), "{options:?}");
    }
}

#[test]
fn a_waiter_is_bound_too() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    let program = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let mut waiter = masked(
        &sandbox,
        &cores,
        &["cudawrap", "--wait=60", "--bind", "--", "probe"],
    )
    .spawn();
    wait::until("it stands in line", || {
        sandbox
            .getgpu(["--list", "--json"])
            .run()
            .stdout
            .contains("\"waiting\":1")
            || waiter.is_over()
    });
    program.signal(Signal::SIGKILL);
    program.wait();
    let outcome = waiter.wait();
    assert_eq!(mask(&Facts::parse(&outcome.exits(0).stdout)), cores[1..]);
}

#[test]
fn a_driver_that_cannot_tell_and_one_that_fails() {
    let Some(cores) = cores(2) else { return };
    let sandbox = Sandbox::new(&node(&["5000"]));
    let run = |code: u32, options: &[&str]| {
        sandbox.faults(&format!(
            "[[rule]]\nfunction = 'nvmlDeviceGetCpuAffinity'\nreturns = {code}\n"
        ));
        let words = [&["cudawrap", "-v", "--bind"], options, &["--", "probe"]].concat();
        masked(&sandbox, &cores, &words).run().exits(0).clone()
    };
    // Then none is nearer than another.
    assert_eq!(mask(&Facts::parse(&run(3, &[]).stdout)), cores);
    assert_eq!(
        mask(&Facts::parse(&run(3, &["--share", "1/2"]).stdout)),
        cores[..1]
    );
    let failed = run(15, &["--share", "1/2"]);
    failed
        .mentions(&format!(
            "{}: NVML DeviceGetCpuAffinity",
            sandbox.uuids()[0]
        ))
        .mentions(": not bound");
    assert_eq!(mask(&Facts::parse(&failed.stdout)), cores);
}

#[test]
fn a_mask_that_may_not_be_set_stays_and_the_program_runs() {
    let Some(cores) = cores(2) else { return };
    if skip::lacks(&[Need::Tool("strace")]) {
        return;
    }
    let sandbox = Sandbox::new(&node(&[&cores[1].to_string()]));
    for (errno, text) in [
        ("EPERM", "Operation not permitted"),
        ("EINVAL", "Invalid argument"),
    ] {
        let inject = format!("inject=sched_setaffinity:error={errno}");
        let words = [
            "strace",
            "-o",
            "/dev/null",
            "-e",
            &inject,
            "cudawrap",
            "-v",
            "--bind",
            "--",
            "probe",
        ];
        let outcome = masked(&sandbox, &cores, &words).run();
        outcome
            .exits(0)
            .mentions(&format!("CPUs {}: {text}: not bound", cores[1]));
        let facts = Facts::parse(&outcome.stdout);
        assert_eq!(
            (mask(&facts), told(&facts, THREADS[0])),
            (cores.clone(), None)
        );
    }
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
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = |status: &str| {
        status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"))
            .map(str::to_owned)
    };
    assert_eq!(allowed(&status), allowed(&own));
    node.go();
    node.until_gone();
}
