//! A place for tests of the commands: an own simulated node, lock, settings and
//! environment for each test, and the built programs. Nothing of the machine's own node,
//! lock or settings is seen, and what a test leaves running is ended with its sandbox.
//!
//! ```no_run
//! let sandbox = harness::Sandbox::new("a100x1");
//! let uuid = sandbox.ask("--no-reserve").line();
//! let app = sandbox.command("sim-cuda").env("CUDA_VISIBLE_DEVICES", &uuid).args(["--run", "forever"]).spawn();
//! sandbox.until_running(1);
//! app.signal(harness::Signal::SIGKILL);
//! sandbox.assert_exclusive();
//! sandbox.assert_clean();
//! ```

mod binaries;
mod builder;
mod command;
mod drivers;
mod leftovers;
pub mod mounts;
mod oracle;
mod outcome;
mod programs;
mod running;
mod sandbox;
mod signals;
mod size;
pub mod skip;
mod terminal;
pub mod wait;
mod watcher;

pub use binaries::copy_program;
pub use builder::{Builder, temporary};
pub use command::Command;
pub use drivers::{DRIVERS, is_from};
pub use leftovers::Holder;
pub use nix::sys::signal::Signal;
pub use outcome::Outcome;
pub use running::{Running, written};
pub use sandbox::Sandbox;
pub use signals::as_from_a_terminal;
pub use sim_node::{Folder, Node};
pub use sim_nvml::install::Damage;
pub use size::{full, size};
pub use terminal::Terminal;
pub use wait::turn;
