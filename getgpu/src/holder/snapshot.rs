//! The caller and its children at one moment, by `stat` alone, which is cheap enough to be
//! read every half millisecond: a program that exits within a millisecond, such as
//! printenv, would otherwise never be seen, and its device would stay reserved.

use getgpu_common::procfs::Stat;

use super::proc_scanner::children;

/// With more children than this a snapshot takes too long.
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

    /// Of a process of its own, since other tests may start children of this one.
    #[test]
    fn a_real_child_is_seen() {
        use std::io::Write;
        let mut shell = std::process::Command::new("sh")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id() as i32;
        let began = std::time::Instant::now();
        let until = |holds: &dyn Fn(&Snapshot) -> bool| {
            while !Snapshot::of(pid).is_some_and(|now| holds(&now)) {
                assert!(began.elapsed().as_secs() < 60);
                std::thread::yield_now();
            }
        };
        let comm = format!("/proc/{pid}/comm");
        until(&|_| std::fs::read_to_string(&comm).is_ok_and(|name| name == "sh\n"));
        let before = Snapshot::of(pid).unwrap();
        let mut keys = shell.stdin.take().unwrap();
        keys.write_all(b"sleep 100 &\n").unwrap();
        until(&|now| now.shows_more_than(&before));
        keys.write_all(b"kill $!; wait\n").unwrap();
        until(&|now| !now.shows_more_than(&before));
        drop(keys);
        shell.wait().unwrap();
        assert_eq!(Snapshot::of(pid), None);
    }
}
