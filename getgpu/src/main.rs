//! getgpu: prints the UUID of a free device and keeps it reserved for the program that
//! will use it. The same executable is the holder of a reservation and the process that
//! asks NVML for cudawrap. There is no Rust `main`: the standard library's start-up reads
//! /proc/self/maps and sets signals up for a message at a stack overflow, which takes a
//! tenth of what a pick takes.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code, reason = "the test harness has its own main"))]

mod answer;
mod call;
mod caller;
mod check;
mod choose;
mod explain;
mod hand_out;
mod holder;
mod indexed;
mod list;
mod monitor;
mod obtain;
mod options;
mod reader;
mod release;
mod report;
mod run;
mod show_config;
mod slurm;
mod tag;
mod unrelated;
mod wanted;

use std::ffi::OsString;

use getgpu_ask::NVML_WORKER_OPTION;
use getgpu_linux::detached::words_behind;
#[cfg(not(test))]
use getgpu_linux::startup;
use getgpu_lock::{LEASE_WORD, Role, holder_args};
#[cfg(not(test))]
use getgpu_model::{Kind, exit};

getgpu_linux::package_mark!("getgpu");

/// What getgpu needs for itself, in bytes.
#[cfg(not(test))]
const LEAST_MEMORY: usize = 512 << 10;

/// The C entry point (ISO C 5.1.2.2.1). Arguments are taken from the standard library,
/// which has them from the loader.
#[allow(unsafe_code)]
// SAFETY: this program has no other function of this name, and the C start-up code calls
// it with this signature.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    startup::prepare();
    if !startup::has_memory("getgpu", LEAST_MEMORY) {
        return exit::getgpu(Kind::LockPlace);
    }
    let status = run_as_called(&std::env::args_os().collect::<Vec<_>>());
    // What is left of it in a buffer is written.
    std::process::exit(status)
}

/// One of the programs that this executable is, by the hidden word that it was started with;
/// its exit status.
fn run_as_called(arguments: &[OsString]) -> i32 {
    if let Some(words) = words_behind(holder_args::OPTION, arguments) {
        holder::main(&words)
    } else if arguments
        .get(1)
        .is_some_and(|word| word == NVML_WORKER_OPTION)
    {
        run::worker()
    } else if arguments.get(1).is_some_and(|word| word == LEASE_WORD) {
        run::main(&arguments[2..], Role::Lease)
    } else {
        run::main(arguments.get(1..).unwrap_or_default(), Role::Reservation)
    }
}
