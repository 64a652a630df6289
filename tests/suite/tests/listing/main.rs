//! What people, administrators and programs read: listings, explanations, checks, metrics.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod check_and_metrics;
mod dashboards;
mod explain;
mod hosts;
mod json;
mod report;
mod slow_directory;
mod table;
mod tags;
mod views;
mod watch;
