//! The list of allowed devices and the excluded ones, in every form that administrators
//! write. A list that cannot be read or trusted hands out nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use getgpu_tests::{OTHER, listing, until_none_is_free};
use harness::Sandbox;
use harness::skip::{self, Need};

/// What getgpu gives out on a node of four MIG devices with this list of allowed devices.
fn given_with(sandbox: &Sandbox, list: &str) -> BTreeSet<String> {
    let file = sandbox.file("ids", list, 0o644);
    sandbox.set_settings(&format!("allowed_file = '{}'", file.display()));
    let given = until_none_is_free(sandbox, &["--for=60"])
        .into_iter()
        .collect();
    sandbox.getgpu(["--release-all"]).run().exits(0);
    given
}

fn set(uuids: &[&String]) -> BTreeSet<String> {
    uuids.iter().map(|uuid| (*uuid).clone()).collect()
}

#[test]
fn the_list_takes_comments_blank_lines_crlf_and_capitals() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let list = format!(
        "# ours\r\n\r\n  {}  # first\r\n{}\r\nnot a uuid\r\n",
        uuids[0],
        uuids[2].to_uppercase()
    );
    assert_eq!(given_with(&sandbox, &list), set(&[&uuids[0], &uuids[2]]));
    let marked = format!("\u{feff}{}\r\n{}\r\n", uuids[1], uuids[3]);
    assert_eq!(
        given_with(&sandbox, &marked),
        set(&[&uuids[1], &uuids[3]]),
        "a byte order mark"
    );
}

#[test]
fn a_gpu_stands_for_its_mig_devices_and_the_old_form_for_one() {
    let sandbox = Sandbox::new("mig4");
    let listing = listing::json(&sandbox);
    let first = &listing["devices"][0];
    let gpu = first["gpu_uuid"].as_str().unwrap();
    assert_eq!(given_with(&sandbox, gpu).len(), 4);
    let list = format!(
        "MIG-{gpu}/{}/{}\n",
        first["gpu_instance"], first["compute_instance"]
    );
    assert_eq!(
        given_with(&sandbox, &list),
        [first["uuid"].as_str().unwrap().to_owned()].into()
    );
}

#[test]
fn an_empty_list_allows_nothing_and_an_unreadable_one_hands_out_nothing() {
    let sandbox = Sandbox::new("mig4");
    let file = sandbox.file("ids", "# none\n", 0o644);
    sandbox.set_settings(&format!("allowed_file = '{}'", file.display()));
    sandbox
        .getgpu(["--no-reserve"])
        .run()
        .exits(3)
        .prints("")
        .mentions("4 not on the site's list of allowed devices");
    std::fs::write(&file, "MIG-7a1b2c3d-0001-5abc-8def-000000000009\n").unwrap();
    sandbox.getgpu(["--no-reserve"]).run().exits(3).prints("");
    std::fs::remove_file(&file).unwrap();
    sandbox.getgpu(["--no-reserve"]).run().exits(0);
    std::os::unix::fs::symlink("/nowhere/ids", &file).unwrap();
    sandbox
        .getgpu(["--no-reserve"])
        .run()
        .exits(2)
        .prints("")
        .mentions("cannot be read: No such file or directory");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    if skip::lacks(&[Need::Root]) {
        return;
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let outcome = sandbox.getgpu(["--no-reserve"]).uid(OTHER).run();
    outcome
        .exits(2)
        .prints("")
        .mentions("cannot be read: Permission denied");
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .uid(OTHER)
        .run()
        .exits(125);
}

/// A `library` in such a file would run in everybody's processes, and such a list hands
/// out devices that are not the site's to give.
#[test]
fn files_that_others_can_write_are_not_used() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let list = sandbox.file("site/ids", &format!("{}\n", sandbox.uuids()[0]), 0o644);
    let config = sandbox.file(
        "site/config.toml",
        &format!("allowed_file = {list:?}\n"),
        0o644,
    );
    let site = sandbox.path("site");
    let own = |path: &std::path::Path, uid: u32, mode: u32| {
        std::os::unix::fs::chown(path, Some(uid), None).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let ask = |words: &[&str], uid: u32| {
        sandbox
            .command(words[0])
            .args(&words[1..])
            .env("GETGPU_CONFIG", &config)
            .uid(uid)
            .run()
    };
    for (path, uid, mode, why) in [
        (&config, 0, 0o666, "others can write to"),
        (&config, 0, 0o664, "others can write to"),
        (
            &config,
            1002,
            0o644,
            "belongs to uid 1002, which is neither root nor you",
        ),
        (&list, 0, 0o646, "others can write to"),
        (
            &list,
            1002,
            0o644,
            "belongs to uid 1002, which is neither root nor you",
        ),
        (&site, 0, 0o777, "others can write to"),
        (
            &site,
            1002,
            0o755,
            "belongs to uid 1002, which is neither root nor you",
        ),
    ] {
        own(path, uid, mode);
        ask(&["getgpu", "--no-reserve"], OTHER).refuses("getgpu", 2, why);
        ask(&["cudawrap", "--", "true"], OTHER).refuses("cudawrap", 125, why);
        let check = ask(&["getgpu", "--check"], OTHER);
        check.exits(1);
        assert!(
            check
                .stdout
                .lines()
                .any(|line| line.starts_with("problem ") && line.contains(why)),
            "{check:#?}"
        );
        own(path, 0, if path == &site { 0o755 } else { 0o644 });
    }
    // The caller's own will do, and root's in a directory where nobody can replace it.
    own(&config, OTHER, 0o644);
    ask(&["getgpu", "--no-reserve"], OTHER).line();
    ask(&["getgpu", "--no-reserve"], 1002).refuses("getgpu", 2, "belongs to uid 1001");
    own(&config, 0, 0o644);
    own(&site, 0, 0o1777);
    ask(&["getgpu", "--no-reserve"], OTHER).line();
    // There a link may be anybody's.
    std::fs::rename(&config, sandbox.path("config.real")).unwrap();
    std::os::unix::fs::symlink(sandbox.path("config.real"), &config).unwrap();
    ask(&["getgpu", "--no-reserve"], OTHER).line();
    std::os::unix::fs::lchown(&config, Some(1002), None).unwrap();
    ask(&["getgpu", "--no-reserve"], OTHER).refuses("getgpu", 2, "belongs to uid 1002");
}

#[test]
fn allowed_replaces_the_file_and_excluded_cuts_it() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    let file = sandbox.file("ids", &uuids[3], 0o644);
    let text = format!(
        "allowed_file = '{}'\nallowed = ['{}', '{}']\nexcluded = ['{}']",
        file.display(),
        uuids[0],
        uuids[1],
        uuids[0]
    );
    sandbox.set_settings(&text);
    assert_eq!(
        until_none_is_free(&sandbox, &["--for=60"]),
        [uuids[1].clone()]
    );
}
