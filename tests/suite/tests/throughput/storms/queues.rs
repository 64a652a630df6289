//! A random queue: up to 90 waiters with filters and limits that come, are stopped, go on and are
//! killed. At each quiet point none waits while what it wants is free, and of equal requests
//! those that came first were served.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use getgpu_tests::listing;
use getgpu_tests::random::Random;
use harness::{Running, Sandbox, Signal, wait};
use serde_json::Value;

const NODE: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-80GB'\ncount = 4\n\
                    [[gpu]]\nmodel = 'H200'\ncount = 2\n";

/// What waiters ask for: options, how many devices, and of which one has to be a part.
#[rustfmt::skip]
const REQUESTS: [(&str, usize, f64); 7] = [
    ("", 1, 1.0), ("", 1, 1.0), ("--gpu 0", 1, 1.0), ("--model H200", 1, 1.0),
    ("--share 1/2", 1, 0.5), ("-n 2", 2, 1.0), ("-n 3", 3, 1.0),
];

/// One that waits, or has waited.
struct Waiter {
    number: usize,
    request: usize,
    uid: u32,
    running: Running,
    is_stopped: bool,
    /// Another may have passed it then.
    was_stopped: bool,
}

impl Waiter {
    fn options(&self) -> &'static str {
        REQUESTS[self.request].0
    }

    fn units(&self) -> f64 {
        let (_, count, part) = REQUESTS[self.request];
        count as f64 * part
    }

    /// Stops it, unless it asks NVML at this moment, by a child: it would keep what it asks about.
    fn stop(&mut self) {
        self.signal(Signal::SIGSTOP);
        let pid = self.running.pid();
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        let is_stopped = || read("stat").is_ok_and(|stat| stat.contains(") T "));
        wait::until("it has stopped", is_stopped);
        if read(&format!("task/{pid}/children")).is_ok_and(|children| !children.is_empty()) {
            self.signal(Signal::SIGCONT);
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.running.signal(signal);
        self.is_stopped = signal == Signal::SIGSTOP;
        self.was_stopped |= self.is_stopped;
    }
}

/// A queue while it goes on.
struct Queue {
    sandbox: Sandbox,
    random: Random,
    most: Option<f64>,
    waiters: Vec<Waiter>,
    /// How many have come.
    came: usize,
    /// What was done, for a failure.
    story: Vec<String>,
    slowest: Duration,
}

impl Queue {
    fn open(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let most = (random.below(2) == 0).then_some(3.0);
        let most_line = most.map_or_else(String::new, |most| format!("max_per_user = {most}"));
        Self {
            sandbox: Sandbox::with(NODE, &most_line),
            random,
            most,
            waiters: Vec::new(),
            came: 0,
            story: Vec::new(),
            slowest: Duration::ZERO,
        }
    }

    /// The numbers of those that have a device, or had one.
    fn served(&self) -> BTreeSet<usize> {
        let runs = self.sandbox.runs().into_iter();
        runs.filter_map(|run| run.tag.parse().ok()).collect()
    }

    fn add(&mut self) {
        let request = self.random.below(REQUESTS.len() as u64) as usize;
        let is_root = nix::unistd::geteuid().is_root();
        let uid = if is_root {
            1001 + self.random.below(3) as u32
        } else {
            0
        };
        let number = self.came;
        self.came += 1;
        let program = format!("sim-cuda --max 99 --run forever --tag {number}");
        let options = format!("cudawrap {} --wait -- {program}", REQUESTS[request].0);
        let command = self.sandbox.words(&options.replace("  ", " "));
        let command = command.limit(Duration::from_secs(600));
        let command = if is_root { command.uid(uid) } else { command };
        let mut running = command.spawn();
        let stands = || !running.stderr().is_empty() || running.stdout().contains("RUN");
        let stands = wait::holds_within(wait::LONG, stands);
        assert!(
            stands && !running.is_over(),
            "{}: {running:#?}",
            running.stderr()
        );
        self.story
            .push(format!("{number} of {uid}:{}", REQUESTS[request].0));
        self.waiters.push(Waiter {
            number,
            request,
            uid,
            running,
            is_stopped: false,
            was_stopped: false,
        });
    }

    /// Stops or kills one that waits, lets one go on that was stopped, or ends a program.
    fn happen(&mut self, stops: bool) {
        let served = self.served();
        let drawn = self.random.below(self.waiters.len() as u64) as usize;
        let dies = self.random.below(3) > 0;
        let waiter = &mut self.waiters[drawn];
        let (number, is_served) = (waiter.number, served.contains(&waiter.number));
        let what = match (stops, waiter.is_stopped) {
            (true, false) if !is_served => "is stopped",
            (true, _) => return,
            (false, true) if !dies => "goes on",
            (false, _) if is_served || dies => "ends",
            _ => return,
        };
        match what {
            "is stopped" => waiter.stop(),
            "goes on" => waiter.signal(Signal::SIGCONT),
            _ => _ = self.waiters.remove(drawn).running.kill(),
        }
        self.story.push(format!("{number} {what}"));
    }

    /// Waits until no waiter could have what it wants; then none was passed by an equal one.
    fn settle(&mut self, seed: u64) {
        let began = Instant::now();
        let mut faults = Vec::new();
        let quiet = wait::holds_within(wait::LONG, || {
            faults = self.wronged();
            faults.is_empty()
        });
        self.slowest = self.slowest.max(began.elapsed());
        let listing = listing::json(&self.sandbox);
        let story = self.story.join("\n");
        assert!(quiet, "queue {seed}\n{story}\n{faults:#?}\n{listing}");
        self.story.push("all is quiet".to_owned());
    }

    /// Those that wait although they need not.
    fn wronged(&self) -> Vec<String> {
        let served = self.served();
        let waiting = |waiter: &&Waiter| !served.contains(&waiter.number);
        let listing = listing::json(&self.sandbox);
        let all = listing::devices(&listing).iter().flat_map(leases);
        let leased: BTreeSet<u64> = all.filter_map(|holder| holder["pid"].as_u64()).collect();
        let mut held: BTreeMap<u32, f64> = BTreeMap::new();
        for waiter in self.waiters.iter().filter(|waiter| !waiting(waiter)) {
            *held.entry(waiter.uid).or_default() += waiter.units();
        }
        let is_within = |waiter: &Waiter| {
            let held = held.get(&waiter.uid).copied().unwrap_or_default();
            self.most.is_none_or(|most| held + waiter.units() <= most)
        };
        let mut wronged = Vec::new();
        for waiter in self.waiters.iter().filter(waiting) {
            if leased.contains(&waiter.running.pid().into()) {
                wronged.push(format!("{} is about to run", waiter.number));
            }
            let devices = listing::devices(&listing).iter();
            let free = devices.filter(|device| self.has_room(device, waiter));
            let is_free = free.count() >= REQUESTS[waiter.request].1;
            let may = |other: &Waiter| waiting(&other) && is_within(other);
            let may = is_within(waiter) && !self.is_kept_from(waiter, &listing, may);
            if is_free && may && !waiter.is_stopped {
                wronged.push(format!("{} waits for what is free", waiter.number));
            }
            // A user at the limit lets others pass, also own ones.
            let passed = |other: &&Waiter| {
                let is_equal = self.most.is_none() && other.options() == waiter.options();
                is_equal && other.number > waiter.number && served.contains(&other.number)
            };
            let passed = self.waiters.iter().find(passed);
            if let Some(other) = passed.filter(|_| !waiter.was_stopped) {
                wronged.push(format!(
                    "{} was served before {}",
                    other.number, waiter.number
                ));
            }
        }
        wronged
    }

    /// Whether a device of the listing has room for this waiter.
    fn has_room(&self, device: &Value, waiter: &Waiter) -> bool {
        let fits = match waiter.options() {
            "--gpu 0" => device["gpu"] == 0,
            "--model H200" => device["gpu_name"] == "NVIDIA H200",
            _ => true,
        };
        let used = match device["state"].as_str() {
            Some("kept") => 0.0,
            _ => device["share_used"].as_f64().unwrap_or(1.0),
        };
        fits && 1.0 - used >= REQUESTS[waiter.request].2
    }

    /// Whether all that becomes free is kept for another waiter. Where the list names one that is
    /// stopped, an older one that `may` be served keeps the same.
    fn is_kept_from(
        &self,
        waiter: &Waiter,
        listing: &Value,
        may: impl Fn(&Waiter) -> bool,
    ) -> bool {
        let queued = listing["queue"].as_array().into_iter().flatten();
        let mut keepers = queued.filter(|queued| !queued["kept"].is_null());
        keepers.any(|keeper| {
            let is_it = |other: &&Waiter| keeper["pid"] == other.running.pid();
            let Some(keeper) = self.waiters.iter().find(is_it) else {
                return false;
            };
            let keeps = |other: &Waiter| {
                let is_older = other.number < keeper.number && REQUESTS[other.request].1 > 1;
                let is_it = other.number == keeper.number || is_older && may(other);
                is_it && !other.is_stopped && other.number != waiter.number
            };
            self.waiters.iter().any(keeps)
        })
    }
}

/// Those that lease a device, or a part.
fn leases(device: &Value) -> impl Iterator<Item = &Value> {
    let holders = device["holders"].as_array().into_iter().flatten();
    holders.filter(|holder| holder["kind"] == "lease")
}

/// Runs a queue to its end.
pub(crate) fn run_queue(seed: u64) {
    let began = Instant::now();
    let mut queue = Queue::open(seed);
    let mut left = 20 + queue.random.below(71);
    while left > 0 {
        for _ in 0..(1 + queue.random.below(24)).min(left) {
            left -= 1;
            queue.add();
        }
        for _ in 0..3 {
            // Stops come first, while all is quiet.
            let (stops, others) = (queue.random.below(3), queue.random.below(8));
            for number in 0..stops + others {
                if !queue.waiters.is_empty() {
                    queue.happen(number < stops);
                }
            }
            queue.settle(seed);
        }
    }
    for waiter in &mut queue.waiters {
        waiter.signal(Signal::SIGCONT);
    }
    queue.settle(seed);
    let served = queue.served().len();
    println!(
        "queue {seed}: {} waiters, {served} served, quiet after {:.1?} at most, {:.1?}",
        queue.came,
        queue.slowest,
        began.elapsed()
    );
    queue.waiters.clear();
    queue.sandbox.assert_clean();
}
