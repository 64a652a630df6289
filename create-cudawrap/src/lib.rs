//! create-cudawrap in one line: PATH → target → inspect → state → plan → apply → registry, and
//! the path runs at every instant. Only `inspect`, `directory`, `dirlock`, `executable`,
//! `checks`, `apparmor`, `package`, `registry` and `wrapper` touch the system; `state` and
//! `plan` are pure.

pub mod advice;
pub mod apparmor;
pub mod apply;
pub(crate) mod causes;
pub mod checks;
pub mod directory;
pub mod dirlock;
pub mod executable;
pub mod filesystem;
pub mod inspect;
pub mod job;
pub mod linkdir;
pub mod names;
pub mod options;
pub mod package;
pub mod plan;
pub mod registry;
pub mod run;
pub mod state;
pub mod status;
pub mod target;
pub mod wrapper;
