//! The recipes of the README and of `etc/slurm`, with the real tools where they are
//! installed.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod ci_runners;
mod docker;
mod docker_gpus;
mod hosts;
mod launchers;
mod python;
mod torchrun;
