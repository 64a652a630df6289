//! getgpu: prints the UUID of a free device and keeps it reserved for the program that
//! will use it. The same executable is the holder of a reservation and the process that
//! asks NVML for cudawrap. There is no Rust `main`: the standard library's start-up reads
//! /proc/self/maps and sets signals up for a message at a stack overflow, which takes a
//! tenth of what a pick takes.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(
    test,
    allow(
        dead_code,
        unused_imports,
        reason = "the test harness has its own main"
    )
)]

mod run;
mod status_pipe;

use std::ffi::OsString;

use getgpu_ask::NVML_WORKER_OPTION;
use getgpu_linux::{detached::words_behind, startup};
use getgpu_lock::{LEASE_WORD, Role, holder_args};
use getgpu_model::{Kind, exit};

getgpu_linux::package_mark!("getgpu");

/// What getgpu needs for itself, in bytes.
const LEAST_MEMORY: usize = 512 << 10;

/// The C entry point (ISO C 5.1.2.2.1): one of the programs that this executable is, by the hidden word
/// that it was started with. Arguments are taken from the standard library, which has them from the loader.
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
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let first = arguments.get(1);
    let status = if let Some(words) = words_behind(holder_args::OPTION, &arguments) {
        getgpu_core::holder::main(&words)
    } else if first.is_some_and(|word| word == NVML_WORKER_OPTION) {
        run::worker()
    } else {
        // The other two inherit what a call was started with.
        let pipe = status_pipe::StatusPipe::take();
        let (role, own) = match first {
            Some(word) if word == LEASE_WORD => (Role::Lease, 2),
            _ => (Role::Reservation, 1),
        };
        let status = run::main(arguments.get(own..).unwrap_or_default(), role);
        if let Some(pipe) = pipe {
            pipe.tell(status);
        }
        status
    };
    // What is left of it in a buffer is written.
    std::process::exit(status)
}
