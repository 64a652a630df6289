//! Watching the caller closely for the first moments after printing: a program that is
//! over in a millisecond, such as printenv, would else never be seen, and its device stay
//! reserved for a program to come. Only `stat` of the caller and its children is read.

use std::time::Duration;

use getgpu_common::procfs::Stat;

use super::proc_scanner::children;

/// How long it is watched so: until the shell has started the program, with a look or two
/// at the program.
pub const CLOSELY: Duration = Duration::from_millis(10);
/// Between two glances.
pub const BETWEEN: Duration = Duration::from_micros(100);
/// With more children than this a glance is no glance.
const MOST: usize = 16;

/// The caller and its children, each with the address of its arguments, which another
/// program has elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot(Vec<(i32, u64)>);

impl Snapshot {
    /// Of a caller; none if it has exited, or has too many children.
    pub fn of(caller: i32) -> Option<Self> {
        let own = Stat::read(caller).filter(Stat::alive)?;
        let children = children(caller);
        let seen = (children.len() <= MOST).then(|| children.into_iter().filter_map(Stat::read));
        Some(Self(
            std::iter::once(own)
                .chain(seen?)
                .map(|stat| (stat.pid, stat.arg_start))
                .collect(),
        ))
    }

    /// Whether there is a program that was not there before.
    pub fn shows_more_than(&self, before: &Self) -> bool {
        self.0.iter().any(|seen| !before.0.contains(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshot;

    #[test]
    fn a_child_and_an_exec_are_seen_and_an_end_is_not() {
        let before = Snapshot(vec![(10, 7), (11, 7), (12, 8)]);
        for (now, more) in [
            (vec![(10, 7), (12, 8)], false),
            (vec![(10, 7), (11, 7), (12, 8), (13, 7)], true),
            (vec![(10, 7), (11, 9), (12, 8)], true),
            (vec![(10, 9)], true),
        ] {
            assert_eq!(
                Snapshot(now.clone()).shows_more_than(&before),
                more,
                "{now:?}"
            );
        }
    }

    #[test]
    fn a_real_child_is_seen() {
        let own = std::process::id() as i32;
        let before = Snapshot::of(own).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        assert!(Snapshot::of(own).unwrap().shows_more_than(&before));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!Snapshot::of(own).unwrap().shows_more_than(&before));
        assert_eq!(Snapshot::of(child.id() as i32), None);
    }
}
