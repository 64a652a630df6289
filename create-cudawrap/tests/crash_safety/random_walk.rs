//! A random walk: the path is wrapped, undone and repaired by commands that are killed after a
//! random time, upgraded and copied over. After each step it runs the newest program, and no
//! command has removed one.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::Sandbox;

/// Numbers that look random, from a seed (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Runs the command, and kills it after so long if it has not exited; whether it was killed.
fn killed_after(sandbox: &Sandbox, args: &[&str], limit: Duration) -> bool {
    let mut command = sandbox.command();
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    // Package managers are not what is tried here, and are slow.
    let mut child = quiet
        .env("PATH", "/nonexistent")
        .args(args)
        .spawn()
        .unwrap();
    let until = Instant::now() + limit;
    while Instant::now() < until && child.try_wait().unwrap().is_none() {}
    let _ = child.kill();
    child.wait().unwrap().code().is_none()
}

/// The programs that are there, by their texts.
fn programs(sandbox: &Sandbox) -> BTreeSet<Vec<u8>> {
    let names = sandbox.names("app").into_iter();
    let texts = names.map(|name| std::fs::read(sandbox.path("app").join(name)).unwrap());
    texts.filter(|text| text.starts_with(b"#!")).collect()
}

fn walk(seed: u64, steps: usize) -> usize {
    let (mut dice, mut newest, mut kills) = (Dice(seed), 0, 0);
    let sandbox = Sandbox::new();
    sandbox.script("app/x", "v0");
    for step in 0..steps {
        let wrapped = sandbox.path("app/x").is_symlink();
        let before = programs(&sandbox);
        let mut removed = false;
        let action = match dice.roll(8) {
            // As package managers do it, which rename over the link.
            0 => {
                newest += 1;
                sandbox.script("app/new", &format!("v{newest}"));
                sandbox.run_sh("mv app/new app/x");
                "upgraded"
            }
            1 if wrapped && sandbox.exists("app/CUDAWRAP_x") => {
                sandbox.run_sh("strip -o app/new bin/cudawrap && mv app/new app/x");
                "copied over"
            }
            roll => {
                let goals = [&["x"][..], &["--undo", "x"], &["--repair", "x"]];
                let goal = goals[roll as usize % 3];
                let limit = Duration::from_micros(dice.roll(6_000));
                kills += usize::from(killed_after(&sandbox, goal, limit));
                removed = !programs(&sandbox).is_superset(&before);
                goal[0]
            }
        };
        let what = format!(
            "seed {seed}, step {step}: {action}: {:?}",
            sandbox.names("app")
        );
        assert_eq!(
            sandbox.output_of("app/x"),
            format!("v{newest} a b"),
            "{what}"
        );
        assert!(!removed, "{what}: a program is lost");
    }
    // A repair or an undo, done to its end, puts all in order.
    for goal in ["--repair", "--undo"] {
        sandbox.ok(&[goal, "x"]);
    }
    assert_eq!(sandbox.output_of("app/x"), format!("v{newest} a b"));
    kills
}

#[test]
fn on_a_random_walk_with_kills_the_path_runs_and_no_program_is_lost() {
    let _turn = crate::GROUPS.enter(module_path!());
    if harness::skip::lacks(&[harness::skip::Need::Tool("strip")]) {
        return;
    }
    let (walks, steps) = (harness::size(3, 100), 60);
    let kills: usize = (1..=walks as u64).map(|seed| walk(seed, steps)).sum();
    println!(
        "row 8: {walks} random walks of {steps} steps, {kills} commands killed: no program lost"
    );
    assert!(kills > walks, "only {kills} were killed");
}
