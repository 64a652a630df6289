//! How cudawrap was started, and for which program: by a link or by its own name. `entry` decides, `linked` and
//! `own_name` prepare a call for the two, and one story follows, `lease`.

mod clearing;
pub mod entry;
mod invoked_path;
pub mod linked;
mod locate_program;
mod own_name;
