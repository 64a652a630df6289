//! Whether an AppArmor profile is attached to a program by its path: under another name
//! it would not apply any more. The kernel's lists are readable by root only; an ordinary
//! user can wrap no file that matters to a profile of root's.

use std::path::Path;

const ROOT: &str = "/sys/kernel/security/apparmor";

/// The name of the profile attached to `path`.
pub fn profile(path: &Path) -> Option<String> {
    profile_under(Path::new(ROOT), path)
}

fn profile_under(root: &Path, path: &Path) -> Option<String> {
    let path = path.to_str()?;
    let list = std::fs::read_to_string(root.join("profiles")).unwrap_or_default();
    named(&list, path).or_else(|| attached(&root.join("policy/profiles"), path))
}

/// A profile whose name is the path itself; a line is `NAME (MODE)`.
fn named(list: &str, path: &str) -> Option<String> {
    let mut names = list
        .lines()
        .filter_map(|line| line.rsplit_once(" (").map(|(name, _)| name));
    names.find(|name| *name == path).map(str::to_owned)
}

/// A profile with a name of its own and the path as its attachment.
fn attached(profiles: &Path, path: &str) -> Option<String> {
    let entries = std::fs::read_dir(profiles).ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        let attach = std::fs::read_to_string(entry.path().join("attach")).ok()?;
        let matches = alternatives(attach.trim_end())
            .iter()
            .any(|pattern| matches(pattern.as_bytes(), path.as_bytes()));
        matches.then(|| {
            std::fs::read_to_string(entry.path().join("name"))
                .ok()
                .map(|name| name.trim_end().to_owned())
        })?
    })
}

/// `/{usr/,}bin/x` as `/usr/bin/x` and `/bin/x`; at most 64 of them, which no real
/// profile comes near.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut open = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(pattern) = open.pop() {
        // The first closing brace belongs to the last opening one before it.
        let inner = pattern
            .find('}')
            .and_then(|end| pattern[..end].rfind('{').map(|start| (start, end)));
        match inner {
            Some((start, end)) if open.len() + done.len() < 64 => {
                let choices = pattern[start + 1..end].split(',');
                open.extend(
                    choices.map(|choice| {
                        format!("{}{choice}{}", &pattern[..start], &pattern[end + 1..])
                    }),
                );
            }
            _ => done.push(pattern),
        }
    }
    done
}

/// `*` and `?` stay within one part of the path, `**` does not.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| matches(rest, &path[at..])),
        [b'*', rest @ ..] => {
            let part = path.iter().position(|&b| b == b'/').unwrap_or(path.len());
            (0..=part).any(|at| matches(rest, &path[at..]))
        }
        [b'?', rest @ ..] => path.first().is_some_and(|&b| b != b'/') && matches(rest, &path[1..]),
        [first, rest @ ..] => path.first() == Some(first) && matches(rest, &path[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_by_its_name_or_its_attachment() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(
            root.path().join("profiles"),
            "/usr/bin/man (enforce)\nping (complain)\n",
        )
        .unwrap();
        let ping = root.path().join("policy/profiles/ping.7");
        std::fs::create_dir_all(&ping).unwrap();
        std::fs::write(ping.join("name"), "ping\n").unwrap();
        std::fs::write(ping.join("attach"), "/{usr/,}bin/{,iputils-}ping\n").unwrap();
        let find = |path: &str| profile_under(root.path(), Path::new(path));
        assert_eq!(find("/usr/bin/man").as_deref(), Some("/usr/bin/man"));
        assert_eq!(find("/bin/iputils-ping").as_deref(), Some("ping"));
        assert_eq!(find("/usr/bin/ping").as_deref(), Some("ping"));
        assert_eq!(find("/usr/bin/manx"), None);
        assert_eq!(find("/opt/ping"), None);
    }

    #[test]
    fn stars_stop_at_slashes() {
        assert!(matches(b"/opt/*/bin/a?", b"/opt/x/bin/ab"));
        assert!(!matches(b"/opt/*/bin/a?", b"/opt/x/y/bin/ab"));
        assert!(matches(b"/opt/**/ab", b"/opt/x/y/ab"));
        assert!(!matches(b"/opt/a", b"/opt/"));
    }
}
