//! Which process becomes the task that a TaskProlog runs for: the child of slurmstepd
//! above it. It need not be the parent, since a site's own TaskProlog may call this one.

use getgpu_linux::procfs::ancestry;

/// How many ancestors are looked at.
const MOST: usize = 64;

/// The process of the future task; where there is no slurmstepd, the parent.
pub fn find() -> i32 {
    let above = ancestry::ancestors(std::process::id() as i32, MOST);
    let names: Vec<&str> = above.iter().map(|stat| stat.comm.as_str()).collect();
    place(&names).map_or_else(|| nix::unistd::getppid().as_raw(), |place| above[place].pid)
}

/// Of the names of ancestors, the nearest first, the place of the task. Before it executes
/// its program it is called as slurmstepd, whose child it is.
fn place(names: &[&str]) -> Option<usize> {
    let first = names.iter().position(|name| *name == "slurmstepd")?;
    let daemons = names[first..]
        .iter()
        .take_while(|name| **name == "slurmstepd");
    (first + daemons.count()).checked_sub(2)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn the_task_is_the_child_of_slurmstepd() {
        for (names, expected) in [
            (&["slurmstepd", "slurmstepd", "slurmd"][..], Some(0)),
            (&["sh", "slurmstepd", "slurmstepd", "systemd"], Some(1)),
            (&["sh", "task", "slurmstepd", "systemd"], Some(1)),
            (&["bash", "sshd"], None),
            (&["slurmstepd"], None),
        ] {
            assert_eq!(place(names), expected, "{names:?}");
        }
    }
}
