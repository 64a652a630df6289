//! Telling of an empty reservation: a line on the terminal of the process it is kept for,
//! and one in the system's log.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Duration;

use getgpu_common::ident::Uuid;
use getgpu_common::procfs::{self, Stat};
use getgpu_common::quantity::brief;
use getgpu_common::syslog;

use super::watch_args::WatchArgs;

/// The line at four fifths of the limit.
pub fn warning(limit: Duration, ends: bool) -> String {
    let (used, left) = (limit.mul_f64(0.8), limit.mul_f64(0.2));
    let what = if ends {
        "the reservation ends"
    } else {
        "it is reported again"
    };
    format!(
        "reserved and unused for {}; {what} in {} unless a program uses it (max_idle)",
        brief(used),
        brief(left)
    )
}

/// The line with which the reservation ends.
pub fn ended(limit: Duration) -> String {
    format!(
        "the reservation has ended: unused for {} (max_idle)",
        brief(limit)
    )
}

/// The line at the limit, where the reservation stays.
pub fn reported(limit: Duration) -> String {
    format!(
        "reserved and unused for {} (max_idle): give it back with getgpu --release",
        brief(limit)
    )
}

/// Sends both; `done` is the word in the log.
pub fn send(args: &WatchArgs, text: &str, done: &str) {
    let devices: Vec<&str> = args.devices.iter().map(Uuid::as_str).collect();
    let devices = devices.join(",");
    let user = procfs::user_name(nix::unistd::geteuid().as_raw());
    let (pid, caller) = (args.holder.0, args.caller.0);
    syslog::send(&format!(
        "getgpu[{pid}]: idle {devices} user={user} caller={caller} {done}: {text}"
    ));
    let caller = Stat::read(caller).filter(|stat| stat.start == args.caller.1);
    if let Some(number) = caller.map(|stat| stat.terminal) {
        write(number, &format!("\r\ngetgpu: {devices}: {text}\r\n"));
    }
}

/// Writes to the terminal of this device number, if it is there and takes it now.
fn write(number: u32, text: &str) -> Option<()> {
    let path = path(number)?;
    let mut terminal = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    let (major, minor) = numbers(number);
    let opened = terminal.metadata().ok()?.rdev();
    (opened == nix::sys::stat::makedev(major, minor)).then_some(())?;
    terminal.write_all(text.as_bytes()).ok()
}

/// Major and minor number, as the kernel packs them in 32 bits (new_encode_dev of
/// linux/kdev_t.h).
const fn numbers(number: u32) -> (u64, u64) {
    let minor = (number & 0xff) | ((number >> 12) & 0xf_ff00);
    (((number >> 8) & 0xfff) as u64, minor as u64)
}

/// The path of a pseudoterminal or a console (admin-guide/devices.txt of the kernel).
fn path(number: u32) -> Option<String> {
    match numbers(number) {
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
        assert_eq!(
            warning(hour, true),
            "reserved and unused for 48 min; the reservation ends in 12 min unless a program uses it (max_idle)"
        );
        assert_eq!(
            ended(hour),
            "the reservation has ended: unused for 60 min (max_idle)"
        );
    }
}
