//! libcudawrap.so as cudawrap sees it: `preload` starts a program that is to load the library,
//! and `worker` is the process that the library starts at the program's first CUDA call.

mod preload;
mod worker;

pub use preload::{of_linked, prepare};
pub use worker::lease_worker;
