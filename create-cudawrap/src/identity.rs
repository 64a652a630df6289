//! Which file it is, by device and inode: names move in this program, files do not.

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    pub dev: u64,
    /// Inode.
    pub ino: u64,
}

/// The identity in a stat.
pub fn id(stat: &rustix::fs::Stat) -> Id {
    Id {
        dev: stat.st_dev,
        ino: stat.st_ino,
    }
}
