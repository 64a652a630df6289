//! A payload that tells what a program can see of itself: `probe [FLAGS] [ARG...]` prints
//! a line `name value` for each fact. Two runs that print the same cannot tell each other
//! apart; flags make it wait and choose how it ends.
//!
//! `--out FILE`: print there, under its final name once it is whole; `--until FILE`: wait
//! for that file; `--sleep SECONDS`; `--exit N`; `--kill N`: end by that signal.
//! Everything else is an argument and printed as one.
//!
//! There is no Rust `main`: the standard library's start-up would open closed streams and
//! change signals, and so hide what this program is to tell.
#![no_main]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is its result"
)]

mod state;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Default)]
struct Flags {
    out: Option<PathBuf>,
    until: Option<PathBuf>,
    sleep: Option<Duration>,
    exit: i32,
    kill: Option<i32>,
}

/// The C entry point (ISO C 5.1.2.2.1).
#[allow(unsafe_code)]
// SAFETY: this program has no other function of this name, and the C start-up code calls
// it with this signature.
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    run()
}

fn run() -> ! {
    let flags = flags(std::env::args_os().skip(1));
    let facts = facts();
    match &flags.out {
        None => print!("{facts}"),
        Some(path) => {
            let new = path.with_extension(format!("{}.new", std::process::id()));
            fs::write(&new, facts)
                .and_then(|()| fs::rename(&new, path))
                .unwrap_or_else(|error| fail(&error.to_string()));
        }
    }
    std::thread::sleep(flags.sleep.unwrap_or_default());
    while flags.until.as_ref().is_some_and(|path| !path.exists()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(signal) = flags.kill {
        let signal =
            nix::sys::signal::Signal::try_from(signal).unwrap_or_else(|_| fail("no such signal"));
        // Whatever was inherited for the signal, blocked or ignored, it shall act.
        state::let_act(signal);
        let _ = nix::sys::signal::raise(signal);
    }
    std::process::exit(flags.exit);
}

fn fail(why: &str) -> ! {
    eprintln!("probe: {why}");
    std::process::exit(2)
}

fn flags(mut words: impl Iterator<Item = OsString>) -> Flags {
    let mut flags = Flags::default();
    while let Some(word) = words.next() {
        let name = word.to_str().unwrap_or("");
        if !matches!(name, "--out" | "--until" | "--sleep" | "--exit" | "--kill") {
            continue;
        }
        let value = words.next();
        let value = value.unwrap_or_else(|| fail("a flag without its value"));
        let number = || {
            let number = value.to_str().and_then(|text| text.parse::<f64>().ok());
            number.unwrap_or_else(|| fail("not a number"))
        };
        match name {
            "--out" => flags.out = Some(value.into()),
            "--until" => flags.until = Some(value.into()),
            "--sleep" => flags.sleep = Some(Duration::from_secs_f64(number())),
            "--exit" => flags.exit = number() as i32,
            _ => flags.kill = Some(number() as i32),
        }
    }
    flags
}

/// What can be seen, in a fixed order.
fn facts() -> String {
    let mut facts = String::new();
    let mut fact = |name: &str, value: &str| facts.push_str(&format!("{name} {value}\n"));
    for (number, argument) in std::env::args_os().enumerate() {
        let argument = argument.as_bytes().escape_ascii();
        fact(&format!("arg{number}"), &argument.to_string());
    }
    let mut variables: Vec<_> = std::env::vars_os().collect();
    variables.sort();
    for (name, value) in variables {
        let [name, value] = [&name, &value].map(|word| word.as_bytes().escape_ascii().to_string());
        fact(&format!("env {name}"), &value);
    }
    let link = |path: &str| {
        fs::read_link(path).map_or_else(|error| error.to_string(), |to| to.display().to_string())
    };
    fact("pid", &std::process::id().to_string());
    fact("exe", &link("/proc/self/exe"));
    fact("cwd", &link("/proc/self/cwd"));
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = fields.split(' ').collect();
    #[rustfmt::skip]
    let wanted_fields = [
        ("ppid", 4), ("pgrp", 5), ("session", 6), ("tty", 7), ("foreground", 8), ("nice", 19),
        ("rt_priority", 40), ("policy", 41),
    ];
    for (name, field) in wanted_fields {
        fact(name, fields.get(field - 3).copied().unwrap_or("?"));
    }
    let wanted = "Name Umask Uid Gid Groups SigPnd ShdPnd SigBlk SigIgn SigCgt CapEff NoNewPrivs Seccomp Threads Cpus_allowed_list";
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, value) in status.lines().filter_map(|line| line.split_once(':')) {
        if wanted.split(' ').any(|wanted| wanted == name) {
            fact(name, value.trim());
        }
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    for line in limits.lines().skip(1) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        fact("limit", &words.join(" "));
    }
    #[rustfmt::skip]
    let cases = [
        "oom_score_adj", "timerslack_ns", "personality", "coredump_filter", "cgroup", "loginuid",
    ];
    for name in cases {
        let text = fs::read_to_string(format!("/proc/self/{name}"))
            .unwrap_or_else(|error| error.kind().to_string());
        fact(name, &text.trim().replace('\n', " "));
    }
    for (name, value) in state::facts() {
        fact(name, &value);
    }
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    fact("children", children.trim());
    for fd in descriptors() {
        let path = format!("/proc/self/fd/{fd}");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let mut flags = info.lines().filter_map(|line| line.strip_prefix("flags:"));
        let flags = flags.next().unwrap_or("?").trim();
        fact(&format!("fd{fd}"), &format!("{flags} {}", link(&path)));
        for lock in info.lines().filter_map(|line| line.strip_prefix("lock:")) {
            fact(&format!("lock{fd}"), &range_of(lock));
        }
    }
    facts
}

/// Kind, first and last byte of a lock as proc_pid_fdinfo(5) shows it:
/// `1: OFDLCK ADVISORY READ -1 00:1b:77 1048576 1769295`.
fn range_of(lock: &str) -> String {
    let words: Vec<&str> = lock.split_ascii_whitespace().collect();
    let word = |number: usize| words.get(number).copied().unwrap_or("?");
    format!("{} {} {}", word(3), word(6), word(7))
}

/// Open descriptors, without the one of the look itself.
fn descriptors() -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.retain(|fd| fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok());
    numbers.sort_unstable();
    numbers
}
