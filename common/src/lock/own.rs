//! What is our own: reservations of our uid, and leases of our ancestors. A choice believes proof alone, and the proof
//! is fdinfo: a process of our uid whose open descriptor holds the lock. Without proof it is somebody else's.

use super::{Place, Range, Span, UNITS};
use crate::ident::Uuid;
use crate::procfs::{self, Stat, ancestry, fdinfo, secrets, secrets::Secret};

/// The process name of a reservation's holder.
pub const HOLDER_NAME: &str = "getgpu-hold";

/// What the command line of a holder says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderLine {
    /// The holder.
    pub pid: i32,
    /// Every device it reserves.
    pub devices: Vec<Uuid>,
    /// The caller's pid and name.
    pub caller: (i32, String),
    /// The caller's start, in clock ticks after boot.
    pub caller_start: u64,
    /// Whether it holds until a process is over, whatever runs.
    pub hold: bool,
    /// The tag, if any.
    pub tag: Option<String>,
}

impl HolderLine {
    /// Reads the command line of `pid`, a process that is called like a holder. A stranger could make such a read hang, so this is
    /// asked only of processes named by the lock or of our own uid.
    pub fn of(pid: i32) -> Option<Self> {
        if procfs::comm(pid)? != HOLDER_NAME {
            return None;
        }
        let Secret::Bytes(bytes) = secrets::cmdline(pid) else { return None };
        Self::parse(pid, &bytes)
    }

    /// `getgpu --holder MIG-...[,...] caller=4711(bash) start=123 for=60 [hold=PID] [tag=NAME]`, NUL between the words.
    pub fn parse(pid: i32, bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.split('\0').skip_while(|word| *word != "--holder").skip(1);
        let devices = words.next()?.split(',').map(Uuid::parse).collect::<Option<Vec<_>>>()?;
        let mut line = Self { pid, devices, caller: (0, String::new()), caller_start: 0, hold: false, tag: None };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "caller" => {
                    let (number, name) = value.split_once('(')?;
                    line.caller = (number.parse().ok()?, name.strip_suffix(')')?.to_owned());
                }
                "start" => line.caller_start = value.parse().ok()?,
                "hold" => line.hold = true,
                "tag" => line.tag = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(line)
    }
}

/// The holders of `uid` (all uids for root that asks for everybody's): found by name, believed by proof.
pub fn reservations(place: &Place, uid: Option<u32>) -> Vec<HolderLine> {
    let own = std::process::id() as i32;
    procfs::pids()
        .into_iter()
        .filter(|pid| *pid != own && uid.is_none_or(|uid| procfs::euid(*pid) == Some(uid)))
        .filter_map(HolderLine::of)
        .filter(|line| proven(place, line))
        .collect()
}

/// Whether the holder's own descriptors show the lock on every device that its command line names.
pub fn proven(place: &Place, line: &HolderLine) -> bool {
    let locks = fdinfo::settled_locks(&line.pid.to_string());
    line.devices.iter().all(|device| covers(&fdinfo::within(&locks, place.identity.1, Span::of(device).reservation())))
}

/// Whether the holder shows that its programs are over and it waits for the caller's next one.
pub fn lingering(place: &Place, line: &HolderLine) -> bool {
    let locks = fdinfo::settled_locks(&line.pid.to_string());
    line.devices.iter().all(|device| !fdinfo::within(&locks, place.identity.1, Span::of(device).lingering()).is_empty())
}

/// Whether an ancestor of ours, or a descriptor that we inherited, holds a lease on the device of `span`.
pub fn ancestor_leases(place: &Place, span: Span) -> bool {
    let held = |pid: &str| !fdinfo::within(&fdinfo::settled_locks(pid), place.identity.1, span.lease()).is_empty();
    let uid = nix::unistd::geteuid().as_raw();
    held("self")
        || ancestry::ancestors(std::process::id() as i32, 64)
            .iter()
            .any(|stat: &Stat| procfs::euid(stat.pid) == Some(uid) && held(&stat.pid.to_string()))
}

fn covers(parts: &[Range]) -> bool {
    parts.iter().map(|part| part.len).sum::<i64>() >= UNITS
}

#[cfg(test)]
mod tests {
    use super::HolderLine;

    #[test]
    fn a_holders_command_line_says_what_it_is() {
        let uuid = "MIG-0d1e2f30-1111-5222-8333-444455556666";
        let bytes = format!("getgpu\0--holder\0{uuid}\0caller=4711(my (odd) shell)\0start=99\0for=60\0hold=4711\0");
        let line = HolderLine::parse(7, bytes.as_bytes()).unwrap();
        assert_eq!((line.caller, line.caller_start, line.hold), ((4711, "my (odd) shell".into()), 99, true));
        assert_eq!(line.devices[0].as_str(), uuid);
        for bad in ["", "getgpu\0--holder", "getgpu\0--holder\0x\0", "sleep\x001\0"] {
            assert_eq!(HolderLine::parse(7, bad.as_bytes()), None, "{bad}");
        }
    }
}
