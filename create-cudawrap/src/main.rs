//! create-cudawrap: makes a program start through cudawrap, and undoes that. Everything
//! is in the library, where tests and the generators of manual and completions reach it.
//! There is no Rust `main`: the standard library's start-up panics where there is too little
//! memory for it.
#![cfg_attr(not(test), no_main)]

#[cfg(not(test))]
use getgpu_linux::startup;
#[cfg(not(test))]
use getgpu_model::{Kind, exit};

getgpu_linux::package_mark!("create-cudawrap");

/// What create-cudawrap needs for itself, in bytes.
#[cfg(not(test))]
const LEAST_MEMORY: usize = 512 << 10;

/// The C entry point (ISO C 5.1.2.2.1). Arguments are taken from the standard library,
/// which has them from the loader.
#[allow(unsafe_code)]
// SAFETY: this program has no other function of this name, and the C start-up code calls
// it with this signature.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    startup::prepare();
    if !startup::has_memory("create-cudawrap", LEAST_MEMORY) {
        return exit::create_cudawrap(Kind::Refused);
    }
    create_cudawrap::run::main()
}
