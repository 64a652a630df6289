//! getgpu: prints the UUID of a free device and keeps it reserved for the program that
//! will use it. The same executable is the holder of a reservation and the process that
//! asks NVML for cudawrap.

mod caller;
mod check;
mod choose;
mod explain;
mod holder;
mod invocation;
mod list;
mod options;
mod release;
mod reuse;
mod run;
mod shell_command;
mod show_config;
mod tag;

use getgpu_common::lease_log;

fn main() {
    let mut arguments = std::env::args_os();
    let _name = arguments.next();
    let status = match arguments.next() {
        Some(first) if first == "--holder" => holder::main(arguments),
        Some(first) if first == lease_log::OPTION => lease_log::main(arguments),
        Some(first) if first == getgpu_common::nvml_client::WORKER_OPTION => run::worker(),
        first => run::main(first.into_iter().chain(arguments)),
    };
    std::process::exit(status);
}
