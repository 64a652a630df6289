//! Agents and servers that run on beside everything else and never use CUDA: they inherit
//! CUDA_VISIBLE_DEVICES from the program that started them first, and would keep its device for
//! ever. What they start counts by itself.

use getgpu_linux::{Stat, procfs};
use getgpu_settings::matches;

/// Which file is executed, and what the process is called: both have to fit, since any program can
/// give itself a name. `*` stands for any text, at one end or at both; a file with `/` in it is
/// compared as a path.
#[rustfmt::skip]
const PROGRAMS: [(&str, &str); 31] = [
    // These keep keys or passwords until the session ends.
    ("ssh-agent", "ssh-agent"), ("gpg-agent", "gpg-agent"), ("scdaemon", "scdaemon"),
    ("keyboxd", "keyboxd"), ("dirmngr", "dirmngr"), ("gnome-keyring-d*", "gnome-keyring-d"),
    ("kwalletd*", "kwalletd*"),
    // These pass messages between programs of a desktop, and start some of them.
    ("dbus-daemon", "dbus-daemon"), ("dbus-broker*", "dbus-broker*"), ("at-spi*", "at-spi*"),
    // Helpers of desktops, started by the first program that asks for one.
    ("dconf-service", "dconf-service"), ("gvfs*", "gvfs*"), ("xdg-*", "xdg-*"), ("goa-*", "goa-*"),
    ("tracker-*", "tracker-*"),
    // Sound servers, started by the first program that plays a sound.
    ("pulseaudio", "pulseaudio"), ("pipewire*", "pipewire*"), ("wireplumber", "wireplumber"),
    // These have terminals, whose shells count by themselves.
    ("tmux*", "tmux*"), ("screen*", "screen*"), ("zellij", "zellij"), ("mosh-server", "mosh-server"),
    ("dtach", "dtach"), ("abduco", "abduco"),
    // Servers of editors, whose terminals and kernels count by themselves.
    ("emacs*", "emacs*"), ("*/.vscode-server/*", "*"), ("*/.cursor-server/*", "*"), ("*/code-server/*", "*"),
    // These watch files or remember passwords for other programs.
    ("watchman", "watchman"), ("git*", "git-credential-*"), ("gitstatusd*", "gitstatusd*"),
];

/// Agents that let no process of their user read which file they execute.
const HIDDEN: [&str; 2] = ["ssh-agent", "gpg-agent"];

/// Whether a process is such a program, by the table or by the names that the site adds
/// (setting `background_programs`).
pub fn is_background(stat: &Stat, of_site: &[String]) -> bool {
    let rows = PROGRAMS.iter();
    let rows = rows.filter(|(_, name)| matches(name, &stat.comm));
    let of_site = of_site.iter().map(String::as_str);
    let of_site = of_site.filter(|entry| matches(&prefix(entry), &stat.comm));
    let mut files = rows.map(|(file, _)| *file).chain(of_site).peekable();
    // Only of what is called so is the file looked up.
    if files.peek().is_none() {
        return false;
    }
    let Some(path) = procfs::executable(&stat.pid.to_string()) else {
        return HIDDEN.contains(&stat.comm.as_str());
    };
    let path = path.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default();
    files.any(|pattern| {
        let whole = pattern.contains('/');
        matches(pattern, if whole { &path } else { name })
    })
}

/// What a program is called whose file has this name: the kernel keeps 15 bytes.
fn prefix(entry: &str) -> String {
    let name = entry.rsplit('/').next().unwrap_or_default();
    name.chars().take(15).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_its_stars_at_its_ends() {
        for (pattern, text, expected) in [
            ("tmux", "tmux", true),
            ("tmux", "tmux: server", false),
            ("tmux*", "tmux: server", true),
            (
                "*/.vscode-server/*",
                "/home/ana/.vscode-server/bin/1/node",
                true,
            ),
            ("*/.vscode-server/*", "/usr/bin/node", false),
            ("*.so", "a.so", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert_eq!(prefix("/opt/bin/a-name-of-20-letters"), "a-name-of-20-le");
    }

    /// A program that calls itself an agent, and is none, is a program.
    #[test]
    fn both_the_file_and_the_name_have_to_fit() {
        let directory = tempfile::tempdir().unwrap();
        let run = |file: &str, link: &str| {
            let (file, link) = (directory.path().join(file), directory.path().join(link));
            if !file.exists() {
                // By another process: a fork of another test would have it open for writing.
                let mut copy = std::process::Command::new("cp");
                assert!(
                    copy.args(["/bin/sleep".as_ref(), file.as_os_str()])
                        .status()
                        .unwrap()
                        .success()
                );
            }
            let _ = std::os::unix::fs::symlink(&file, &link);
            let mut child = std::process::Command::new(link).arg("60").spawn().unwrap();
            let found = [vec![], vec!["agentd".to_owned()]].map(|of_site| {
                let stat = Stat::read(child.id() as i32).unwrap();
                is_background(&stat, &of_site)
            });
            child.kill().unwrap();
            child.wait().unwrap();
            found
        };
        assert_eq!(run("dbus-daemon", "dbus-daemon"), [true, true]);
        assert_eq!(run("app", "ssh-agent"), [false, false]);
        assert_eq!(run("agentd", "agentd"), [false, true]);
        assert_eq!(run("screen", "app"), [false, false]);
    }
}
