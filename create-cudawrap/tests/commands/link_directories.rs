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
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!said.err.contains("warning"), "{}", said.err);
    assert_eq!(with(&["--link-dir", links, "x"]).code, 0);
    assert_eq!(
        std::fs::read_link(sandbox.path("links/x")).unwrap(),
        sandbox.path("bin/cudawrap")
    );
    let status = with(&["--status", links]);
    assert_eq!(
        status.out,
        format!(
            "{links}/x: wrapped (runs {} by PATH)\n",
            sandbox.path("app/x").display()
        )
    );
    assert_eq!(status.code, 0);
    assert_eq!(with(&["--repair", &format!("{links}/x")]).code, 0);
    // Behind another PATH the link runs something else, or nothing.
    let warned = sandbox.ok(&["--link-dir", links, "x"]);
    assert!(
        warned
            .err
            .contains("warning: with this PATH the link finds no program"),
        "{}",
        warned.err
    );
    for bad in [
        &["--link-dir", ".", "x"][..],
        &["--link-dir", links, "nothing"],
        &["--link-dir", "/nowhere", "x"],
    ] {
        assert_eq!(with(bad).code, 1, "{bad:?}");
    }
    sandbox.link("../bin/cudawrap", "app/own");
    assert!(
        with(&["--link-dir", links, "own"])
            .err
            .contains("cudawrap itself")
    );
    assert_eq!(sandbox.names("links"), ["x"]);
    sandbox.run_sh("rm app/own");
    sandbox.script("links/y", "other");
    sandbox.script("app/y", "two");
    assert_eq!(with(&["--link-dir", links, "y"]).code, 1);
    sandbox.run_sh("rm app/y");
    assert_eq!(with(&["--undo", "--link-dir", links, "x"]).code, 0);
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
    assert_eq!(said.code, 1);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["schema"], 1);
    let all: Vec<_> = json["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["path"].as_str().unwrap(), &p["state"]))
        .collect();
    let states = [
        ("./lost", "broken"),
        ("./over", "upgraded over"),
        ("./x", "wrapped"),
    ];
    assert_eq!(
        all,
        states
            .map(|(path, state)| (path, state.into()))
            .iter()
            .map(|(p, s)| (*p, s))
            .collect::<Vec<_>>()
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
    assert_eq!(sandbox.create(&["--status", "."]).out.lines().count(), 3);
    assert!(
        sandbox
            .ok(&["--undo", "--dry-run", "."])
            .out
            .lines()
            .any(|line| line.starts_with("./x: "))
    );
    let said = sandbox.ok(&["--undo", "."]);
    assert!(
        said.err.contains("3 paths: 3 done, 0 failed"),
        "{}",
        said.err
    );
    assert_eq!(sandbox.names("app"), before);
    assert_eq!(sandbox.output_of("app/y"), "y a b");
    let said = sandbox.ok(&["--undo", "."]);
    assert_eq!(said.err, "create-cudawrap: .: nothing is wrapped there\n");
    // A directory is still no program to be wrapped.
    assert_eq!(sandbox.create(&["."]).code, 1);
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
        let said = sandbox.create(&["--link-dir", dir, "x"]);
        assert_eq!(
            (said.code, said.err),
            (1, format!("create-cudawrap: --link-dir {dir}: {why}\n"))
        );
    }
    // A file system on which nobody can make a link.
    let said = sandbox.create(&["--link-dir", "/proc/self", "x"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("x: --link-dir /proc/self: "),
        "{}",
        said.err
    );
    // What is wrong with the program is still the program's.
    let said = sandbox.create(&[
        "--link-dir",
        sandbox.path("links").to_str().unwrap(),
        "nothing",
    ]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (1, "create-cudawrap: nothing: No such file or directory\n")
    );
}

#[test]
fn links_to_a_wrapped_path_are_undone_in_any_order() {
    let sandbox = Sandbox::with_program();
    sandbox.link("x", "app/a");
    let before = sandbox.listing("app");
    let said = sandbox.ok(&["a", "x"]);
    assert!(
        said.err.contains("2 paths: 2 done, 0 failed"),
        "{}",
        said.err
    );
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_a", "CUDAWRAP_x", "a", "x"]);
    sandbox.ok(&["--undo", "a"]);
    // Alone it only leads to x, which is wrapped; with x, or a directory, it is as it
    // was.
    sandbox.refused(&["--undo", "a"], "undo that one");
    sandbox.ok(&["a"]);
    assert_eq!(sandbox.names("app"), ["CUDAWRAP_x", "a", "x"]);
    assert_eq!(
        sandbox.status_of("app/a").0,
        format!("wrapped (through {})", sandbox.path("app/x").display())
    );
    sandbox.ok(&["--undo", "a", "x"]);
    assert_eq!(
        sandbox.identities(&before),
        sandbox.identities(&sandbox.listing("app"))
    );
    sandbox.ok(&["x", "a"]);
    sandbox.ok(&["--undo", "."]);
    assert_eq!(
        sandbox.identities(&before),
        sandbox.identities(&sandbox.listing("app"))
    );
}

#[test]
fn a_program_behind_a_directory_of_links_may_be_wrapped_in_place_later() {
    let sandbox = Sandbox::with_program();
    let links = sandbox.path("links");
    let links = links.to_str().unwrap();
    let path = format!("{links}:{}:/usr/bin:/bin", sandbox.path("app").display());
    let with = |args: &[&str]| sandbox.with("PATH", &path, args);
    assert_eq!(with(&["--link-dir", links, "x"]).code, 0);
    sandbox.ok(&["x"]);
    let status = with(&["--status", links]);
    let runs = sandbox.path("app/CUDAWRAP_x");
    assert_eq!(
        (status.code, status.out),
        (
            0,
            format!("{links}/x: wrapped (runs {} by PATH)\n", runs.display())
        )
    );
    assert_eq!(with(&["--repair", &format!("{links}/x")]).code, 0);
    // Once more, and for the first time where it is wrapped in place already.
    let again = with(&["--link-dir", links, "x"]);
    assert_eq!(
        (again.code, again.err.contains("warning")),
        (0, false),
        "{}",
        again.err
    );
    assert_eq!(with(&["--undo", "--link-dir", links, "x"]).code, 0);
    let first = with(&["--link-dir", links, "x"]);
    assert_eq!(
        (first.code, first.err.contains("warning")),
        (0, false),
        "{}",
        first.err
    );
}
