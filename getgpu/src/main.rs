//! getgpu: prints the UUID of a free device and keeps it reserved for the program that
//! will use it. The same executable is the holder of a reservation and the process that
//! asks NVML for cudawrap.

mod answer;
mod caller;
mod check;
mod check_hook;
mod choose;
mod explain;
mod findings;
mod hand_out;
mod holder;
mod idle;
mod invocation;
mod list;
mod options;
mod release;
mod reuse;
mod run;
mod shell_command;
mod show_config;
mod tag;

use std::ffi::OsString;

use getgpu_common::detached::words_behind;
use getgpu_common::lease_log;
use getgpu_common::lock::holder_args;
use getgpu_common::nvml_client::WORKER_OPTION;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let status = if let Some(words) = words_behind(holder_args::OPTION, &arguments) {
        holder::main(&words)
    } else if let Some(words) = words_behind(lease_log::OPTION, &arguments) {
        lease_log::main(&words)
    } else if let Some(words) = words_behind(idle::OPTION, &arguments) {
        idle::main(&words)
    } else if arguments.get(1).is_some_and(|word| word == WORKER_OPTION) {
        run::worker()
    } else if arguments.get(1).is_some_and(|word| word == run::COMPLETE) {
        run::complete()
    } else {
        run::main(arguments.into_iter().skip(1))
    };
    std::process::exit(status);
}
