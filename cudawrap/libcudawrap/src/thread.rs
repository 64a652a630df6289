//! What of the calling thread is left as it was: errno, and whether it can be cancelled in
//! the middle of a system call. How many threads there are beside it.
#![allow(unsafe_code)]

use std::ffi::CStr;

use nix::errno::Errno;

/// Do not act on pthread_cancel(3) (pthread.h of glibc).
const DISABLE: libc::c_int = 1;

unsafe extern "C" {
    /// pthread_setcancelstate(3)
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Puts things back when it is dropped.
pub struct Undisturbed {
    errno: libc::c_int,
    cancel: libc::c_int,
}

impl Undisturbed {
    /// Takes note of errno; the thread cannot be cancelled from now on.
    pub fn begin() -> Self {
        let (errno, mut cancel) = (Errno::last_raw(), 0);
        // SAFETY: the old state has a place.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut cancel) };
        Self { errno, cancel }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        // SAFETY: the state that it had before; what it has now is not asked for.
        unsafe { pthread_setcancelstate(self.cancel, std::ptr::null_mut()) };
        Errno::set_raw(self.errno);
    }
}

/// Whether this process has other threads; in doubt it has.
pub fn others() -> bool {
    std::fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() != 1)
}

/// Sets a variable of this process (setenv(3)). Another thread that reads the environment
/// at this moment is a race in C, which is why only what must be set is set then.
pub fn set_variable(name: &CStr, value: &CStr) {
    // SAFETY: both are NUL-terminated and copied by the call.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}
