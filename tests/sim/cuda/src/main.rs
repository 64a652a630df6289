//! A stand-in for a CUDA program: takes a context on the device that CUDA_VISIBLE_DEVICES
//! gives it, runs, ends. It says loudly when another program is on that device at the
//! same time, which is what the tests look for.
//!
//! It does not fork and closes no descriptor it inherited, so a lease it was given lives
//! as long as it does.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is its result"
)]

mod flags;

use flags::Flags;
use sim_cuda::{injection, visible};
use sim_node::{Folder, Record, Registration, Taken};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const COLLISION: u8 = 99;
const NO_DEVICE: u8 = 100;
const NO_MEMORY: u8 = 102;
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    match Flags::parse(env::args_os().skip(1)) {
        Err(why) => fail(&why),
        Ok(flags) => run(&flags).unwrap_or_else(|error| fail(&error.to_string())),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("sim-cuda: {why}");
    ExitCode::from(WRONG_USE)
}

fn run(flags: &Flags) -> io::Result<ExitCode> {
    thread::sleep(flags.init);
    let Some(folder) = Folder::from_env() else {
        return no_device(flags);
    };
    // cuInit has read no other variable by then.
    injection::load();
    let visible =
        env::var_os("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned());
    let mut node = folder.node()?;
    sim_node::device_nodes::retain_open(&mut node);
    let Some(uuid) = visible::first_device(&node, visible.as_deref(), visible::Order::of_process())
    else {
        return no_device(flags);
    };
    let pid = std::process::id();
    let record = Record {
        uuid,
        pid,
        foreign: false,
        memory: flags.memory,
        max: flags.max,
        tag: flags.tag.clone(),
    };
    if !folder.leaves_memory(&record)? {
        announce(flags, &format!("NOMEMORY {} {pid}", record.uuid))?;
        return Ok(ExitCode::from(NO_MEMORY));
    }
    match folder.register(&record)? {
        Err(Taken(other)) => {
            folder.note_collision(&record, &other)?;
            announce(
                flags,
                &format!("COLLISION {} {pid} with {}", record.uuid, other.pid),
            )?;
            Ok(ExitCode::from(COLLISION))
        }
        Ok(context) => {
            folder.note_run("start", &record)?;
            announce(flags, &format!("RUN {} {pid}", record.uuid))?;
            work(flags);
            end(flags, &folder, &record, context)
        }
    }
}

fn no_device(flags: &Flags) -> io::Result<ExitCode> {
    announce(flags, "NODEVICE")?;
    Ok(ExitCode::from(NO_DEVICE))
}

/// The outcome goes to stdout and, under its final name only once it is whole, to the
/// file of `--ready`.
fn announce(flags: &Flags, outcome: &str) -> io::Result<()> {
    // A closed stdout is the test's business, not a reason to fail.
    let _ = writeln!(io::stdout(), "{outcome}");
    match &flags.ready {
        None => Ok(()),
        Some(path) => {
            let mut new = path.as_os_str().to_owned();
            new.push(format!(".{}", std::process::id()));
            fs::write(Path::new(&new), format!("{outcome}\n"))?;
            fs::rename(new, path)
        }
    }
}

fn work(flags: &Flags) {
    let start = Instant::now();
    match flags.run {
        None => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        Some(time) => thread::sleep(time.saturating_sub(start.elapsed())),
    }
    if let Some(path) = &flags.until_file {
        while !path.exists() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The end is noted while the context still exists, so two runs that follow each other
/// never overlap in the log.
fn end(
    flags: &Flags,
    folder: &Folder,
    record: &Record,
    context: Registration,
) -> io::Result<ExitCode> {
    folder.note_run("end", record)?;
    // The kernel ends the context with the process, as it does for a real program.
    std::mem::forget(context);
    std::process::exit(flags.exit)
}
