//! Whether an AppArmor profile names a program by its path: under another name that profile
//! would not apply. A plain search of the files in /etc/apparmor.d; patterns are not expanded.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const PROFILES: &str = "/etc/apparmor.d";

/// The first file with a profile or rule that names `path`.
pub fn profile(path: &Path) -> Option<PathBuf> {
    profile_in(Path::new(PROFILES), path)
}

fn profile_in(profiles: &Path, path: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(profiles)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    files
        .into_iter()
        .find(|file| std::fs::read(file).is_ok_and(|text| names(&text, path)))
}

/// Whether the path stands in the text, on a line that is no comment.
fn names(text: &[u8], path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii_start().starts_with(b"#"))
        .any(|line| {
            line.split(|byte: &u8| byte.is_ascii_whitespace() || b",{}()\"'".contains(byte))
                .any(|word| word == path)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_by_the_path_in_it() {
        let root = tempfile::tempdir().unwrap();
        let text = "# /opt/comment\nprofile man /usr/bin/man {\n  /usr/bin/less rix,\n}\n";
        std::fs::write(root.path().join("usr.bin.man"), text).unwrap();
        std::fs::create_dir(root.path().join("abstractions")).unwrap();
        let find = |path: &str| profile_in(root.path(), Path::new(path)).is_some();
        assert!(find("/usr/bin/man") && find("/usr/bin/less"));
        assert!(!find("/usr/bin/ma") && !find("/bin/man") && !find("/opt/comment"));
        assert_eq!(profile_in(Path::new("/nowhere"), Path::new("/x")), None);
    }
}
