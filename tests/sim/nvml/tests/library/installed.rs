//! The installed library is found and loaded as the real one, with exactly the functions
//! that were left in it. Asked through dlopen, as the commands do.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sim_nvml::install::{BEFORE_510, WIDE_PROCESSES, install};

/// Which of these functions the library has.
fn found(library: &Path, functions: &[&str]) -> Vec<bool> {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library runs no code at load.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    let has = |name: &&str| {
        let name = CString::new(*name).unwrap();
        // SAFETY: the handle is good, and what is found is not called.
        !unsafe { libc::dlsym(handle, name.as_ptr()) }.is_null()
    };
    functions.iter().map(has).collect()
}

const ASKED: [&str; 4] = [
    "nvmlInit_v2",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetRunningProcessDetailList",
];

#[test]
fn hidden_functions_are_not_there_and_others_are() {
    let variants: [(&[&str], [bool; 4]); 3] = [
        (&[], [true; 4]),
        (BEFORE_510, [true, true, false, false]),
        (WIDE_PROCESSES, [true, true, true, false]),
    ];
    for (hidden, expected) in variants {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            found(&install(dir.path(), hidden).unwrap(), &ASKED),
            expected
        );
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(install(dir.path(), &["nvmlNoSuchFunction"]).is_err());
}
