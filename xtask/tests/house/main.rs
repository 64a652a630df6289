//! What has to hold for the sources as a whole, so that a reader finds one thing under one name.
#![allow(clippy::unwrap_used)]

mod failures;
mod file_sizes;
mod map;
mod type_names;
