//! The programs that the caller has started, by `stat` alone, which is cheap enough to be
//! read several times in a millisecond: a program that exits within one, such as
//! printenv, would otherwise never be seen, and its device would stay reserved.

use getgpu_linux::Stat;

use super::proc_scanner::children;

/// With more processes than this a snapshot takes too long.
const MOST: usize = 16;

/// The caller and the programs below it that only forks of a shell lie between, each with
/// the address of its arguments, which another program has elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot(Vec<(i32, u64)>);

impl Snapshot {
    /// Of a caller; none if it has exited, or has too many processes.
    pub fn of(caller: i32) -> Option<Self> {
        let own = Stat::read(caller).filter(Stat::alive)?;
        let (mut programs, mut todo) = (vec![(own.pid, own.arg_start)], children(caller));
        let mut left = MOST;
        while let Some(pid) = todo.pop() {
            left = left.checked_sub(1)?;
            match Stat::read(pid) {
                // It has not executed its program yet, or is a subshell.
                Some(stat) if stat.forked => todo.extend(children(pid)),
                Some(stat) => programs.push((stat.pid, stat.arg_start)),
                None => {}
            }
        }
        Some(Self(programs))
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
    fn real_programs_are_seen() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::Stdio;
        let mut shell = std::process::Command::new("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id() as i32;
        let mut keys = shell.stdin.take().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        // The shell says "done" only as a program that has started, and after what it was told.
        let mut tell = |line: &str| {
            keys.write_all(format!("{line}\necho done\n").as_bytes())
                .unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "done");
        };
        tell("");
        let before = Snapshot::of(pid).unwrap();
        for (start, end) in [
            ("sleep 1000 &", "kill $!; wait"),
            ("(sleep 1000; :) &", "pkill -P $!; wait"),
        ] {
            tell(start);
            while !Snapshot::of(pid).unwrap().shows_more_than(&before) {
                std::thread::yield_now();
            }
            tell(end);
            assert!(!Snapshot::of(pid).unwrap().shows_more_than(&before));
        }
        drop(keys);
        shell.wait().unwrap();
        assert_eq!(Snapshot::of(pid), None);
    }
}
