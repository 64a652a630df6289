//! The command is killed before each call that changes something, and what has reached the
//! disk by then is copied, mounted and looked at. The path is always one program; what was
//! reported as done is done. Needs root and mounts.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::skip::{Need, lacks, say};
use inject::{Blow, Call};

use crate::support::grounds::{Kind, mount, must, unmount};
use crate::support::inject::{STARTS, Start, again, calls, changes, complete, program, run};
use crate::support::{Sandbox, USER};

/// A file system with a journal, and what its tool is told more.
struct Disk {
    kind: Kind,
    name: &'static str,
    features: &'static [&'static str],
    /// So that nothing but the command and its fsync makes it write; the default is every
    /// 5 or 30 seconds.
    options: &'static str,
}

#[rustfmt::skip]
const DISKS: &[Disk] = &[
    Disk { kind: Kind::Ext4, name: "ext4", features: &[], options: "loop,commit=300" },
    Disk { kind: Kind::Ext4, name: "ext4 fast_commit", features: &["-O", "fast_commit"],
        options: "loop,commit=300" },
    Disk { kind: Kind::Xfs, name: "xfs", features: &[], options: "loop" },
    Disk { kind: Kind::Btrfs, name: "btrfs", features: &[], options: "loop,commit=300" },
];

/// What happens to what the kernel has not written yet.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// It is lost.
    AtOnce,
    /// Somebody's sync has written it a moment before.
    AfterSync,
}

/// A sandbox whose `app` is on a disk that loses its power.
struct Bench<'a> {
    disk: &'a Disk,
    sandbox: Sandbox,
    base: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(disk: &'a Disk, base: &Path) -> Self {
        mount(&["-t", "tmpfs", "-o", "mode=755", "none"], base);
        std::fs::create_dir(base.join("root")).unwrap();
        let bench = Self {
            disk,
            sandbox: Sandbox::at(&base.join("root")),
            base: base.to_owned(),
        };
        disk.kind.format(&bench.image("empty"), disk.features);
        bench
    }

    fn image(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn copy(&self, from: &str, to: &str) {
        let mut copy = Command::new("cp");
        let images = [from, to].map(|name| self.image(name));
        must(copy.arg("--sparse=always").args(images));
    }

    fn mount(&self, image: &str) {
        let image = self.image(image).display().to_string();
        let words = ["-o", self.disk.options, &image];
        mount(&words, &self.sandbox.path("app"));
    }

    fn unmount(&self) {
        unmount(&self.sandbox.path("app"));
    }

    /// An image with the files of `start`, cleanly unmounted.
    fn prepare(&self, start: &Start) {
        self.copy("empty", "start");
        self.mount("start");
        let _ = std::fs::remove_dir(self.sandbox.path("app/lost+found"));
        std::os::unix::fs::chown(self.sandbox.path("app"), Some(USER), Some(USER)).unwrap();
        (start.files)(&self.sandbox);
        self.unmount();
    }

    /// What the image holds at one instant: copied again if something was written
    /// meanwhile.
    fn cut(&self) {
        let written = || self.image("disk").metadata().unwrap().modified().unwrap();
        loop {
            let before = written();
            self.copy("disk", "cut");
            if written() == before {
                return;
            }
        }
    }

    /// Runs `start` up to `call` (to its end if there is none), cuts the power, and looks
    /// at what is there afterwards.
    fn trial(&self, start: &Start, call: Option<&Call>, cut: Cut) {
        let (disk, name) = (self.disk.name, start.name);
        let what = format!("{disk}: {name}, {cut:?}, killed at {call:?}");
        self.copy("start", "disk");
        self.mount("disk");
        let before = program(&self.sandbox, start.program);
        let blow = call.map(|call| (call.point, Blow::Kill));
        let (story, error) = run(&self.sandbox, start, blow);
        assert_eq!(story.status == 0, call.is_none(), "{what}: {error}");
        if matches!(cut, Cut::AfterSync) {
            must(Command::new("sync").arg("-f").arg(self.sandbox.path("app")));
        }
        self.cut();
        self.unmount();
        self.mount("cut");
        let names = self.sandbox.names("app").join(" ");
        let as_said = call.is_some() || names == start.end;
        assert!(
            as_said,
            "{what}: it was reported as done, and there is {names}"
        );
        complete(&self.sandbox, start, &what);
        if !start.args.contains(&"--undo") {
            assert_eq!(again(&self.sandbox, &["--undo", "x"]).0, 0, "{what}: undo");
        }
        let after = program(&self.sandbox, "app/x");
        assert_eq!(after, before, "{what}: another file than before");
        self.unmount();
    }
}

fn all_on(disk: &Disk) -> usize {
    let base = tempfile::tempdir().unwrap();
    let bench = Bench::new(disk, base.path());
    let cuts = &[Cut::AtOnce, Cut::AfterSync][..harness::size(1, 2)];
    let mut images = 0;
    for start in STARTS {
        bench.prepare(start);
        bench.copy("start", "disk");
        bench.mount("disk");
        let mut all = calls(&bench.sandbox, start);
        bench.unmount();
        all.retain(changes);
        assert!(all.len() >= 4, "{}: {all:?}", start.name);
        for call in all.iter().map(Some).chain([None]) {
            for cut in cuts {
                bench.trial(start, call, *cut);
                images += 1;
            }
        }
    }
    images
}

#[test]
fn a_power_cut_at_any_step_leaves_a_path_that_runs() {
    let _turn = harness::turn();
    if lacks(&[Need::Mounts]) || crate::support::inject::lacks() {
        return;
    }
    let wanted = &DISKS[..harness::size(1, DISKS.len())];
    let mut said = Vec::new();
    for disk in wanted {
        if disk.kind.there() {
            let images = harness::mounts::apart(|| all_on(disk));
            said.push(format!("{images} on {}", disk.name));
        } else {
            say(&format!("no {} here", disk.name));
        }
    }
    println!(
        "row 10: power cuts: {}: every path ran, what was reported as done was on the disk",
        said.join(", ")
    );
}
