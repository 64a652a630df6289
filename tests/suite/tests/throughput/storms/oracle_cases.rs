//! What the oracle finds wrong, as a table of cases: else it could see nothing, and each storm would
//! pass.

use std::collections::BTreeSet;

use sim_node::Run;

use crate::storms::oracle::{Notes, Oracle};
use crate::storms::tree::{Branch, Tree, Way, Wish};

/// What starts a branch, how it has its device, and of which it asks for 1/part.
type Sketch = (Option<usize>, Way, i64);

/// The last two of these branches run at one time, and the reservation of the first has been ended
/// or not: whether that is a fault.
#[test]
fn two_programs_share_what_one_of_them_was_given() {
    use Way::{Hold, Lease, Link, Plain, Reserve};
    #[rustfmt::skip]
    let cases: [(&[Sketch], bool, bool); 12] = [
        (&[(None, Lease, 1), (None, Lease, 1)], false, true),
        (&[(None, Lease, 2), (None, Reserve, 2)], false, false),
        (&[(None, Lease, 2), (None, Lease, 1)], false, true),
        (&[(None, Hold, 1), (Some(0), Plain, 1), (Some(0), Lease, 1)], false, false),
        (&[(None, Hold, 1), (Some(0), Lease, 1), (Some(0), Lease, 1)], false, true),
        (&[(None, Hold, 1), (Some(0), Lease, 1), (Some(0), Link, 1)], false, false),
        (&[(None, Hold, 3), (Some(0), Lease, 2), (Some(0), Lease, 2)], false, false),
        (&[(None, Lease, 1), (Some(0), Lease, 1), (Some(0), Lease, 2)], false, false),
        (&[(None, Hold, 1), (Some(0), Plain, 1), (None, Lease, 1)], false, true),
        (&[(None, Hold, 1), (Some(0), Plain, 1), (None, Lease, 1)], true, false),
        (&[(None, Hold, 1), (Some(0), Lease, 2), (None, Lease, 2)], true, false),
        (&[(None, Hold, 1), (Some(0), Lease, 1), (None, Lease, 2)], true, true),
    ];
    for (branches, is_ended, is_fault) in cases {
        let mut tree = Tree::grow(1, false, false);
        let model = tree.branches[0].clone();
        let branch = |(parent, way, part): &Sketch| {
            let wish = Wish {
                part: *part,
                ..Wish::ONE
            };
            Branch {
                parent: *parent,
                way: *way,
                wish,
                ..model.clone()
            }
        };
        tree.branches = branches.iter().map(branch).collect();
        let mut notes = Notes::default();
        notes.has.insert(0, vec!["GPU-1".to_owned()]);
        notes.ended.extend(is_ended.then_some((0, 5)));
        let last = branches.len() - 1;
        let run = |(start, leaf): (u64, usize)| Run {
            uuid: "GPU-1".to_owned(),
            pid: 1,
            tag: leaf.to_string(),
            start,
            end: Some(30),
        };
        let runs = [(10, last - 1), (20, last)].map(run);
        let oracle = Oracle {
            tree: &tree,
            notes: &notes,
            runs: &runs,
            filtered: &|_| BTreeSet::new(),
        };
        assert_eq!(
            !oracle.faults().is_empty(),
            is_fault,
            "{branches:?}, ended: {is_ended}"
        );
    }
}
