//! What of the calling thread is left as it was: errno, and whether it can be cancelled in
//! the middle of a system call. How many threads there are beside it.
#![allow(unsafe_code)]

use std::ffi::CStr;

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
        let mut cancel = 0;
        // SAFETY: errno is this thread's own, and the old state has a place.
        let errno = unsafe {
            let errno = *libc::__errno_location();
            pthread_setcancelstate(DISABLE, &raw mut cancel);
            errno
        };
        Self { errno, cancel }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            pthread_setcancelstate(self.cancel, std::ptr::null_mut());
            *libc::__errno_location() = self.errno;
        }
    }
}

/// This thread's number (gettid(2)), which no other thread of the system has.
pub fn number() -> u32 {
    // SAFETY: gettid has no preconditions. By the system call, since glibc has gettid(3)
    // from 2.30 on only.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
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
