//! What a name is, by the links that lead from it and the programs beside them.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

/// `opt` has the installed files, `bin` a link of the node to one, `app` the path and its
/// neighbours.
pub(crate) struct Ground(tempfile::TempDir);

impl Ground {
    pub(crate) fn new() -> Self {
        let ground = Self(tempfile::tempdir().unwrap());
        for directory in ["opt", "bin", "app", "opt/directory"] {
            fs::create_dir(ground.path(directory)).unwrap();
        }
        for file in [
            "opt/cudawrap",
            "opt/other",
            "opt/program",
            "opt/migtools_wrapper",
        ] {
            ground.file(file, 0o755);
        }
        ground.file("opt/data", 0o644);
        ground.put("bin/cudawrap -> ../opt/cudawrap");
        ground.put("bin/to-migtools -> ../opt/migtools_wrapper");
        ground
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, mode: u32) {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        options.open(self.path(name)).unwrap();
    }

    /// A link, `name -> text`, or a program, `name`.
    pub(crate) fn put(&self, thing: &str) {
        match thing.split_once(" -> ") {
            Some((name, text)) => symlink(text, self.path(name)).unwrap(),
            None => self.file(thing, 0o755),
        }
    }

    fn entry(&self, own: Option<&str>) -> NameEntry {
        let dir = Directory::open(&self.path("app")).unwrap();
        let own = own.and_then(|own| getgpu_linux::identity(&self.path(own)));
        entry(&dir, OsStr::new("x"), own).unwrap()
    }
}

#[test]
fn a_link_leads_to_cudawrap_by_its_name_or_by_the_file() {
    use Leads::{Cudawrap, Elsewhere, Migtools, Program, Vanished};
    #[rustfmt::skip]
    let cases: [(&str, &[&str], Leads, bool); 17] = [
        ("the file", &["app/x -> ../opt/cudawrap"], Cudawrap, true),
        ("the node's link to it", &["app/x -> ../bin/cudawrap"], Cudawrap, true),
        ("a file of another name behind that", &["bin/other/cudawrap -> ../../opt/other", "app/x -> ../bin/other/cudawrap"], Cudawrap, true),
        ("this installation's, of another name", &["app/x -> ../opt/other"], Cudawrap, true),
        ("one that is gone", &["app/x -> /nowhere/cudawrap"], Vanished, false),
        ("a file in place of its directory", &["app/x -> ../opt/data/cudawrap"], Vanished, false),
        ("a loop", &["bin/other/cudawrap -> cudawrap", "app/x -> ../bin/other/cudawrap"], Vanished, false),
        ("a name that is too long exists perhaps", &["app/x -> LONG/cudawrap"], Cudawrap, false),
        ("a directory of its name", &["bin/other/cudawrap -> ../../opt/directory", "app/x -> ../bin/other/cudawrap"], Elsewhere, false),
        ("migtools", &["app/x -> ../opt/migtools_wrapper"], Migtools, true),
        ("migtools by another name", &["app/x -> ../bin/to-migtools"], Migtools, true),
        ("another program by the name of migtools", &["bin/migtools_y -> ../opt/program", "app/x -> ../bin/migtools_y"], Migtools, true),
        ("migtools that is gone", &["app/x -> /nowhere/migtools_wrapper"], Migtools, false),
        ("a program", &["app/x -> ../opt/program"], Program, true),
        ("data", &["app/x -> ../opt/data"], Program, false),
        ("nothing", &["app/x -> /nowhere/program"], Elsewhere, false),
        ("a directory", &["app/x -> ../opt/directory"], Elsewhere, false),
    ];
    for (name, things, leads, runs) in cases {
        let ground = Ground::new();
        fs::create_dir(ground.path("bin/other")).unwrap();
        for thing in things {
            ground.put(&thing.replace("LONG", &"l".repeat(256)));
        }
        let seen = ground.entry(Some("opt/other"));
        assert_eq!(seen.kind, EntryKind::Link(leads), "{name}");
        assert_eq!(seen.through, None, "{name}");
        assert_eq!(seen.runs, runs, "{name}");
    }
}

/// A cudawrap that nobody may execute serves no link: it counts as gone, so that `--repair` makes
/// the links to another one.
#[test]
fn a_cudawrap_that_cannot_be_executed_has_vanished() {
    for (own, text) in [
        (None, "../opt/cudawrap"),
        (Some("opt/other"), "../opt/other"),
    ] {
        let ground = Ground::new();
        ground.put(&format!("app/x -> {text}"));
        let file = ground.path("app").join(text);
        for (mode, leads) in [(0o644, Leads::Vanished), (0o100, Leads::Cudawrap)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let seen = ground.entry(own);
            assert_eq!(seen.kind, EntryKind::Link(leads), "{text} {mode:o}");
        }
    }
}

/// What is wrapped then is the link with the program: a link to it is no wrap of its own.
#[test]
fn a_link_to_a_wrapped_path_is_a_link_through_that() {
    #[rustfmt::skip]
    let cases: [(&str, &[&str], Option<&str>); 10] = [
        ("to a wrapped one", &["x -> y", "y -> ../opt/cudawrap", "CUDAWRAP_y"], Some("y")),
        ("by the node's link", &["x -> y", "y -> ../bin/cudawrap", "CUDAWRAP_y"], Some("y")),
        ("to the last of two", &["x -> y", "y -> z", "z -> ../opt/cudawrap", "CUDAWRAP_y", "CUDAWRAP_z"], Some("z")),
        ("to the one of two that has a program", &["x -> y", "y -> z", "z -> ../opt/cudawrap", "CUDAWRAP_y"], Some("y")),
        ("a program beside itself, too", &["x -> y", "y -> ../opt/cudawrap", "CUDAWRAP_x", "CUDAWRAP_y"], Some("y")),
        ("a program that is a link to nothing", &["x -> y", "y -> ../opt/cudawrap", "CUDAWRAP_y -> gone"], Some("y")),
        ("no program: to the next", &["x -> y", "y -> z", "z -> ../opt/cudawrap"], Some("y")),
        ("a program beside itself alone", &["x -> y", "y -> ../opt/cudawrap", "CUDAWRAP_x"], None),
        ("no program: the node's link is no other name", &["x -> ../bin/cudawrap"], None),
        ("to a program", &["x -> y", "y -> ../opt/program", "CUDAWRAP_y"], None),
    ];
    for (name, things, through) in cases {
        let ground = Ground::new();
        things
            .iter()
            .for_each(|thing| ground.put(&format!("app/{thing}")));
        let seen = ground.entry(None);
        assert_eq!(
            seen.through,
            through.map(|hop| ground.path("app").join(hop)),
            "{name}"
        );
        let is_through = seen.kind == EntryKind::Link(Leads::Program) && seen.through.is_some();
        assert_eq!(is_through, through.is_some(), "{name}: {:?}", seen.kind);
    }
}

#[test]
fn a_link_to_a_wrapped_path_runs_if_that_has_a_program() {
    for (program, runs) in [("app/CUDAWRAP_y", true), ("opt/CUDAWRAP_y", false)] {
        let ground = Ground::new();
        ["app/x -> y", "app/y -> ../opt/cudawrap", program]
            .into_iter()
            .for_each(|thing| ground.put(thing));
        assert_eq!(ground.entry(None).runs, runs, "{program}");
    }
}

#[test]
fn a_cudawrap_that_cannot_be_looked_at_is_not_gone() {
    use nix::errno::Errno;
    let gone = |errno: Errno| is_gone(&io::Error::from(errno));
    assert!(
        [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP]
            .into_iter()
            .all(gone)
    );
    let there = [
        Errno::EACCES,
        Errno::ESTALE,
        Errno::EIO,
        Errno::ENAMETOOLONG,
        Errno::EHOSTDOWN,
    ];
    assert!(!there.into_iter().any(gone));
}

#[test]
fn a_file_that_is_no_link_is_what_it_is() {
    let make = |ground: &Ground, name: &str| match name {
        "a program" => ground.file("app/x", 0o755),
        "a program of its owner" => ground.file("app/x", 0o100),
        "data" => ground.file("app/x", 0o644),
        "a directory" => fs::create_dir(ground.path("app/x")).unwrap(),
        "a socket" => drop(UnixListener::bind(ground.path("app/x")).unwrap()),
        _ => {}
    };
    let cases = [
        ("nothing", EntryKind::Absent, false),
        ("a program", EntryKind::File, true),
        ("a program of its owner", EntryKind::File, true),
        ("data", EntryKind::File, false),
        ("a directory", EntryKind::Directory, true),
        ("a socket", EntryKind::Special, true),
    ];
    for (name, kind, runs) in cases {
        let ground = Ground::new();
        make(&ground, name);
        let seen = ground.entry(None);
        assert_eq!((seen.kind, seen.runs), (kind, runs), "{name}");
        assert_eq!(seen.id.is_some(), kind != EntryKind::Absent, "{name}");
    }
}

#[test]
fn a_name_that_cannot_be_looked_at_is_not_absent() {
    let ground = Ground::new();
    let dir = Directory::open(&ground.path("app")).unwrap();
    let found = entry(&dir, OsStr::new(&"x".repeat(256)), None);
    assert_eq!(
        found.unwrap_err().kind(),
        io::Error::from(nix::errno::Errno::ENAMETOOLONG).kind()
    );
}

/// An interrupted `--repair` may have given the program its next name already: that one is used.
#[test]
fn an_older_program_gets_the_first_free_number_or_the_one_it_has() {
    let ground = Ground::new();
    let dir = Directory::open(&ground.path("app")).unwrap();
    let names = Names::of(OsStr::new("x"));
    let next = || snapshot(&dir, &names, None).unwrap().replaced;
    assert_eq!(next(), "CUDAWRAP_x.replaced-1");
    ground.put("app/CUDAWRAP_x");
    ground.put("app/CUDAWRAP_x.replaced-1");
    assert_eq!(next(), "CUDAWRAP_x.replaced-2");
    let second = ground.path("app/CUDAWRAP_x.replaced-2");
    fs::hard_link(ground.path("app/CUDAWRAP_x"), &second).unwrap();
    assert_eq!(next(), "CUDAWRAP_x.replaced-2");
    ground.put("app/CUDAWRAP_x.replaced-3");
    fs::remove_file(second).unwrap();
    ground.put("app/CUDAWRAP_x.replaced-2");
    assert_eq!(next(), "CUDAWRAP_x.replaced-4");
    // No file can have the name: the step that would give it reports that.
    let long = "x".repeat(240);
    let seen = snapshot(&dir, &Names::of(OsStr::new(&long)), None).unwrap();
    assert_eq!(
        seen.replaced,
        format!("CUDAWRAP_{long}.replaced-1").as_str()
    );
}

/// While another name needs `.CUDAWRAP_x~`, no command removes it as what an interrupted run left.
#[test]
fn a_name_on_the_way_to_the_program_is_in_use() {
    const TMP: &str = ".CUDAWRAP_x~";
    #[rustfmt::skip]
    let cases: [(&str, &[&str], bool, bool); 7] = [
        ("nothing leads there", &["x", "CUDAWRAP_x", TMP], false, false),
        ("the path does", &["x -> .CUDAWRAP_x~", TMP], true, false),
        ("its program does", &["x", "CUDAWRAP_x -> .CUDAWRAP_x~", TMP], true, false),
        ("what the path runs does", &["x -> ../opt/cudawrap", "CUDAWRAP_x -> .CUDAWRAP_x~", TMP], true, true),
        ("what it runs by another path does", &["x -> y", "y -> ../opt/cudawrap", "CUDAWRAP_y -> .CUDAWRAP_x~", TMP], true, false),
        ("the path runs its program", &["x -> ../opt/cudawrap", "CUDAWRAP_x", TMP], false, true),
        ("another path leads to its program", &["x -> y", "y -> ../opt/cudawrap", "CUDAWRAP_y -> CUDAWRAP_x", "CUDAWRAP_x"], false, true),
    ];
    for (name, things, tmp_in_use, reaches_hidden) in cases {
        let ground = Ground::new();
        for thing in things {
            ground.put(&format!("app/{thing}"));
        }
        let dir = Directory::open(&ground.path("app")).unwrap();
        let seen = snapshot(&dir, &Names::of(OsStr::new("x")), None).unwrap();
        assert_eq!(seen.tmp_in_use, tmp_in_use, "{name}");
        assert_eq!(seen.reaches_hidden, reaches_hidden, "{name}");
    }
}

#[test]
fn path_is_searched_for_a_link_alone() {
    let cases: [(&str, &[&str], bool); 4] = [
        ("a link alone", &["app/sh -> ../opt/cudawrap"], true),
        (
            "a program beside it",
            &["app/sh -> ../opt/cudawrap", "app/CUDAWRAP_sh"],
            false,
        ),
        ("a program", &["app/sh"], false),
        ("nothing", &[], false),
    ];
    for (name, things, is_searched) in cases {
        let ground = Ground::new();
        things.iter().for_each(|thing| ground.put(thing));
        let dir = Directory::open(&ground.path("app")).unwrap();
        let seen = snapshot(&dir, &Names::of(OsStr::new("sh")), None).unwrap();
        assert_eq!(seen.behind.is_some(), is_searched, "{name}");
    }
}
