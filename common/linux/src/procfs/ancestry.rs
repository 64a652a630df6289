//! Who called: the chain of parents, and the nearest of them that was started by exec.
//! Forks of a shell for `$( )`, pipes and functions count as that shell: they have executed
//! nothing since, and share its argument pages.

use super::Stat;

/// The parents of `pid`, nearest first, at most `most` of them.
pub fn ancestors(pid: i32, most: usize) -> Vec<Stat> {
    let mut chain = Vec::new();
    let mut next = Stat::read(pid).map_or(0, |stat| stat.ppid);
    while next > 0 && chain.len() < most {
        let Some(stat) = Stat::read(next) else { break };
        next = stat.ppid;
        chain.push(stat);
    }
    chain
}

/// This process and its ancestors, as pid and start, nearest first.
pub fn lineage() -> Vec<(i32, u64)> {
    let own = std::process::id() as i32;
    Stat::read(own)
        .into_iter()
        .chain(ancestors(own, 64))
        .map(|stat| (stat.pid, stat.start))
        .collect()
}

/// The caller among `ancestors`: the nearest that is not a mere fork of its own parent.
pub fn caller(ancestors: &[Stat]) -> Option<&Stat> {
    let mut chain = ancestors.iter();
    let mut caller = chain.next()?;
    for parent in chain {
        // Programs that were executed may have their arguments at one address, too, where
        // addresses are not randomised (personality(2)). 0 means that it may not be read:
        // then nothing says that it is a fork of this parent.
        if !caller.forked || caller.arg_start == 0 || caller.arg_start != parent.arg_start {
            break;
        }
        caller = parent;
    }
    Some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, arg_start: u64, forked: bool) -> Stat {
        Stat {
            arg_start,
            forked,
            ..Stat::parse(format!("{pid} (sh) S{}", " 0".repeat(19)).as_bytes()).unwrap()
        }
    }

    #[test]
    fn forks_count_as_the_shell_they_came_from() {
        #[rustfmt::skip]
        let chain = [
            stat(30, 7, true), stat(20, 7, true), stat(10, 7, false), stat(5, 9, true),
            stat(1, 9, false),
        ];
        let of = |chain: &[Stat]| caller(chain).map(|stat| stat.pid);
        assert_eq!(
            [of(&chain), of(&chain[3..]), of(&[])],
            [Some(10), Some(1), None]
        );
        // Unreadable: no fork is assumed; two programs; a fork that another has adopted.
        for (own, parent) in [
            (stat(3, 0, true), stat(2, 0, false)),
            (stat(3, 7, false), stat(2, 7, false)),
            (stat(3, 7, true), stat(1, 9, false)),
        ] {
            assert_eq!(of(&[own, parent]), Some(3));
        }
    }
}
