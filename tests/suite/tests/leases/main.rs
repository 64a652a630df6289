//! What cudawrap leases, for how long, and how devices are divided: shares, and devices
//! that a process owns already.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod entries;
mod index_names;
mod lease_lifetime;
mod named_devices;
mod named_in_use;
mod nested_grants;
mod nested_shares;
mod order_of_gpus;
mod several_named;
mod share_placement;
mod shares;
mod wrapped_programs;
