use super::*;
use std::os::unix::fs::symlink;

/// `x > y`: x is a link to y; `x`: a program.
fn lay(root: &Path, entries: &[&str]) {
    for entry in entries {
        let (name, target) = entry
            .split_once(" > ")
            .map_or((*entry, None), |(name, target)| (name, Some(target)));
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, root.join(name)).unwrap(),
            None => {
                use std::os::unix::fs::PermissionsExt;
                std::fs::write(root.join(name), name).unwrap();
                std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(0o755))
                    .unwrap();
            }
        }
    }
}

#[test]
fn what_a_path_runs() {
    #[rustfmt::skip]
    let rows: &[(&[&str], &str)] = &[
        (&["d/x"], "d/x"),
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x"], "d/CUDAWRAP_x"),
        // Links to one program, wrapped in the order of their names.
        (
            &[
                "d/x > ../cudawrap",
                "d/CUDAWRAP_x > y",
                "d/y > ../cudawrap",
                "d/CUDAWRAP_y > z",
                "d/z > ../cudawrap",
                "d/CUDAWRAP_z",
            ],
            "d/CUDAWRAP_z",
        ),
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > y", "d/y > z", "d/z"], "d/CUDAWRAP_x"),
        // Another directory's path was wrapped later.
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > ../e/x", "e/x > ../cudawrap", "e/CUDAWRAP_x"],
            "e/CUDAWRAP_x"),
        // The link nearest to cudawrap that has a program.
        (&["d/x > ../e/y", "d/CUDAWRAP_x", "e/y > ../cudawrap", "e/CUDAWRAP_y"], "e/CUDAWRAP_y"),
        // Behind a directory of links, in PATH (d, e), whatever is wrapped there.
        (&["d/x > ../cudawrap", "e/x"], "e/x"),
        (&["d/x > ../cudawrap", "e/x > ../cudawrap", "e/CUDAWRAP_x"], "e/CUDAWRAP_x"),
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > y", "d/y > ../cudawrap", "e/y"], "e/y"),
        // What cannot be executed is passed by, as a shell does.
        (&["d/x > ../cudawrap", "e/x/directory", "f/x"], "f/x"),
        // Another cudawrap, and one that is gone.
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > ../o/cudawrap", "o/cudawrap"], ""),
        (&["d/x > /nowhere/cudawrap", "d/CUDAWRAP_x"], "d/CUDAWRAP_x"),
        // In circles.
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > ../e/y", "e/y > ../d/x"], ""),
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > x"], ""),
        (&["d/x > ../cudawrap", "d/CUDAWRAP_x > y", "d/y > ../cudawrap", "d/CUDAWRAP_y > x"], ""),
    ];
    for (entries, expected) in rows {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        lay(&root, entries);
        lay(&root, &["cudawrap"]);
        let directories = ["d", "e", "f"].map(|name| root.join(name));
        let found = Rule {
            is_wrapper: &is_cudawrap,
            directories: &directories,
        }
        .program(&root.join("d/x"));
        let program = found.map(|found| found.program.canonicalize().unwrap_or(found.program));
        let expected = (!expected.is_empty()).then(|| root.join(expected).canonicalize().unwrap());
        assert_eq!(program, expected, "{entries:?}");
    }
}

#[test]
fn a_trail_is_known_by_its_names() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    lay(
        &root,
        &[
            "d/x > ../cudawrap",
            "d/CUDAWRAP_x > ../same/y",
            "d/y",
            "same > d",
            "d/z",
            "cudawrap",
        ],
    );
    let found = Rule {
        is_wrapper: &is_cudawrap,
        directories: &[],
    }
    .program(&root.join("d/x"))
    .unwrap();
    let here = identity(&root.join("d")).unwrap();
    for (name, passes) in [("x", true), ("CUDAWRAP_x", true), ("y", true), ("z", false)] {
        assert_eq!(found.passes(here, OsStr::new(name)), passes, "{name}");
    }
}
