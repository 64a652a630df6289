//! create-cudawrap in one line: PATH → target → inspect → state → plan → apply → registry, and
//! the path runs at every instant. Only `inspect`, `directory`, `dirlock`, `facts`,
//! `acl`, `apparmor`, `package`, `registry` and `wrapper` touch the system; `state`, `plan`,
//! `checks` and `swap_check` are pure.

pub mod acl;
pub mod apparmor;
pub mod apply;
pub mod checks;
pub mod directory;
pub mod dirlock;
pub mod facts;
pub mod filesystem;
pub mod held_signals;
pub mod identity;
pub mod impossible;
pub mod inspect;
pub mod job;
pub mod linkdir;
pub mod names;
pub mod options;
pub mod outcome_text;
pub mod package;
pub mod plan;
pub mod registry;
pub mod run;
pub mod state;
pub mod status;
pub mod steps;
pub mod swap_check;
pub mod target;
pub mod wrapper;
