//! The form of a table of options, the options that several programs have, and help texts.
//!
//! Start at `Choosing`, the options of every program that chooses devices.
//!
//! Invariant: knows no lock and no NVML. They are not among the dependencies.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod causes;
pub mod flags;
mod help_text;
mod overrides;
mod shared_flags;

pub use help_text::{HelpLength, HelpText};
pub use overrides::{Overrides, variable};
pub use shared_flags::{Choosing, Common, SHARE, Said, one};
