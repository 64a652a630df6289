//! `cudawrap --mps`: each test runs with a stand-in for nvidia-cuda-mps-control, and with
//! the real one where it is installed; it needs no driver.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod clients;
mod daemon_lifetime;
mod refusals;
