//! The line in the system's log at the end of a lease or reservation, for accounting
//! (`log = "syslog"`). Nobody of ours is left in a program that was executed, so a small
//! process waits until the kernel gives up the lock, however the program ended, and then
//! writes the line.

use std::ffi::{CStr, CString, OsString};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::detached::{self, Detached};
use crate::ident::Uuid;
use crate::lock::{Held, LockFile, OfdLock, Range, Side, Span};
use crate::process_reset;
use crate::procfs::namespaces;
use crate::settings::{Log, Settings};
use crate::sys;
use crate::syslog;

/// The word on the command line that makes a process a recorder.
pub const OPTION: &str = "--recorder";
/// The name of such a process.
pub const NAME: &CStr = c"getgpu-log";

/// Starts one for what process `pid` has just confirmed on `device`; `text` is the rest of
/// the line. Without it nothing else is different.
pub fn start(
    settings: &Settings,
    lock_file: &LockFile,
    side: Side,
    pid: i32,
    device: &Uuid,
    text: &str,
) {
    if settings.log == Log::None || !namespaces::host_pids() {
        return;
    }
    if let Ok(lock) = lock_file.open() {
        launch(&lock, side, pid, device, text);
    }
}

/// The same with a description of the lock, which it inherits.
pub fn launch(lock: &OfdLock, side: Side, pid: i32, device: &Uuid, text: &str) {
    let side = if side == Side::Lease {
        "lease"
    } else {
        "reservation"
    };
    let words = [
        NAME.to_str().unwrap_or_default(),
        OPTION,
        side,
        &pid.to_string(),
        device.as_str(),
        text,
    ];
    let words: Vec<CString> = words
        .into_iter()
        .filter_map(|word| CString::new(word).ok())
        .collect();
    let Ok(null) = std::fs::File::open("/dev/null") else {
        return;
    };
    // Accounting is no reason to keep a program from running.
    let _ = detached::launch(&Detached {
        words: &words,
        environment: &[],
        descriptors: [lock.number(), null.as_raw_fd()],
        user: None,
    });
}

/// The recorder's own main, with the words behind [`OPTION`] and the lock on descriptor
/// 3.
pub fn main(words: &[OsString]) -> i32 {
    sys::set_name(NAME);
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let [side, pid, device, text] = words.as_slice() else {
        return 2;
    };
    let (Ok(pid), Some(device)) = (pid.parse::<i64>(), Uuid::parse(device)) else {
        return 2;
    };
    let (span, by) = (
        Span::of(&device),
        if side == "lease" {
            "cudawrap"
        } else {
            "getgpu"
        },
    );
    let bytes = if side == "lease" {
        span.lease_pids()
    } else {
        span.reservation_pids()
    };
    let lock = OfdLock::new(sys::own_fd(process_reset::FIRST));
    let began = sys::boot_time();
    // The byte that says which process it is ends with the lease, when the last process
    // that has its descriptors ends.
    while let Ok(false) = lock.wait_for(Range::byte(bytes.start() + pid), Held::Tentative) {}
    drop(lock);
    let held: Duration = sys::boot_time().saturating_sub(began);
    syslog::send(&format!(
        "{by}[{pid}]: released {text} held={:.1}s",
        held.as_secs_f64()
    ));
    0
}
