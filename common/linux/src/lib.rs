//! What the kernel offers: processes, descriptors, byte ranges, /proc, and whose files are believed.
//!
//! Start at `sys` for single system calls and at `procfs` for what /proc tells.
//!
//! Invariant: no word about GPUs. No other crate of this project is among the dependencies.
//! Invariant: `unsafe` is allowed in named modules only; the workspace denies it elsewhere.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod blocked_signals;
mod byte_range;
mod child;
pub mod descriptors;
pub mod detached;
mod installed;
mod package_mark;
pub mod pidfd;
pub mod poll;
pub mod procfs;
mod reader_child;
pub mod regular_file;
mod resolve_program;
pub mod run_clock;
pub mod startup;
pub mod sys;
pub mod trust;
pub mod unseen_child;
pub mod users;

pub use blocked_signals::BlockedSignals;
pub use byte_range::Range;
pub use child::{go_on_in_fork, kill_and_reap, reap};
pub use detached::{ChildUser, LOCK_FD, STARTER_FD};
pub use installed::{can_run, sibling};
pub use package_mark::PackageMark;
pub use procfs::fdinfo::OwnLock;
pub use procfs::process_memory::Secret;
pub use procfs::{Process, Stat};
pub use reader_child::{CommandLines, ReaderChild};
pub use resolve_program::{
    Chain, Identity, KEPT, PREFIX, Resolution, Rule, beside, chain, directories, identity,
    is_cudawrap, program_name, without_number,
};
pub use trust::LockOrigin;
pub use unseen_child::ChildPlan;
