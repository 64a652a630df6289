//! libcudawrap.so: the NVIDIA driver loads the library that CUDA_INJECTION64_PATH names at
//! a program's first CUDA call, and calls `InitializeInjection` before it opens a device
//! or reads CUDA_VISIBLE_DEVICES. Then the program takes a free device, as if it had been
//! wrapped, and holds it until it exits.
//!
//! The program is a stranger's. Whatever can be done outside of it is done by cudawrap,
//! in a process that it never sees (`worker`); here variables are set and descriptors
//! kept (`attach`), once (`gate`), and nothing of the thread's state changes (`thread`).

mod attach;
mod causes;
mod gate;
mod thread;
mod whereabouts;
mod worker;

use std::panic::catch_unwind;

use getgpu_model::{Diag, Verbosity};
use getgpu_settings::AutoNone;

/// What the driver calls (Nsight and CUPTI tools export the same). 1: all is well. Any
/// other answer changes nothing for the program.
#[allow(unsafe_code, non_snake_case)]
// SAFETY: no other library that the driver loads by CUDA_INJECTION64_PATH is in its place,
// and the driver looks the function up in this library alone.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> libc::c_int {
    let _undisturbed = thread::Undisturbed::begin();
    let diag = Diag::new("cudawrap", Verbosity::Normal);
    gate::once(|| {
        // Only this library's copy of the standard library is told.
        std::panic::set_hook(Box::new(|_| {}));
        catch_unwind(|| attach::attach(&diag)).unwrap_or_else(|_| {
            attach::without(AutoNone::Hide, causes::LibraryCause::Panicked.into(), &diag)
        })
    });
    1
}
