//! Which file systems other nodes mount too: there, a link to a cudawrap that only this
//! node has loses the program. The numbers are those of statfs(2) (linux/magic.h, and the
//! out-of-tree systems' own headers).

/// The name of the network file system with this magic number.
pub fn network(magic: u64) -> Option<&'static str> {
    let name = match magic & 0xffff_ffff {
        0x6969 => "NFS",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x00c3_6400 => "CephFS",
        0x5346_414f | 0x6b41_4653 => "AFS",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn local_file_systems_are_not_network_ones() {
        assert_eq!(network(0x6969), Some("NFS"));
        // Sign-extended, as some C libraries hand it out.
        assert_eq!(network(0xffff_ffff_5346_414f), Some("AFS"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network(local), None);
        }
    }
}
