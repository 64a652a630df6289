//! Telling of devices that are held and unused: a line on the terminal of the program, or
//! of the process that they are kept for, and one in the system's log.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Duration;

use getgpu_choose::syslog;
use getgpu_linux::{Stat, procfs};
use getgpu_model::{Uuid, quantity::brief};
use nix::sys::stat::{major, minor};

use super::held::HeldDevice;
use super::spell::Notice;

/// What is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Lease,
    /// Of `--hold`; whether the site ends it.
    Reservation {
        ends: bool,
    },
}

/// The line at four fifths of the limit.
pub fn warning(what: What, limit: Duration) -> String {
    let (used, left) = (brief(limit.mul_f64(0.8)), brief(limit.mul_f64(0.2)));
    let (state, next) = match what {
        What::Lease => ("leased", "it is reported"),
        What::Reservation { ends: false } => ("reserved", "it is reported again"),
        What::Reservation { ends: true } => ("reserved", "the reservation ends"),
    };
    format!("{state} and unused for {used}; {next} in {left} unless a program uses it (max_idle)")
}

/// The line at the limit.
pub fn report(what: What, limit: Duration) -> String {
    let limit = brief(limit);
    match what {
        What::Lease => format!("leased and unused for {limit} (max_idle): end the program"),
        What::Reservation { ends: false } => format!(
            "reserved and unused for {limit} (max_idle): give it back with getgpu --release"
        ),
        What::Reservation { ends: true } => {
            format!(
                "the reservation has ended: unused for {limit} (max_idle): unset CUDA_VISIBLE_DEVICES, and reserve a device again"
            )
        }
    }
}

/// The line of one whose programs compute nothing, which a site never ends.
pub fn of_idle(notice: Notice, leased: bool, limit: Duration) -> String {
    let state = if leased { "leased" } else { "reserved" };
    let idle = |time| {
        format!(
            "{state} and idle for {}: its programs compute nothing",
            brief(time)
        )
    };
    match notice {
        Notice::Warning => {
            let left = brief(limit.mul_f64(0.2));
            format!(
                "{}; it is reported in {left} (max_idle)",
                idle(limit.mul_f64(0.8))
            )
        }
        Notice::Report => format!(
            "{} (max_idle): end them if you need them no more",
            idle(limit)
        ),
    }
}

/// Sends both.
pub fn send(held: &HeldDevice, notice: Notice, text: &str) {
    let done = match notice {
        Notice::Warning => "warned",
        Notice::Report => "reported",
    };
    let devices = Uuid::join(&held.devices);
    let user = held.holder.user.as_deref().unwrap_or("?");
    let process = held.holder.pid.unwrap_or(held.pid);
    syslog::send(&format!(
        "getgpu[{}]: idle {devices} user={user} pid={process} {done}: {text}",
        held.pid
    ));
    // Its number may be another user's process by now.
    let is_own = procfs::euid(process).is_some_and(|owner| procfs::euid(held.pid) == Some(owner));
    if let Some(stat) = Stat::read(process).filter(|_| is_own) {
        write(stat.terminal, &format!("\r\ngetgpu: {devices}: {text}\r\n"));
    }
}

/// Writes to the terminal of this device number, if it is there and takes it now.
fn write(number: u32, text: &str) -> Option<()> {
    let number = u64::from(number);
    let path = path(number)?;
    let mut terminal = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    (terminal.metadata().ok()?.rdev() == number).then_some(())?;
    terminal.write_all(text.as_bytes()).ok()
}

/// The path of a pseudoterminal or a console (admin-guide/devices.txt of the kernel). The C library packs
/// major and minor number as the kernel does in 32 bits (new_encode_dev of linux/kdev_t.h), and more.
fn path(number: u64) -> Option<String> {
    match (major(number), minor(number)) {
        (136, minor) => Some(format!("/dev/pts/{minor}")),
        (4, minor) => Some(format!("/dev/tty{minor}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_by_their_numbers() {
        assert_eq!(path(136 << 8 | 3).as_deref(), Some("/dev/pts/3"));
        let large = 136 << 8 | 0x34 | 0x12 << 20;
        assert_eq!(path(large), Some(format!("/dev/pts/{}", 0x1234)));
        assert_eq!(path(4 << 8 | 2).as_deref(), Some("/dev/tty2"));
        assert_eq!(path(0), None);
    }

    #[test]
    fn lines_say_when_and_why() {
        let hour = Duration::from_secs(3600);
        let reserved = What::Reservation { ends: true };
        let soon = "reserved and unused for 48 min; the reservation ends in 12 min unless a program uses it (max_idle)";
        assert_eq!(warning(reserved, hour), soon);
        let ended = "the reservation has ended: unused for 60 min (max_idle): unset CUDA_VISIBLE_DEVICES, and reserve a device again";
        assert_eq!(report(reserved, hour), ended);
    }
}
