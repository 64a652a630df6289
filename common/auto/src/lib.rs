//! What libcudawrap.so, inside a CUDA program, and the cudawrap that it starts say to each other.
//!
//! Start at `hook`: the messages, their socket, and which programs are left alone.
//!
//! Invariant: what is loaded into other people's programs links no lock and nothing that chooses. They are not among
//! the dependencies.
#![allow(missing_docs)]

pub mod hook;

pub use hook::{Message, WORKER_OPTION};
