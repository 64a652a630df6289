//! Settings: the system's file, the user's, the environment, the options; later wins, and policy is the system's alone.
//!
//! Start at `Settings`, everything that can be set, and at `keys`, the one table of names; `Loaded` puts together
//! what is in force.
//!
//! Invariant: knows no lock. It is not among the dependencies.
#![deny(missing_docs, clippy::missing_errors_doc)]

pub mod allowed;
mod bounded_read;
mod causes;
pub mod env_flags;
mod environment;
mod file;
mod first_call;
mod key;
pub mod keys;
mod loaded;
mod member;
mod settings;
mod slurm;
mod trusted;
mod value_codec;
mod value_types;

pub use allowed::DeviceList;
pub use environment::Environment;
pub use file::{File, Scope};
pub use first_call::{Auto, AutoNone, AutoSettings};
pub use loaded::{Loaded, Scoped, matches};
pub use settings::Settings;
pub use slurm::{EnforceMemory, SlurmSettings, SlurmTaken, SlurmTasks};
pub use value_codec::quoted;
pub use value_types::{
    ArgvZero, DeviceNames, IdleAction, LeaseAt, Log, Policy, RunOrFail, Shown, Type, Unshared,
    Wait, WithoutGrant,
};
