//! Who may write by a POSIX access control list. Its form is that of the extended
//! attribute (linux/posix_acl_xattr.h): a version, then a tag, permissions and an id each.

use rustix::io::Errno;

use crate::directory::Directory;

const ATTRIBUTE: &str = "system.posix_acl_access";
const VERSION: [u8; 4] = [2, 0, 0, 0];
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const WRITE: u16 = 0x02;

/// Whether a list of the directory lets users or groups write that the mode does not name.
/// A list that cannot be understood may.
pub fn lets_others_write(dir: &Directory) -> bool {
    // Room for 500 entries.
    let mut list = [0u8; 4096];
    match rustix::fs::fgetxattr(dir.file(), ATTRIBUTE, &mut list) {
        Ok(length) => list.get(..length).is_none_or(others_write),
        Err(error) => error == Errno::RANGE,
    }
}

/// Whether an entry for a single user or group other than root allows it, within the mask.
fn others_write(list: &[u8]) -> bool {
    let Some((version, entries)) = list.split_at_checked(VERSION.len()) else {
        return true;
    };
    let entry = |bytes: &[u8; 8]| {
        let [a, b, c, d, id @ ..] = *bytes;
        let (tag, permissions) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        (tag, permissions, u32::from_le_bytes(id))
    };
    let (entries, rest) = entries.as_chunks::<8>();
    if version != VERSION || !rest.is_empty() {
        return true;
    }
    let mask = entries.iter().map(entry).find(|(tag, ..)| *tag == MASK);
    let mask = mask.map_or(WRITE, |(_, permissions, _)| permissions);
    entries.iter().map(entry).any(|(tag, permissions, id)| {
        matches!(tag, USER | GROUP) && id != 0 && permissions & mask & WRITE != 0
    })
}

#[cfg(test)]
mod tests {
    use super::others_write;

    const NONE: u32 = u32::MAX;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn entries_count_within_the_mask() {
        let with = |entry, mask| {
            others_write(&list(&[
                (0x01, 7, NONE),
                entry,
                (0x04, 7, NONE),
                (0x10, mask, NONE),
                (0x20, 5, NONE),
            ]))
        };
        assert!(with((0x02, 7, 1001), 7) && with((0x08, 2, 50), 7));
        assert!(!with((0x02, 7, 1001), 5), "the mask takes it away");
        assert!(!with((0x02, 5, 1001), 7) && !with((0x02, 7, 0), 7));
        assert!(!others_write(&list(&[(0x01, 7, NONE), (0x04, 7, NONE)])));
    }

    #[test]
    fn a_list_of_another_form_may_let_anybody() {
        for bad in [&[][..], &[2, 0, 0], &[3, 0, 0, 0], &[2, 0, 0, 0, 1]] {
            assert!(others_write(bad), "{bad:?}");
        }
    }
}
