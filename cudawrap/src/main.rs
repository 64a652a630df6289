//! cudawrap: runs a program on a free device, leased by a kernel lock until the program
//! exits. There is no Rust `main`: the standard library's start-up would change signals
//! and descriptors that the program must find as they were.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code, reason = "the test harness has its own main"))]

mod auto;
mod bind;
mod call;
mod causes;
mod lease;
mod mps;
mod options;
mod ranks;
mod start;
mod visible;

#[cfg(not(test))]
use getgpu_linux::startup;
#[cfg(not(test))]
use getgpu_model::exit;

getgpu_linux::package_mark!("cudawrap");

/// What cudawrap and the process that asks NVML for it need, in bytes.
#[cfg(not(test))]
const LEAST_MEMORY: usize = 3 << 19;

/// The C entry point (ISO C 5.1.2.2.1). Arguments are taken from the standard library,
/// which has them from the loader.
#[allow(unsafe_code)]
// SAFETY: this program has no other function of this name, and the C start-up code calls
// it with this signature.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    if !startup::has_memory("cudawrap", LEAST_MEMORY) {
        return exit::CUDAWRAP_FAILED;
    }
    start::entry::run()
}
