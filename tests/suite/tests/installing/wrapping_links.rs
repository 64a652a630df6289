//! Links to a program and the program itself are wrapped and undone in any order, and by a
//! user before the administrator.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use getgpu_tests::OTHER;
use harness::mounts;
use harness::skip::{self, Need};

use crate::wrapping_site::Site;

/// Links to one program, as of python, python3 and python3.11, under `opt`, each with its text, in
/// which `@` is the absolute `opt`: in one directory, absolute, both to the program, and across
/// directories.
#[rustfmt::skip]
const LINKS: [[(&str, &str); 2]; 4] = [
    [("sys/a", "b"), ("sys/b", "app")],
    [("sys/a", "@/sys/b"), ("sys/b", "@/sys/app")],
    [("sys/a", "app"), ("sys/b", "@/sys/app")],
    [("venv/bin/a", "../../local/b"), ("local/b", "@/sys/app")],
];

/// Prints what was run by what name, on which device, and how many descriptors hold a
/// lease.
const TELL: &str = "#!/bin/sh\necho \"program $CUDA_VISIBLE_DEVICES $(ls -l /proc/$$/fd 2>/dev/null | grep -c /lock)\"\n";

/// Fails unless the program behind this path runs with a lease of its own.
#[track_caller]
fn runs_leased(site: &Site, path: &Path) {
    let outcome = site.user(site.sandbox.command(path)).run();
    outcome.exits(0).says(&[]);
    let said: Vec<&str> = outcome.stdout.split_whitespace().collect();
    let leased = said.len() == 3 && site.sandbox.uuids().iter().any(|uuid| uuid == said[1]);
    assert!(leased && said[2] == "2", "{}: {outcome:#?}", path.display());
}

#[test]
fn a_program_and_its_links_are_wrapped_and_undone_in_any_order() {
    #[rustfmt::skip]
    const ORDERS: [[usize; 3]; 6] = [
        [0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0],
    ];
    for links in LINKS {
        let site = Site::new("mig4");
        let opt = site.sandbox.path("opt");
        let mut paths = vec![site.sandbox.file("opt/sys/app", TELL, 0o755)];
        for (link, text) in links {
            let (link, text) = (opt.join(link), text.replace('@', opt.to_str().unwrap()));
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(text, &link).unwrap();
            paths.push(link);
        }
        let own = format!("chown -h -R {OTHER}:{OTHER} {} || true", opt.display());
        site.sandbox.shell("sh", &own).run().exits(0);
        let before = identities(&paths);
        let create = |words: &[&str], order: &[usize]| {
            let command = site.sandbox.command("create-cudawrap").args(words);
            let paths = order.iter().map(|place| &paths[*place]);
            site.user(command.args(paths)).run()
        };
        for (number, order) in ORDERS.iter().enumerate() {
            // All by one command, or each by one of its own.
            for step in order.chunks(if number % 2 == 0 { 3 } else { 1 }) {
                create(&["-q"], step).exits(0);
            }
            paths.iter().for_each(|path| runs_leased(&site, path));
            let status = create(&["--status"], order).stdout;
            assert_eq!(status.matches(": wrapped").count(), 3, "{status}");
            create(&["--repair", "-q"], order).exits(0);
            let undo = ORDERS[(number * 5 + 2) % ORDERS.len()];
            create(&["--undo", "-q"], &undo).exits(0);
            let what = format!("{links:?}, {order:?}, undone in {undo:?}");
            assert_eq!(identities(&paths), before, "{what}");
            let find = format!("find {} -name '*CUDAWRAP*'", opt.display());
            site.sandbox.shell("sh", &find).run().exits(0).prints("");
        }
    }
}

fn identities(paths: &[PathBuf]) -> Vec<(u64, u32, PathBuf)> {
    let identity = |path: &PathBuf| {
        let meta = path.symlink_metadata().unwrap();
        let leads = std::fs::read_link(path).unwrap_or_default();
        (meta.ino(), meta.mode(), leads)
    };
    paths.iter().map(identity).collect()
}

/// A user wraps a link of their own to the system's program, which the administrator
/// wraps later.
#[test]
fn what_a_user_wraps_may_be_wrapped_by_the_administrator_later() {
    if skip::lacks(&[Need::Root, Need::Mounts]) {
        return;
    }
    let site = Site::new("mig4");
    // The note of what root has wrapped is the machine's: another one for this test.
    mounts::apart(|| {
        let mount = site.sandbox.words("mount -t tmpfs none /var/lib");
        mount.run().exits(0);
        let program = site.sandbox.file("sys/tool", TELL, 0o755);
        let mine = site.app.with_file_name("tool");
        std::os::unix::fs::symlink(&program, &mine).unwrap();
        std::os::unix::fs::lchown(&mine, Some(OTHER), None).unwrap();
        let paths = [mine.clone(), program.clone()];
        let before = identities(&paths);
        let create = |words: &[&str]| site.sandbox.words("create-cudawrap -q").args(words);
        let user = |words: &[&str]| site.user(create(words).args([&mine])).run();
        let root = |words: &[&str]| create(words).args([&program]).run();
        let runs = || runs_leased(&site, &mine);
        user(&[]).exits(0);
        root(&[]).exits(0);
        runs();
        user(&["--status"]).exits(0);
        user(&["--undo"]).exits(0);
        runs();
        user(&[]).exits(0);
        root(&["--undo"]).exits(0);
        user(&[]).exits(0);
        runs();
        user(&["--undo"]).exits(0);
        assert_eq!(identities(&paths), before);
    });
}
