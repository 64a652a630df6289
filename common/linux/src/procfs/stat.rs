//! /proc/PID/stat: parent, start, state and the place of the arguments, which tells a
//! fork from an exec. Parsing is pure; the name may hold blanks and parentheses, so
//! fields are counted from the last `)`.

/// PF_KTHREAD of linux/sched.h: a kernel thread.
const PF_KTHREAD: u64 = 0x0020_0000;
/// PF_EXITING of linux/sched.h: it ends, and soon has no memory.
const PF_EXITING: u64 = 0x0000_0004;
/// PF_FORKNOEXEC of linux/sched.h: forked, and not executed anything since.
const PF_FORKNOEXEC: u64 = 0x0000_0040;

/// The fields of /proc/PID/stat that are used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process id.
    pub pid: i32,
    /// Name, at most 15 bytes.
    pub comm: String,
    /// State letter: R, S, D, Z, ...
    pub state: char,
    /// Parent.
    pub ppid: i32,
    /// Device number of its controlling terminal (field 7); 0 without one.
    pub terminal: u32,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Whether it was forked and has not executed a program since.
    pub forked: bool,
    /// Whether its first thread is ending, or has ended.
    pub exiting: bool,
    /// How many threads it has (field 20). One whose first thread has ended shows the
    /// state Z, and lives as long as the others.
    pub threads: u32,
    /// Start after boot, in clock ticks (field 22).
    pub start: u64,
    /// Address of the arguments (field 48): the same in a process and its forks, another
    /// after exec; 0 if it may not be read.
    pub arg_start: u64,
}

impl Stat {
    /// Reads the stat of `pid`; `None` if it is gone or hidden.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&super::file::whole(&format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads the text of a stat file.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let open = bytes.iter().position(|b| *b == b'(')?;
        let close = bytes.iter().rposition(|b| *b == b')')?;
        let pid = std::str::from_utf8(bytes.get(..open)?)
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let comm = String::from_utf8_lossy(bytes.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field behind the name is field 3 of proc(5).
        let field = |number: usize| fields.get(number - 3).copied();
        let flags: u64 = field(9)?.parse().ok()?;
        Some(Self {
            pid,
            comm,
            state: field(3)?.chars().next()?,
            ppid: field(4)?.parse().ok()?,
            terminal: field(7).and_then(|f| f.parse().ok()).unwrap_or(0),
            kernel: flags & PF_KTHREAD != 0,
            forked: flags & PF_FORKNOEXEC != 0,
            exiting: flags & PF_EXITING != 0,
            threads: field(20).and_then(|f| f.parse().ok()).unwrap_or(1),
            start: field(22)?.parse().ok()?,
            arg_start: field(48).and_then(|f| f.parse().ok()).unwrap_or(0),
        })
    }

    /// Whether the process `pid` that began at `start` still runs.
    pub fn runs(pid: i32, start: u64) -> bool {
        Self::read(pid).is_some_and(|stat| stat.start == start && stat.alive())
    }

    /// Whether it runs: neither a zombie nor gone.
    pub fn alive(&self) -> bool {
        match self.state {
            'X' | 'x' => false,
            'Z' => self.threads > 1,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose first thread has ended goes on with the others, and shows as a zombie.
    #[test]
    fn what_runs_is_told_by_its_state_and_its_threads() {
        let stat = |state: char, threads: u32| {
            let between = " 0".repeat(16);
            let text = format!("1 (app) {state}{between} {threads} 0 77");
            Stat::parse(text.as_bytes()).unwrap()
        };
        for (state, threads, expected) in [
            ('R', 1, true),
            ('D', 1, true),
            ('T', 1, true),
            ('Z', 1, false),
            ('Z', 2, true),
            ('X', 2, false),
        ] {
            let found = stat(state, threads);
            assert_eq!((found.threads, found.start), (threads, 77));
            assert_eq!(found.alive(), expected, "{state} {threads}");
        }
    }
}
