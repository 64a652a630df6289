//! A directory of links to wrapped programs, and links to a wrapped path.

use crate::support::Sandbox;

#[test]
fn a_directory_of_links_leaves_the_program_alone() {
    let sandbox = Sandbox::with_program();
    let before = sandbox.listing("app");
    let links = sandbox.path("links");
    let links = links.to_str().unwrap();
    let path = format!("{links}:{}:/usr/bin:/bin", sandbox.path("app").display());
    let with = |args: &[&str]| sandbox.with("PATH", &path, args);
    let said = with(&["--link-dir", links, "x"]);
    said.exits(0);
    assert!(!said.stderr.contains("warning"), "{}", said.stderr);
    with(&["--link-dir", links, "x"]).exits(0);
    assert_eq!(sandbox.target("links/x"), sandbox.path("bin/cudawrap"));
    let status = with(&["--status", links]);
    let runs = sandbox.path("app/x");
    let runs = format!("{links}/x: wrapped (runs {} by PATH)\n", runs.display());
    status.exits(0).prints(&runs);
    with(&["--repair", &format!("{links}/x")]).exits(0);
    // Behind another PATH the link runs something else, or nothing.
    let warned = sandbox.ok(&["--link-dir", links, "x"]);
    warned.mentions("warning: with this PATH the link finds no program");
    for (directory, program) in [(".", "x"), (links, "nothing"), ("/nowhere", "x")] {
        with(&["--link-dir", directory, program]).exits(1);
    }
    sandbox.link("../bin/cudawrap", "app/own");
    with(&["--link-dir", links, "own"]).mentions("cudawrap itself");
    assert_eq!(sandbox.names("links"), ["x"]);
    sandbox.run_sh("rm app/own");
    sandbox.script("links/y", "other");
    sandbox.script("app/y", "two");
    with(&["--link-dir", links, "y"]).exits(1);
    sandbox.run_sh("rm app/y");
    with(&["--undo", "--link-dir", links, "x"]).exits(0);
    assert_eq!(sandbox.names("links"), ["y"]);
    assert_eq!(sandbox.listing("app"), before);
}

#[test]
fn status_of_a_directory_lists_what_has_to_do_with_wrapping() {
    let sandbox = Sandbox::with_program();
    for name in ["plain", "over"] {
        sandbox.script(&format!("app/{name}"), "p");
    }
    sandbox.script("app/CUDAWRAP_lost", "p");
    sandbox.ok(&["x", "over"]);
    sandbox.run_sh("rm app/over");
    sandbox.script("app/over", "new");
    let said = sandbox.create(&["--status", "--json", "."]);
    said.exits(1);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let paths = json["paths"].as_array().unwrap().iter();
    let all: Vec<_> = paths.map(|path| (&path["path"], &path["state"])).collect();
    assert!(
        all == [
            (&"./lost".into(), &"broken".into()),
            (&"./over".into(), &"upgraded over".into()),
            (&"./x".into(), &"wrapped".into()),
        ],
        "{all:?}"
    );
}

#[test]
fn undo_of_a_directory_is_for_what_status_shows_there() {
    let sandbox = Sandbox::with_program();
    for name in ["y", "plain", "over"] {
        sandbox.script(&format!("app/{name}"), name);
    }
    let before = sandbox.names("app");
    sandbox.ok(&["x", "y", "over"]);
    assert_eq!(sandbox.create(&["--status", "."]).stdout.lines().count(), 3);
    sandbox.ok(&["--undo", "--dry-run", "."]).shows("./x: ");
    let said = sandbox.ok(&["--undo", "."]);
    said.mentions("3 paths: 3 changed, 0 failed");
    assert_eq!(sandbox.names("app"), before);
    assert_eq!(sandbox.output_of("app/y"), "y a b");
    let said = sandbox.ok(&["--undo", "."]);
    said.says(&["create-cudawrap: .: nothing is wrapped there"]);
    // A directory is still no program to be wrapped.
    sandbox.create(&["."]).exits(1);
}

#[test]
fn errors_in_the_directory_of_links_name_it() {
    let sandbox = Sandbox::with_program();
    std::fs::write(sandbox.path("file"), "").unwrap();
    let file = sandbox.path("file");
    for (dir, why) in [
        ("/nowhere", "No such file or directory"),
        (file.to_str().unwrap(), "Not a directory"),
    ] {
        let line = format!("create-cudawrap: --link-dir {dir}: {why}");
        let said = sandbox.create(&["--link-dir", dir, "x"]);
        said.exits(1).says(&[&line]);
    }
    // A file system on which nobody can make a link.
    let said = sandbox.create(&["--link-dir", "/proc/self", "x"]);
    said.exits(1).mentions("x: --link-dir /proc/self: ");
    // What is wrong with the program is still the program's.
    let links = sandbox.path("links").display().to_string();
    let said = sandbox.create(&["--link-dir", &links, "nothing"]);
    let line = "create-cudawrap: nothing: No such file or directory";
    said.exits(1).says(&[line]);
}

#[test]
fn a_program_behind_a_link_directory_may_be_wrapped_in_place() {
    let sandbox = Sandbox::with_program();
    let links = sandbox.path("links");
    let links = links.to_str().unwrap();
    let path = format!("{links}:{}:/usr/bin:/bin", sandbox.path("app").display());
    let with = |args: &[&str]| sandbox.with("PATH", &path, args);
    with(&["--link-dir", links, "x"]).exits(0);
    sandbox.ok(&["x"]);
    let status = with(&["--status", links]);
    let runs = sandbox.path("app/CUDAWRAP_x");
    let runs = format!("{links}/x: wrapped (runs {} by PATH)\n", runs.display());
    status.exits(0).prints(&runs);
    with(&["--repair", &format!("{links}/x")]).exits(0);
    // Once more, and for the first time where it is wrapped in place already.
    let again = with(&["--link-dir", links, "x"]);
    with(&["--undo", "--link-dir", links, "x"]).exits(0);
    let first = with(&["--link-dir", links, "x"]);
    for said in [again, first] {
        assert!(!said.exits(0).stderr.contains("warning"), "{said:#?}");
    }
}
