//! File systems to try things on: each made in memory and mounted as a sandbox's `app`,
//! for the calling thread alone. To be used inside [`harness::mounts::apart`], whose end
//! unmounts everything.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::skip::tool;

use super::inject::Start;
use super::{Sandbox, USER, said};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whatever the tests lie on: nothing is mounted.
    Here,
    Tmpfs,
    Ext4,
    Xfs,
    Btrfs,
    /// The files are in the lower layer only, on tmpfs; the upper one is on the same file
    /// system.
    Overlay,
    /// The same with the lower layer on ext4 and the upper one on tmpfs, as containers
    /// have it.
    TwoDisks,
}

impl Kind {
    /// Those that are mounted.
    #[rustfmt::skip]
    pub(crate) const ALL: [Self; 6] = [
        Self::Tmpfs, Self::Ext4, Self::Xfs, Self::Btrfs, Self::Overlay, Self::TwoDisks,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Overlay => "overlay",
            Self::TwoDisks => "overlay over ext4",
        }
    }

    /// Whether this machine can make it.
    pub(crate) fn there(self) -> bool {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let kernel = |name: &str| {
            let mut last = known.lines().map(|line| line.split_whitespace().last());
            last.any(|last| last == Some(name))
        };
        match self {
            Self::Here | Self::Tmpfs => true,
            Self::Overlay => kernel("overlay"),
            Self::TwoDisks => Self::Overlay.there() && Self::Ext4.there(),
            Self::Ext4 | Self::Xfs | Self::Btrfs => {
                kernel(self.name()) && tool(&format!("mkfs.{}", self.name())).is_some()
            }
        }
    }

    /// Makes an empty file system in a new image file, as small as its tools allow, with these
    /// options more for its tool.
    pub(crate) fn format(self, image: &Path, more: &[&str]) {
        let (size, options): (u64, &[&str]) = match self {
            Self::Xfs => (300, &["-q", "-f"]),
            Self::Btrfs => (128, &["-q", "-f"]),
            _ => (16, &["-q", "-F"]),
        };
        let name = if self == Self::TwoDisks {
            Self::Ext4.name()
        } else {
            self.name()
        };
        let file = std::fs::File::create(image).unwrap();
        file.set_len(size << 20).unwrap();
        let mut command = Command::new(format!("mkfs.{name}"));
        must(command.args(options).args(more).arg(image));
    }
}

/// A sandbox whose `app` is on a file system of some kind.
pub(crate) struct Ground {
    pub(crate) kind: Kind,
    pub(crate) sandbox: Sandbox,
    base: PathBuf,
}

impl Ground {
    /// Below `base`, an empty directory.
    pub(crate) fn new(kind: Kind, base: &Path) -> Self {
        if kind != Kind::Here {
            mount(&["-t", "tmpfs", "-o", "mode=755", "none"], base);
        }
        for dir in ["root", "upper", "work"] {
            std::fs::create_dir(base.join(dir)).unwrap();
        }
        let ground = Self {
            kind,
            sandbox: Sandbox::at(&base.join("root")),
            base: base.to_owned(),
        };
        if !matches!(kind, Kind::Here | Kind::Tmpfs | Kind::Overlay) {
            let image = base.join("image");
            kind.format(&image, &[]);
            mount(&["-o", "loop", image.to_str().unwrap()], &ground.app());
        }
        let _ = std::fs::remove_dir(ground.app().join("lost+found"));
        if super::is_root() {
            std::os::unix::fs::chown(ground.app(), Some(USER), Some(USER)).unwrap();
        }
        ground
    }

    /// The files of `start`, and nothing else.
    pub(crate) fn fresh(&self, start: &Start) {
        let layered = matches!(self.kind, Kind::Overlay | Kind::TwoDisks);
        if layered && is_overlay(&self.app()) {
            unmount(&self.app());
        }
        let base = ["upper", "work"].map(|name| self.base.join(name));
        for dir in base
            .iter()
            .chain([&self.app(), &self.sandbox.path("state")])
        {
            empty(dir);
        }
        (start.files)(&self.sandbox);
        if layered {
            std::os::unix::fs::chown(self.base.join("upper"), Some(USER), Some(USER)).unwrap();
            let base = self.base.display();
            let upper = format!("upperdir={base}/upper,workdir={base}/work");
            let options = format!("lowerdir={},{upper}", self.app().display());
            mount(&["-t", "overlay", "overlay", "-o", &options], &self.app());
        }
    }

    fn app(&self) -> PathBuf {
        self.sandbox.path("app")
    }
}

/// Mounts what these words say in a directory.
pub(crate) fn mount(words: &[&str], path: &Path) {
    must(Command::new("mount").args(words).arg(path));
}

/// A command of the machine's that has to succeed.
pub(crate) fn must(command: &mut Command) {
    said(command).exits(0);
}

/// Waits until a directory is unmounted, which what was killed may still use.
pub(crate) fn unmount(path: &Path) {
    let done = || said(Command::new("umount").arg(path)).code() == Some(0);
    harness::wait::until("the file system is unmounted", done);
}

fn is_overlay(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
    mounts.contains(&format!("\noverlay {} ", path.display()))
}

fn empty(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }
}
