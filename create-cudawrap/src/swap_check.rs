//! What an exchange of two names has really done, told from what was there before and
//! after. Pure, since nobody can be made to rename at just that moment in a test: a
//! package manager does not know our lock.

use crate::inspect::Entry;
use crate::names::Place::{self, App, Tmp};

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As planned, or with a newer program than the one seen, which is as good.
    Fine,
    /// The two names have to change places again: what came where must not be there.
    Back,
    /// A newer program lies at the path itself already: it stays.
    Leave,
}

/// Judges the exchange of `a` and `b`.
pub fn verdict(a: Place, b: Place, was: (&Entry, &Entry), is: (&Entry, &Entry)) -> Verdict {
    if is.0.id == was.1.id && is.1.id == was.0.id {
        return Verdict::Fine;
    }
    // Where both were links of ours, the new one is the one that was not at the path.
    let b_was_link = was.1.is_ours() && (b != App || !was.0.is_ours());
    let (link, link_from, arrived, other) = if b_was_link {
        (was.1, b, is.0, is.1)
    } else {
        (was.0, a, is.1, is.0)
    };
    // What comes to the temporary name is removed later: there it must be exactly the
    // file that was seen.
    if arrived.id == link.id && link_from != Tmp && other.is_program() && other.runs {
        return Verdict::Fine;
    }
    let unknown = |entry: &Entry| entry.id != was.0.id && entry.id != was.1.id;
    let at_path = [(a, is.0), (b, is.1)]
        .into_iter()
        .find(|(place, _)| *place == App);
    if at_path.is_some_and(|(_, entry)| unknown(entry)) {
        Verdict::Leave
    } else {
        Verdict::Back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Id;
    use crate::inspect::{Kind, Leads};
    use crate::names::Place::Hidden;

    fn entry(kind: Kind, ino: u64) -> Entry {
        Entry {
            kind,
            id: Some(Id { dev: 1, ino }),
            runs: true,
            ..Entry::ABSENT
        }
    }

    #[test]
    fn the_newest_program_ends_at_the_path_or_behind_the_link() {
        let link = entry(Kind::Link(Leads::Cudawrap), 1);
        let old_link = entry(Kind::Link(Leads::Vanished), 2);
        let (old, new) = (entry(Kind::File, 3), entry(Kind::File, 4));
        let gone = Entry::ABSENT;
        let rows = [
            // Wrap: as planned; upgraded before the exchange; after it; somebody else
            // wrapped; the path removed after it.
            (App, Hidden, (&old, &link), (&link, &old), Verdict::Fine),
            (App, Hidden, (&old, &link), (&link, &new), Verdict::Fine),
            (App, Hidden, (&old, &link), (&new, &old), Verdict::Leave),
            (App, Hidden, (&old, &link), (&old, &link), Verdict::Back),
            (App, Hidden, (&old, &link), (&link, &gone), Verdict::Back),
            // Undo: as planned; upgraded before the exchange; after it; the diverted name
            // upgraded before; after it.
            (App, Hidden, (&link, &old), (&old, &link), Verdict::Fine),
            (App, Hidden, (&link, &old), (&old, &new), Verdict::Back),
            (App, Hidden, (&link, &old), (&new, &link), Verdict::Fine),
            // A new link in the path's place: as planned; upgraded before the exchange;
            // after it.
            (
                Tmp,
                App,
                (&link, &old_link),
                (&old_link, &link),
                Verdict::Fine,
            ),
            (Tmp, App, (&link, &old_link), (&new, &link), Verdict::Back),
            (
                Tmp,
                App,
                (&link, &old_link),
                (&old_link, &new),
                Verdict::Leave,
            ),
            // A program from the temporary name in a link's place, and upgraded after it.
            (Tmp, App, (&old, &link), (&link, &new), Verdict::Fine),
            // The superseded program out of the way: as planned; another one than was
            // seen.
            (Tmp, Hidden, (&link, &old), (&old, &link), Verdict::Fine),
            (Tmp, Hidden, (&link, &old), (&new, &link), Verdict::Back),
        ];
        for (number, (a, b, was, is, expected)) in rows.into_iter().enumerate() {
            assert_eq!(verdict(a, b, was, is), expected, "row {number}");
        }
    }
}
