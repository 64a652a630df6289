//! What libcudawrap.so, inside a CUDA program, and the cudawrap that it starts say to each other.
//!
//! Start at `Message`. `channel` has their socket, and which programs are left alone.
//!
//! Invariant: what is loaded into other people's programs links no lock and nothing that chooses. They are not among
//! the dependencies.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod channel;

pub use channel::{
    CALLED, EXCEPT, LEASE_WORKER_OPTION, MANY, Message, ONE, PROBE, TABLE, VARIABLE, channel,
    installed_library, leaves_alone, library_for_tasks, receive, send,
};
