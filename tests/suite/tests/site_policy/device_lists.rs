//! The list of allowed devices and the excluded ones. A list that cannot be read or trusted
//! hands out nothing; the forms of its lines are a table of the unit tests.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use getgpu_tests::{OTHER, assert_devices, listing, root, until_none_is_free};
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn an_empty_or_unreadable_list_hands_out_nothing() {
    let sandbox = Sandbox::new("mig4");
    let file = sandbox.file("ids", "# none\n", 0o644);
    sandbox.set_settings(&format!("allowed_file = '{}'", file.display()));
    let outcome = sandbox.ask("--no-reserve");
    outcome.refuses(3, "4 not on the site's list of allowed devices");
    std::fs::write(&file, "MIG-7a1b2c3d-0001-5abc-8def-000000000009\n").unwrap();
    sandbox.ask("--no-reserve").exits(3).prints("");
    std::fs::remove_file(&file).unwrap();
    sandbox.ask("--no-reserve").exits(0);
    std::os::unix::fs::symlink("/nowhere/ids", &file).unwrap();
    let outcome = sandbox.ask("--no-reserve");
    outcome.refuses(2, "cannot be read: No such file or directory");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    if skip::lacks(&[Need::Root]) {
        return;
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let outcome = sandbox.ask_as(OTHER, "--no-reserve");
    outcome.refuses(2, "cannot be read: Permission denied");
    let program = sandbox.words("cudawrap -- true").uid(OTHER).run();
    program.exits(125);
}

/// A `library` in such a file would run in everybody's processes, and such a list hands
/// out devices that are not the site's to give.
#[test]
fn files_that_others_can_write_are_not_used() {
    let Some(sandbox) = root("mig4") else { return };
    let list = sandbox.file("site/ids", &format!("{}\n", sandbox.uuids()[0]), 0o644);
    let text = format!("allowed_file = {list:?}\n");
    let config = sandbox.file("site/config.toml", &text, 0o644);
    let site = sandbox.path("site");
    let own = |path: &std::path::Path, uid: u32, mode: u32| {
        std::os::unix::fs::chown(path, Some(uid), None).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let ask = |words: &str, uid: u32| {
        let command = sandbox.words(words).env("GETGPU_CONFIG", &config);
        command.uid(uid).run()
    };
    #[rustfmt::skip]
    let cases = [
        (&config, 0, 0o666, "others can write to"),
        (&config, 0, 0o664, "others can write to"),
        (&config, 1002, 0o644, "belongs to uid 1002, which is neither root nor you"),
        (&list, 0, 0o646, "others can write to"),
        (&list, 1002, 0o644, "belongs to uid 1002, which is neither root nor you"),
        (&site, 0, 0o777, "others can write to"),
        (&site, 1002, 0o755, "belongs to uid 1002, which is neither root nor you"),
    ];
    for (path, uid, mode, why) in cases {
        own(path, uid, mode);
        ask("getgpu --no-reserve", OTHER).refuses(2, why);
        ask("cudawrap -- true", OTHER).refuses(125, why);
        let check = ask("getgpu --check", OTHER);
        let mut lines = check.exits(1).stdout.lines();
        let problem = lines.any(|line| line.starts_with("problem ") && line.contains(why));
        assert!(problem, "{check:#?}");
        own(path, 0, if path == &site { 0o755 } else { 0o644 });
    }
    // The caller's own will do, and root's in a directory where nobody can replace it.
    own(&config, OTHER, 0o644);
    ask("getgpu --no-reserve", OTHER).line();
    ask("getgpu --no-reserve", 1002).refuses(2, "belongs to uid 1001");
    own(&config, 0, 0o644);
    own(&site, 0, 0o1777);
    ask("getgpu --no-reserve", OTHER).line();
    // Nor where a link leads that is root's.
    let (behind, link) = (sandbox.path("behind"), sandbox.path("site/link.toml"));
    std::fs::create_dir(&behind).unwrap();
    std::fs::copy(&config, behind.join("config.toml")).unwrap();
    std::os::unix::fs::symlink(behind.join("config.toml"), &link).unwrap();
    own(&behind, 0, 0o777);
    let linked = sandbox.words("getgpu --no-reserve");
    linked
        .env("GETGPU_CONFIG", &link)
        .run()
        .refuses(2, "others can write to");
    // There a link may be anybody's.
    std::fs::rename(&config, sandbox.path("config.real")).unwrap();
    std::os::unix::fs::symlink(sandbox.path("config.real"), &config).unwrap();
    ask("getgpu --no-reserve", OTHER).line();
    std::os::unix::fs::lchown(&config, Some(1002), None).unwrap();
    ask("getgpu --no-reserve", OTHER).refuses(2, "belongs to uid 1002");
}

#[test]
fn allowed_replaces_the_file_and_excluded_cuts_it() {
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    // As an editor of Windows leaves it, with a byte order mark.
    let file = sandbox.file("ids", &format!("\u{feff}{}\r\n", uuids[3]), 0o644);
    sandbox.set_settings(&format!("allowed_file = '{}'", file.display()));
    assert_eq!(sandbox.line("--no-reserve"), uuids[3]);
    let [first, second] = [&uuids[0], &uuids[1]];
    sandbox.set_settings(&format!(
        "allowed_file = {file:?}\nallowed = ['{first}', '{second}']\nexcluded = ['{first}']"
    ));
    let given = until_none_is_free(&sandbox, &["--for=60"]);
    assert_eq!(given, std::slice::from_ref(second));
}

#[test]
fn an_allowed_list_without_a_uuid_says_so_itself() {
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings("allowed = ['GPU 0', 'all', '0']");
    let line = "no device of the request exists here: 4 not on the site's list of allowed devices";
    let refused = sandbox.ask("");
    refused.refuses(3, line);
    refused.mentions("; 3 lines of that list could not be read as a UUID");
    sandbox.set_settings(&format!(
        "allowed = ['{}']",
        "MIG-00000000-0000-0000-0000-000000000000"
    ));
    let refused = sandbox.ask("");
    assert!(
        !refused.stderr.contains("could not be read"),
        "{refused:#?}"
    );
}

/// A typing mistake there would hand out the device that was to be drained.
#[test]
fn an_excluded_entry_that_names_no_device_is_told_at_use() {
    let sandbox = Sandbox::new("mig4");
    sandbox.set_settings("excluded = ['GPU 3']");
    let line = "excluded list: `GPU 3` is not the UUID of a device and excludes nothing";
    sandbox.getgpu([""; 0]).run().exits(0).mentions(line);
    let ran = sandbox.words("cudawrap -- true").run();
    ran.exits(0).mentions(line);
    let other = "excluded = ['MIG-00000000-0000-0000-0000-000000000000']";
    sandbox.set_settings(other);
    sandbox.getgpu([""; 0]).run().exits(0).says(&[]);
}

/// A MIG device is drawn at random where its own UUID tells enough, and here it does not.
#[test]
fn an_excluded_gpu_is_so_with_all_its_mig_devices() {
    let sandbox = Sandbox::new("a100x8");
    let listed = listing::json(&sandbox);
    let (mut drained, mut left) = (BTreeSet::new(), Vec::new());
    for device in listing::devices(&listed) {
        if device["gpu"] == 3 {
            left.push(device["uuid"].as_str().unwrap().to_owned());
        } else {
            drained.insert(device["gpu_uuid"].as_str().unwrap());
        }
    }
    sandbox.set_settings(&format!("excluded = {:?}", Vec::from_iter(drained)));
    assert_devices(&until_none_is_free(&sandbox, &["--for=60"]), &left);
}

/// Its only device is the batch system's to drain; of several, the job gets another.
#[test]
fn what_a_batch_system_granted_alone_is_used_although_it_is_excluded() {
    for node in ["mig4", "gpus4"] {
        let sandbox = Sandbox::new(node);
        let uuids = sandbox.uuids();
        sandbox.set_settings(&format!("excluded = ['{}']", uuids[1]));
        let app = getgpu_tests::wrapped::wrap(&sandbox, "opt", "app", "sim-cuda");
        let line = format!(
            "{}: excluded on this node, and used since the batch",
            uuids[1]
        );
        let job = |words: &str, grant: &str| {
            sandbox
                .words(&format!("SLURM_JOB_ID=7 {words}"))
                .visible(grant)
                .run()
        };
        let alone = &uuids[1];
        let printed = job("getgpu --for=1", alone);
        printed.mentions(&line);
        assert_eq!(printed.exits(0).stdout.trim(), alone);
        job("getgpu --release-all", alone).exits(0);
        let typed = job("cudawrap -- sim-cuda", alone);
        typed
            .exits(0)
            .mentions(&line)
            .shows(&format!("RUN {alone}"));
        let linked = job(&app.display().to_string(), alone);
        linked.exits(0).says(&[]).shows(&format!("RUN {alone}"));
        // Of two, the other.
        let both = uuids[..2].join(",");
        let other = job("cudawrap -- sim-cuda", &both);
        other.exits(0).says(&[]).shows(&format!("RUN {}", uuids[0]));
        // Outside a job the list holds for getgpu.
        let outside = sandbox.getgpu(["--no-reserve"]).visible(alone).run();
        outside.refuses(3, "1 excluded by the administrator");
    }
}
