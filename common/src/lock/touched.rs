//! Which of many devices have any lock at all, in few questions: the kernel walks past every
//! lock on the file to answer one (fs/locks.c), and on most nodes most devices are free.

use super::{LockResult, OfdLock, Range, Span};

/// What is locked of the node's devices.
#[derive(Debug, Default)]
pub struct Touched {
    /// Devices in which any process has locked a byte.
    pub spans: Vec<Span>,
    /// Whether anything is locked where no device of the node has its span.
    pub elsewhere: bool,
}

/// Looks for locks in `spans`, which are the node's, and beside them: one question if there
/// are none, two for each device that has some, and one more for what is locked beside them.
pub fn touched(probe: &OfdLock, spans: impl Iterator<Item = Span>) -> LockResult<Touched> {
    let mut sorted: Vec<Span> = spans.collect();
    sorted.sort_by_key(|span| span.all().start());
    sorted.dedup();
    let mut found = Touched::default();
    find_touched(
        &sorted,
        Span::FIRST,
        Span::END,
        &|range| Ok(probe.conflict(range)?.map(|conflict| conflict.range)),
        &mut found,
    )?;
    Ok(found)
}

/// Asks about everything from `start` to `end`, where these spans lie. Whatever is found
/// splits it into what is before and what is behind. Once a lock beside them is known only
/// the spans matter, so that many such locks cost no more than one.
fn find_touched(
    sorted: &[Span],
    start: i64,
    end: i64,
    ask: &dyn Fn(Range) -> LockResult<Option<Range>>,
    found: &mut Touched,
) -> LockResult<()> {
    let bounds = match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) if found.elsewhere => {
            Range::between(first.all().start(), last.all().end())
        }
        _ if found.elsewhere => None,
        _ => Range::between(start, end),
    };
    let Some(locked) = bounds.map(ask).transpose()?.flatten() else {
        return Ok(());
    };
    let before = sorted.partition_point(|span| span.all().end() <= locked.start());
    let (before, behind) = sorted.split_at(before);
    match behind.split_first() {
        Some((next, behind)) if next.all().start() < locked.end() => {
            found.spans.push(*next);
            find_touched(before, start, next.all().start(), ask, found)?;
            find_touched(behind, next.all().end(), end, ask, found)
        }
        _ => {
            found.elsewhere = true;
            find_touched(before, start, end, ask, found)?;
            find_touched(behind, start, end, ask, found)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::ident::Uuid;

    fn spans(count: usize) -> Vec<Span> {
        let uuid = |n| Uuid::parse(&format!("MIG-0d1e2f30-1111-5222-8333-{n:012x}")).unwrap();
        let mut spans: Vec<Span> = (0..count).map(|n| Span::of(&uuid(n))).collect();
        spans.sort_by_key(|span| span.all().start());
        spans
    }

    /// What is found where these ranges are locked, and with how many questions. As in the
    /// kernel, any one of those that meet a question answers it, cut to the question.
    fn search(spans: &[Span], locked: &[Range]) -> (Vec<Span>, usize) {
        let (asked, mut found) = (Cell::new(0), Touched::default());
        let ask = |range: Range| {
            asked.set(asked.get() + 1);
            let mut met = locked.iter().rev().filter_map(|l| l.intersection(range));
            Ok(met.next())
        };
        find_touched(spans, Span::FIRST, Span::END, &ask, &mut found).unwrap();
        found.spans.sort_by_key(|span| span.all().start());
        (found.spans, asked.get())
    }

    #[test]
    fn devices_without_a_lock_cost_one_question() {
        let spans = spans(56);
        assert_eq!(search(&spans, &[]), (vec![], 1));
        assert_eq!(search(&[], &[]), (vec![], 1));
        // Locks of the queue, below all devices.
        assert_eq!(search(&spans, &[Range::byte(1024)]), (vec![], 1));
    }

    #[test]
    fn each_device_with_a_lock_is_found() {
        let all = spans(56);
        for places in [&[0][..], &[55], &[0, 55], &[7, 8, 9, 30], &[20]] {
            let wanted: Vec<Span> = places.iter().map(|place| all[*place]).collect();
            let locked: Vec<Range> = wanted.iter().map(|span| span.lease()).collect();
            let (found, asked) = search(&all, &locked);
            assert_eq!(found, wanted);
            assert!(asked <= 2 * places.len() + 1, "{asked} for {places:?}");
        }
        let every: Vec<Range> = all
            .iter()
            .map(|span| Range::byte(span.lease_pids().start()))
            .collect();
        let (found, asked) = search(&all, &every);
        assert_eq!(found, all);
        assert!(asked <= 2 * all.len() + 1, "{asked}");
    }

    #[test]
    fn locks_between_devices_are_passed_by() {
        let all = spans(56);
        let between = |n: usize| Range::between(all[n].all().end(), all[n + 1].all().start());
        let mut strange: Vec<Range> = (0..55).filter_map(between).collect();
        let (found, asked) = search(&all, &strange);
        assert_eq!(found, []);
        assert!(asked <= 2 * strange.len() + 1, "{asked}");
        strange.push(all[30].reservation());
        assert_eq!(search(&all, &strange).0, [all[30]]);
        // One lock over many devices.
        let wide = Range::between(all[10].all().end(), all[20].lease().start() + 1).unwrap();
        assert_eq!(search(&all, &[wide]).0, all[11..=20]);
    }
}
