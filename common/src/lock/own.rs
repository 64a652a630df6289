//! What is our own: reservations of our uid, and leases of our ancestors. A choice believes proof alone, and the proof
//! is fdinfo: a process of our uid whose open descriptor holds the lock. Without proof it is somebody else's.

use super::{Place, Range, Span, Units};
use crate::ident::Uuid;
use crate::procfs::{self, ancestry, fdinfo, secrets, secrets::Secret};

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
    /// The process until whose end it holds, whatever runs; 0: until it is released.
    pub hold: Option<i32>,
    /// The tag, if any.
    pub tag: Option<String>,
    /// What was asked for under the tag, as a number that only says whether it was the same.
    pub asked: Option<String>,
    /// When the getgpu that made it was started, in clock ticks after boot.
    pub since: u64,
}

impl HolderLine {
    /// Reads the command line of `pid`, a process that is called like a holder. A stranger could make such a read hang, so this is
    /// asked only of processes named by the lock or of our own uid.
    pub fn of(pid: i32) -> Option<Self> {
        if !called(pid) {
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
        let mut line = Self {
            pid,
            devices,
            caller: (0, String::new()),
            caller_start: 0,
            hold: None,
            tag: None,
            asked: None,
            since: 0,
        };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "caller" => {
                    let (number, name) = value.split_once('(')?;
                    line.caller = (number.parse().ok()?, name.strip_suffix(')')?.to_owned());
                }
                "start" => line.caller_start = value.parse().ok()?,
                "hold" => line.hold = Some(value.split('(').next()?.parse().ok()?),
                "tag" => line.tag = Some(value.to_owned()),
                "asked" => line.asked = Some(value.to_owned()),
                "since" => line.since = value.parse().ok()?,
                _ => {}
            }
        }
        Some(line)
    }

    /// How far up a line of descent, from a process to its ancestors, it is that this was reserved for or by; the longest way if not there.
    fn generations_up(&self, lineage: &[i32]) -> usize {
        lineage.iter().position(|pid| self.hold == Some(*pid) || self.caller.0 == *pid).unwrap_or(usize::MAX)
    }
}

/// Whether a process has the name of a holder.
fn called(pid: i32) -> bool {
    procfs::comm(pid).is_some_and(|name| name == HOLDER_NAME)
}

/// The holders of `uid` (all uids for root that asks for everybody's): found by name, believed by proof.
pub fn reservations(place: &Place, uid: Option<u32>) -> Vec<HolderLine> {
    let own = std::process::id() as i32;
    procfs::pids()
        .into_iter()
        // The cheapest question first, since it is asked of thousands: a file's owner, then a name, then a whole status.
        .filter(|pid| *pid != own && uid.is_none_or(|uid| procfs::may_be_of(*pid, uid)) && called(*pid))
        .filter(|pid| uid.is_none_or(|uid| procfs::euid(*pid) == Some(uid)))
        .filter_map(HolderLine::of)
        .filter(|line| proven(place, line))
        .collect()
}

/// Whether the holder's own descriptors show the lock on every device that its command line names.
pub fn proven(place: &Place, line: &HolderLine) -> bool {
    let locks = fdinfo::settled_locks(&line.pid.to_string());
    line.devices.iter().all(|device| !within(&locks, place, Span::of(device).reservation()).is_empty())
}

/// The units of a device that the holder's own descriptors show.
pub fn reserved_units(place: &Place, line: &HolderLine, device: &Uuid) -> Units {
    within(&fdinfo::settled_locks(&line.pid.to_string()), place, Span::of(device).reservation())
}

/// Whether the holder shows that its programs are over and it waits for the caller's next one.
pub fn lingering(place: &Place, line: &HolderLine) -> bool {
    let locks = fdinfo::settled_locks(&line.pid.to_string());
    let shown = |device| !fdinfo::within(&locks, place.identity.1, Span::of(device).lingering()).is_empty();
    line.devices.iter().all(shown)
}

/// The units of a device on which descriptors of ours hold a lease: before we lease anything, those that we inherited.
fn inherited_lease(place: &Place, span: Span) -> Units {
    within(&fdinfo::settled_locks("self"), place, span.lease())
}

/// The units of a device on which ancestors of our uid hold a lease.
fn ancestor_lease(place: &Place, span: Span) -> Units {
    let uid = nix::unistd::geteuid().as_raw();
    let own = ancestry::ancestors(std::process::id() as i32, 64);
    let own = own.iter().filter(|stat| procfs::euid(stat.pid) == Some(uid));
    own.fold(Units::default(), |units, stat| {
        units.and(&within(&fdinfo::settled_locks(&stat.pid.to_string()), place, span.lease()))
    })
}

/// By what it is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Descriptors that we have ourselves.
    Inheritance,
    /// A lease of an ancestor.
    Ancestor,
    /// A reservation of our uid.
    Reservation,
}

/// What is ours already, and how much of each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The devices of the grant, each with the units that are ours.
    pub devices: Vec<(Uuid, Units)>,
    /// By a reservation of our uid; else by an ancestor's lease.
    pub reserved: bool,
    by: By,
}

impl Cover {
    /// What covers every device of `grant`: leases that we inherited or that ancestors have, else a reservation of our uid that names them
    /// all: of several the one for us or for our nearest ancestor (ranks that share a device have one each), then the smallest.
    pub fn of(place: &Place, grant: &[Uuid]) -> Option<Self> {
        [By::Inheritance, By::Ancestor, By::Reservation].into_iter().find_map(|by| Self::by(place, grant, by))
    }

    fn by(place: &Place, grant: &[Uuid], by: By) -> Option<Self> {
        let with = |units: &dyn Fn(&Uuid) -> Units| -> Option<Vec<(Uuid, Units)>> {
            let each = grant.iter().map(|uuid| (uuid.clone(), units(uuid)));
            each.map(|(uuid, units)| (!units.is_empty()).then_some((uuid, units))).collect()
        };
        let devices = match by {
            By::Inheritance => with(&|uuid| inherited_lease(place, Span::of(uuid)))?,
            By::Ancestor => with(&|uuid| ancestor_lease(place, Span::of(uuid)))?,
            By::Reservation => {
                let mut lines = reservations(place, Some(nix::unistd::geteuid().as_raw()));
                lines.retain(|line| grant.iter().all(|uuid| line.devices.contains(uuid)));
                let own = std::process::id() as i32;
                let lineage: Vec<i32> =
                    std::iter::once(own).chain(ancestry::ancestors(own, 64).iter().map(|stat| stat.pid)).collect();
                let line = lines.into_iter().min_by_key(|line| (line.generations_up(&lineage), line.devices.len()))?;
                with(&|uuid| reserved_units(place, &line, uuid))?
            }
        };
        Some(Self { devices, reserved: by == By::Reservation, by })
    }

    /// Whether it is ours still, after something of it was settled: then nobody else can have got it in between.
    pub fn holds(&self, place: &Place) -> bool {
        let grant: Vec<Uuid> = self.devices.iter().map(|(uuid, _)| uuid.clone()).collect();
        self.by == By::Inheritance || Self::by(place, &grant, self.by).is_some()
    }

    /// Our units of a device.
    pub fn units(&self, uuid: &Uuid) -> Option<&Units> {
        self.devices.iter().find(|(known, _)| known == uuid).map(|(_, units)| units)
    }
}

fn within(locks: &[fdinfo::OwnLock], place: &Place, region: Range) -> Units {
    Units::of(fdinfo::within(locks, place.identity.1, region), region)
}

#[cfg(test)]
mod tests {
    use super::HolderLine;

    #[test]
    fn a_holders_command_line_says_what_it_is() {
        let uuid = "MIG-0d1e2f30-1111-5222-8333-444455556666";
        let bytes =
            format!("getgpu\0--holder\0{uuid}\0caller=4711(my (odd) shell)\0start=99\0for=60\0hold=4712(sh (2))\0");
        let line = HolderLine::parse(7, bytes.as_bytes()).unwrap();
        assert_eq!(
            (line.caller.clone(), line.caller_start, line.hold),
            ((4711, "my (odd) shell".into()), 99, Some(4712))
        );
        assert_eq!(
            [&[4712, 4711, 1][..], &[5, 4711], &[5, 1]].map(|pids| line.generations_up(pids)),
            [0, 1, usize::MAX]
        );
        assert_eq!(line.devices[0].as_str(), uuid);
        for bad in ["", "getgpu\0--holder", "getgpu\0--holder\0x\0", "sleep\x001\0"] {
            assert_eq!(HolderLine::parse(7, bad.as_bytes()), None, "{bad}");
        }
    }
}
