//! create-cudawrap in one line: PATH → target → look → state → plan → apply → note, and
//! the path runs at every instant. Only `look`, `directory`, `dirlock`, `facts`,
//! `apparmor`, `package`, `note` and `wrapper` touch the system; `state`, `plan`,
//! `refuse` and `verdict` are pure.

pub mod apparmor;
pub mod apply;
pub mod directory;
pub mod dirlock;
pub mod facts;
pub mod filesystem;
pub mod identity;
pub mod job;
pub mod linkdir;
pub mod look;
pub mod names;
pub mod note;
pub mod options;
pub mod package;
pub mod plan;
pub mod refuse;
pub mod run;
pub mod state;
pub mod status;
pub mod target;
pub mod verdict;
pub mod wrapper;
