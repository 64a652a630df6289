//! What of a listing is shown and how: some of the devices, JSON, CSV, the queue, a table
//! for a terminal.

use getgpu_tests::{OTHER, listing};
use harness::{Sandbox, Terminal, wait};

#[test]
fn a_listing_of_some_devices_keeps_their_index() {
    let sandbox = Sandbox::new("mig4");
    let _own = sandbox
        .command("cudawrap")
        .args(["--gpu", "0", "--policy", "last", "--", "sim-cuda"])
        .args(["--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let others = sandbox.getgpu(["--hold=1"]).uid(OTHER).run();
    // Root alone may hold for process 1.
    others.refuses("getgpu", 2, "--hold=1");
    let theirs = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .uid(OTHER)
        .spawn();
    sandbox.until_running(2);
    let shown = |words: &[&str]| -> Vec<String> {
        let outcome = sandbox.getgpu(["--list"]).args(words).run();
        outcome.exits(0);
        let lines = outcome.stdout.lines().skip(1);
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    let (all, mine, free) = (shown(&[]), shown(&["--mine"]), shown(&["--free"]));
    assert_eq!((all.len(), mine.len(), free.len()), (4, 1, 2));
    let user = shown(&["--user", &OTHER.to_string()]);
    assert!(user.len() == 1 && user != mine);
    assert!(
        free.iter()
            .all(|index| !mine.contains(index) && !user.contains(index))
    );
    // The index is the one that getgpu takes.
    let taken = sandbox.getgpu([&mine[0]]).run();
    assert!(taken.stderr.contains("leased by root"), "{taken:#?}");
    drop(theirs);
}

#[test]
fn a_listing_has_one_form() {
    let sandbox = Sandbox::new("mig4");
    let json = sandbox.getgpu(["--list", "--format", "json"]).run();
    assert!(json.stdout.starts_with("{\"schema\":1,"), "{json:#?}");
    let csv = sandbox.getgpu(["--list", "--format", "csv"]).run();
    let lines: Vec<&str> = csv.stdout.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 5, "{csv:#?}");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    assert!(lines[1].starts_with(&format!("0,{},", sandbox.uuids()[0])));
    for words in [
        &["--list", "--json", "--format", "csv"][..],
        &["--list", "--format", "env"],
        &["--format", "json"],
        &["--format", "csv"],
        &["--mine"],
        &["--free"],
        &["--user", "ana"],
        &["--list", "--hold"],
        &["--list", "--for", "3"],
        &["--list", "--no-reserve"],
        &["--list", "--explain"],
        &["--queue", "--list"],
    ] {
        sandbox.getgpu(words.iter().copied()).run().exits(2);
    }
}

#[test]
fn a_hold_says_until_when_it_lasts() {
    let sandbox = Sandbox::builder("mig4")
        .settings("max_hold = \"1h\"\n")
        .build();
    let uuid = sandbox.getgpu(["--hold", "--tag", "train"]).run().line();
    let plain = sandbox.getgpu(["--for", "60"]).run().line();
    let listed = listing::json(&sandbox);
    let now = listed["time"].as_u64().unwrap();
    let holder = &listing::device(&listed, &uuid)["holders"][0];
    let left = holder["until"].as_u64().unwrap() - now;
    assert!((3500..=3601).contains(&left), "{holder}");
    assert_eq!(
        (&holder["hold"], &holder["tag"]),
        (&true.into(), &"train".into())
    );
    let other = &listing::device(&listed, &plain)["holders"][0];
    assert_eq!(other["hold"], false);
    assert!(other["until"].is_null(), "{other}");
    assert_eq!(listing::device(&listed, &uuid)["empty"], true);
    let table = sandbox.getgpu(["--list", "-v"]).run();
    let line = |text: &str| {
        let lines = &table.exits(0).stdout;
        lines.lines().find(|l| l.contains(text)).unwrap().to_owned()
    };
    assert!(line("INDEX").contains(" UNTIL "), "{table:#?}");
    assert!(
        ["  in 59 min ", "  in 60 min "]
            .iter()
            .any(|end| line(&uuid).contains(end)),
        "{table:#?}"
    );
    assert!(!line(&plain).contains(" in "), "{table:#?}");
    sandbox.getgpu(["--release", "train"]).run().exits(0);
    let table = sandbox.getgpu(["--list"]).run();
    assert!(!table.stdout.contains("UNTIL"), "{table:#?}");
}

#[test]
fn whoever_waits_is_listed() {
    let sandbox = Sandbox::new("h200x1");
    let _holder = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(1);
    let waiter = sandbox
        .command("cudawrap")
        .args(["--wait=60", "--", "true", "some word"])
        .uid(OTHER)
        .spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    let queue = &listing::json(&sandbox)["queue"];
    assert_eq!(queue.as_array().unwrap().len(), 1, "{queue}");
    assert_eq!(queue[0]["uid"], OTHER);
    assert_eq!(queue[0]["pid"], waiter.pid());
    let command = queue[0]["command"].as_str().unwrap();
    assert!(
        command.ends_with("cudawrap --wait=60 -- true some word"),
        "{queue}"
    );
    let table = sandbox.getgpu(["--queue"]).run();
    assert_eq!(table.stdout.lines().count(), 2, "{table:#?}");
    assert!(table.stdout.contains("true some word"));
    drop(waiter);
    wait::until("nobody waits", || {
        listing::json(&sandbox)["queue"]
            .as_array()
            .unwrap()
            .is_empty()
    });
}

#[test]
fn a_reservation_is_released_by_its_index_unless_a_tag_is_called_so() {
    let sandbox = Sandbox::new("mig4");
    let first = sandbox.getgpu(["1", "--hold"]).run().line();
    assert_eq!(first, sandbox.uuids()[1]);
    let tagged = sandbox.getgpu(["--hold", "--tag", "1"]).run().line();
    sandbox.getgpu(["--release", "1"]).run().exits(0);
    let held = |uuid: &str| {
        let listed = listing::json(&sandbox);
        !listing::device(&listed, uuid)["holders"]
            .as_array()
            .unwrap()
            .is_empty()
    };
    assert!(held(&first) && !held(&tagged), "the tag comes first");
    sandbox.getgpu(["--release", "1"]).run().exits(0);
    assert!(!held(&first));
    sandbox
        .getgpu(["--release", "1"])
        .run()
        .refuses("getgpu", 1, "no reservation of yours");
    // A number is a tag too: where nothing is reserved, no driver is needed to say so.
    let unknown = |node: &str, why| {
        let release = sandbox.getgpu(["--release", "99"]).env("SIM_NODE", node);
        release.run().refuses("getgpu", 1, why);
    };
    unknown("/no/such/node", "99: no reservation of yours");
    sandbox.getgpu(["--hold"]).run().line();
    unknown(
        &sandbox.text("node"),
        "no device 99, and no tag of yours is called so",
    );
}

/// What `getgpu --list` shows on a terminal with so many columns.
fn on_terminal(sandbox: &Sandbox, columns: u16, environment: &[(&str, &str)]) -> String {
    let terminal = Terminal::new(columns, 40);
    let mut command = sandbox
        .getgpu(["--list"])
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .stdout(terminal.slave());
    for (name, value) in environment {
        command = command.env(name, *value);
    }
    command.run().exits(0);
    terminal.rest()
}

#[test]
fn a_terminal_gets_headings_colours_and_what_fits() {
    let sandbox = Sandbox::new("a100x8");
    let _program = sandbox
        .command("cudawrap")
        .args([
            "--",
            "sim-cuda",
            "--memory",
            "3221225472",
            "--run",
            "forever",
        ])
        .spawn();
    sandbox.until_running(1);
    let wide = on_terminal(&sandbox, 200, &[]);
    let uuids = sandbox.uuids();
    assert!(
        uuids.iter().all(|uuid| wide.contains(uuid.as_str())),
        "{wide}"
    );
    assert!(wide.contains("GPU 7  NVIDIA A100-SXM4-40GB  00000000:"));
    assert!(wide.contains("\u{25ae}") && wide.contains("\x1b[32mfree"));
    assert!(wide.contains("55 of 56 free; "), "{wide}");
    let narrow = on_terminal(&sandbox, 80, &[("NO_COLOR", "1")]);
    assert!(!narrow.contains("\x1b["), "{narrow}");
    assert!(
        narrow
            .lines()
            .all(|line| line.trim_end().chars().count() <= 80)
    );
    assert!(!uuids.iter().any(|uuid| narrow.contains(uuid.as_str())));
    let dumb = on_terminal(&sandbox, 80, &[("TERM", "dumb"), ("LC_ALL", "C")]);
    assert!(dumb.is_ascii() && !dumb.contains("\x1b["), "{dumb}");
}
