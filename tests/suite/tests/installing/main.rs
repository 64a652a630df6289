//! Installation, packages and wrapping with the real programs: no program, lease or
//! setting is lost on the way.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod cargo_install;
mod damaged_cudawrap;
mod make_install;
mod module_recipes;
mod portable_programs;
mod release_files;
mod system_packages;
mod wrapping;
mod wrapping_links;
mod wrapping_site;
