//! Where on the lock file each device's ranges lie. This layout never changes: programs
//! of different versions exclude each other only because they agree on every number here.
//!
//! The file's offsets are cut into 2^29 spans of 2^34 bytes. A device's span is chosen by
//! 29 bits of FNV-1a (64 bit, offset basis 0xcbf29ce484222325, prime 0x100000001b3) over
//! the bytes of its canonical UUID: the hash's low 29 bits xor its next 29 bits. Span 0
//! is for the queues of waiters; the last span stays unused, since a range that ends at
//! 2^63-1 is reported with length 0 (fcntl(2)). Hashes that would fall on either are
//! moved by one. Two devices that share a span exclude each other, which is safe.

use super::{Level, Side};
use getgpu_linux::Range;
use getgpu_model::{UNITS, Uuid};

/// Bytes of a span.
const SPAN: i64 = 1 << 34;
/// Spans in the file.
const SPANS: i64 = 1 << 29;

/// A run whose length is a number of this file.
const fn fixed(start: i64, len: i64) -> Range {
    match Range::new(start, len) {
        Some(range) => range,
        None => panic!("no region of the layout is empty"),
    }
}

/// The span of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(i64);

impl Span {
    /// The span that belongs to `uuid`.
    pub fn of(uuid: &Uuid) -> Self {
        let hash = fnv1a(uuid.as_str().as_bytes());
        let bits = ((hash ^ (hash >> 29)) & (SPANS as u64 - 1)) as i64;
        Self(bits.clamp(1, SPANS - 2) * SPAN)
    }

    const fn range(self, offset: i64, len: i64) -> Range {
        fixed(self.0 + offset, len)
    }

    /// The whole span.
    pub const fn all(self) -> Range {
        self.range(0, SPAN)
    }

    /// Locked by programs that run on the device.
    pub const fn lease(self) -> Range {
        self.range(0x0010_0000, UNITS)
    }

    /// Locked by holders for programs that have not started yet.
    pub const fn reservation(self) -> Range {
        self.range(0x0020_0000, UNITS)
    }

    /// Both, with the bytes between them: one question over it finds what is held and
    /// what is kept.
    pub const fn lease_and_reservation(self) -> Range {
        self.range(0x0010_0000, 0x0010_0000 + UNITS)
    }

    /// Read-locked by the waiter that the device is kept for (`kept`). It lies between
    /// lease and reservation, so that it costs a choice no question where nothing is kept.
    pub const fn kept(self) -> Range {
        self.range(0x001f_0000, 1)
    }

    /// Leases of those who choose fewer devices than the reservation around them names.
    pub const fn inner_lease(self) -> Range {
        self.range(0x0030_0000, UNITS)
    }

    /// Reservations of those who choose fewer devices than the reservation around them
    /// names.
    pub const fn inner_reservation(self) -> Range {
        self.range(0x0040_0000, UNITS)
    }

    /// Read-locked, beside its units of `reservation`, by a holder whose programs have
    /// exited: these units are free within the time that the site's `linger` sets.
    pub const fn lingering(self) -> Range {
        self.range(0x0060_0000, UNITS)
    }

    /// The same beside `inner_reservation`.
    pub const fn inner_lingering(self) -> Range {
        self.range(0x0070_0000, UNITS)
    }

    /// One byte per process id (up to 2^22, PID_MAX_LIMIT) of those who have a side.
    pub(crate) const fn pids(self, side: Side) -> Range {
        match side {
            Side::Lease => self.range(0x0100_0000, 1 << 22),
            Side::Reservation => self.range(0x0200_0000, 1 << 22),
        }
    }

    /// One byte per uid of the initial user namespace of those who have a side.
    pub const fn uids(self, side: Side) -> Range {
        match side {
            Side::Lease => self.range(0x1_0000_0000, 1 << 32),
            Side::Reservation => self.range(0x2_1000_0000, 1 << 32),
        }
    }

    /// The units that are locked for a claim.
    pub const fn of_side(self, side: Side, level: Level) -> Range {
        match (side, level) {
            (Side::Lease, Level::Outer) => self.lease(),
            (Side::Reservation, Level::Outer) => self.reservation(),
            (Side::Lease, Level::Inner { .. }) => self.inner_lease(),
            (Side::Reservation, Level::Inner { .. }) => self.inner_reservation(),
        }
    }
}

/// The first span has no device. Byte 0 is locked while a ticket is drawn, byte 16 while a call
/// chooses several devices or a part of one. From byte 1,024 on lie the tickets of the queues, one
/// queue after the other, and those of the waiters for which devices may be kept. Behind them lie
/// 2^24 bytes for tags, one for every process id that waits, and those of the keeper. The last quarter
/// has a byte for every uid.
pub const fn dispenser() -> Range {
    Range::byte(0)
}

/// Held by a call that chooses several devices at once, or a part of one, while it does.
pub const fn several() -> Range {
    Range::byte(16)
}

/// Queues of waiters: requests are spread over them by a hash.
pub const QUEUES: u32 = 3000;
/// Tickets of a queue. They are used again from the first one on whenever the queue is
/// empty.
const TICKETS: i64 = 1 << 22;

/// The tickets of a queue.
pub const fn ticket_range(queue: u32) -> Range {
    fixed(1024 + (queue % QUEUES) as i64 * TICKETS, TICKETS)
}

/// The tickets of all queues.
pub const fn all_tickets() -> Range {
    fixed(1024, QUEUES as i64 * TICKETS)
}

/// The tickets of all waiters for which devices may be kept, whatever their request: of those that
/// ask for several, and of those that ask for all of one that others share.
pub const fn line_for_several() -> Range {
    fixed(1024 + QUEUES as i64 * TICKETS, TICKETS)
}

/// A byte for the waiter that devices are kept for: that of its process id, or one of the
/// upper half where the ids of the host are not known.
pub const fn keeper() -> Range {
    fixed(0x2_f300_0000, 1 << 23)
}

/// Read-locked by that waiter from the start of this range: as many bytes as it wants devices.
pub const fn keeper_wants() -> Range {
    fixed(0x2_f400_0000, 1 << 16)
}

/// The same: as many bytes as it has devices already.
pub const fn keeper_has() -> Range {
    fixed(0x2_f500_0000, 1 << 16)
}

/// Held by a call of this uid that counts what its user holds already.
pub const fn uid(uid: u32) -> Range {
    Range::byte(3 * (SPAN / 4) + uid as i64)
}

/// Held by a call that looks whether a tag of this uid is in use, until it has reserved under it.
/// Tags share a byte by their hash, which only makes two calls wait for each other.
pub fn tag(uid: u32, name: &str) -> Range {
    Range::byte(0x2_f000_0000 + (fnv1a(format!("{uid}:{name}").as_bytes()) & 0xff_ffff) as i64)
}

/// One byte per process id of those who wait, for people: nothing is decided by it.
pub const fn waiter_pids() -> Range {
    fixed(0x2_f200_0000, 1 << 22)
}

/// All spans of devices: one question over it tells whether anything at all is held.
pub const fn all_devices() -> Range {
    fixed(SPAN, (SPANS - 2) * SPAN)
}

/// FNV-1a, 64 bit.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    fn regions(span: Span) -> [Range; 11] {
        [
            span.lease(), span.kept(), span.reservation(), span.inner_lease(), span.inner_reservation(),
            span.lingering(), span.inner_lingering(), span.pids(Side::Lease), span.pids(Side::Reservation),
            span.uids(Side::Lease), span.uids(Side::Reservation),
        ]
    }

    #[test]
    fn regions_are_apart_by_a_byte_and_inside_the_span() {
        let span = Span::of(&Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap());
        let mut end = span.0;
        for range in regions(span) {
            assert!(range.start() > end, "{range:?} touches the one before");
            end = range.end();
        }
        assert!(end < span.0 + SPAN);
        assert!(span.0 + SPAN < i64::MAX);
    }

    /// A version that computes other places would not exclude programs of older versions.
    #[test]
    fn the_layout_never_changes() {
        let of = |end| {
            let uuid = format!("MIG-0d1e2f30-1111-5222-8333-{end}");
            Span::of(&Uuid::parse(&uuid).unwrap()).0 / SPAN
        };
        // The hashes of the last two are the largest and zero.
        let spans = ["444455556666", "00000381e1fe", "00000bcfdd2a"].map(of);
        assert_eq!(spans, [235_819_117, (1 << 29) - 2, 1]);
        let published = 0xaf63_dc4c_8601_ec8c;
        assert_eq!(fnv1a(b"a"), published, "FNV-1a test value");
        #[rustfmt::skip]
        let starts = [
            0x10_0000, 0x1f_0000, 0x20_0000, 0x30_0000, 0x40_0000, 0x60_0000, 0x70_0000, 0x100_0000,
            0x200_0000, 0x1_0000_0000, 0x2_1000_0000,
        ];
        assert_eq!(regions(Span(0)).map(Range::start), starts);
        assert_eq!(UNITS, 720_720);
        let both = Span(0).lease_and_reservation();
        let (lease, reservation) = (Span(0).lease(), Span(0).reservation());
        assert_eq!(
            (both.start(), both.end()),
            (lease.start(), reservation.end())
        );
        let tags = [tag(1001, "train"), tag(0, "slurm-4711")].map(Range::start);
        assert_eq!(tags, [0x2_f06b_288f, 0x2_f062_070e]);
    }

    #[test]
    fn the_first_span_holds_the_queues_and_the_uids() {
        let (first, last) = (ticket_range(0), ticket_range(QUEUES - 1));
        assert!(several().start() > dispenser().end() && first.start() > several().end());
        let all = all_tickets();
        assert_eq!((first.start(), last.end()), (all.start(), all.end()));
        let starts = [first, ticket_range(1), uid(0)].map(Range::start);
        assert_eq!(starts, [1024, 1024 + 4_194_304, 12_884_901_888]);
        assert!(last.end() < uid(0).start() && uid(u32::MAX).end() == SPAN);
        let (tags, waiters) = (0x2_f000_0000 + 0x100_0000, waiter_pids());
        assert!(last.end() < 0x2_f000_0000 && tags < waiters.start());
        assert_eq!(waiters.start(), 0x2_f200_0000);
        let line = line_for_several();
        assert!(line.start() == last.end() && line.end() < 0x2_f000_0000);
        let kept = [keeper(), keeper_wants(), keeper_has()];
        assert_eq!(
            kept.map(Range::start),
            [0x2_f300_0000, 0x2_f400_0000, 0x2_f500_0000]
        );
        assert!(waiters.end() < keeper().start() && keeper().end() < keeper_wants().start());
        assert!(keeper_has().end() < uid(0).start());
    }

    #[test]
    fn everything_lies_between_the_queues_and_the_last_span() {
        let all = all_devices();
        assert_eq!((all.start(), all.end()), (SPAN, i64::MAX - SPAN + 1));
    }
}
