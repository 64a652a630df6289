//! The driver's hook for tools: the library that CUDA_INJECTION64_PATH names is loaded and
//! its `InitializeInjection` called, before anything else of cuInit. As seen with drivers
//! 470 to 595: a missing file or function, or an answer of 0, changes nothing, and every
//! cuInit does it again until one has succeeded.
#![allow(unsafe_code)]

use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;
use std::thread;

/// Starts the thread that drivers from 550 on have by the time that they load a tool's
/// library, if SIM_CUDA_THREAD is set.
pub fn start_thread() {
    static STARTED: Once = Once::new();
    if env::var_os("SIM_CUDA_THREAD").is_none() {
        return;
    }
    STARTED.call_once(|| {
        let thread = thread::Builder::new().name("cuda00000000000".to_owned());
        // Without it the test that wants it fails.
        let _ = thread.spawn(|| {
            loop {
                thread::park();
            }
        });
    });
}

/// Loads the tool's library, if there is one, and calls its function.
pub fn load() {
    let path = env::var_os("CUDA_INJECTION64_PATH").filter(|path| !path.is_empty());
    let Some(path) = path.and_then(|path| CString::new(path.as_bytes()).ok()) else {
        return;
    };
    // SAFETY: a function of this name has this type (CUPTI, "Injection Library").
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return;
        }
        let function = libc::dlsym(library, c"InitializeInjection".as_ptr());
        if !function.is_null() {
            let initialize: extern "C" fn() -> libc::c_int = std::mem::transmute(function);
            initialize();
        }
    }
}
