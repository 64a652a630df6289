//! What the administrator decides: lists of devices, settings files, limits for each user.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod device_lists;
mod drains_and_time_limits;
mod settings_files;
mod user_limits;
