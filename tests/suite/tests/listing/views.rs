//! What of a listing is shown and how: some of the devices, JSON, CSV, the queue, a table
//! for a terminal.

use getgpu_tests::wrapped::put;
use getgpu_tests::{OTHER, bytes, listing, root};
use harness::{Sandbox, Terminal, skip, wait};

#[test]
fn a_listing_of_some_devices_keeps_their_index() {
    let Some(sandbox) = root("mig4") else { return };
    let own = "cudawrap --gpu 0 --policy last -- sim-cuda --run forever";
    let _own = sandbox.words(own).spawn();
    sandbox.until_running(1);
    let theirs = sandbox.leased().uid(OTHER).spawn();
    sandbox.until_running(2);
    let shown = |words: &[&str]| -> Vec<String> {
        let outcome = sandbox.words("getgpu --list").args(words).run();
        let lines: Vec<&str> = outcome.exits(0).stdout.lines().skip(1).collect();
        let (total, lines) = lines.split_last().unwrap();
        assert!(total.contains(" free"), "{outcome:#?}");
        let index = |line: &&str| line.split_whitespace().next().unwrap().to_owned();
        lines.iter().map(index).collect()
    };
    let (all, mine, free) = (shown(&[]), shown(&["--mine"]), shown(&["--free"]));
    assert_eq!((all.len(), mine.len(), free.len()), (4, 1, 2));
    let user = shown(&["--user", &OTHER.to_string()]);
    assert!(user.len() == 1 && user != mine);
    assert_eq!(shown(&["--user", "root"]), mine);
    let unknown = sandbox.words("getgpu --list --user nosuchuser").run();
    unknown
        .exits(2)
        .mentions("--user nosuchuser: no user of this node is called so");
    let others = |index: &String| !mine.contains(index) && !user.contains(index);
    assert!(free.iter().all(others));
    // So do the options that choose, and the index stays.
    assert_eq!(shown(&["--profile", "7g.40gb"]), Vec::<String>::new());
    assert_eq!(shown(&["--gpu", "0"]).len(), 4);
    assert_eq!(shown(&["--gpu", &sandbox.uuids()[2]]), ["2"]);
    assert_eq!(shown(&["--min-memory", "1T", "--free"]).len(), 0);
    // What is idle and not handed out is not free.
    let drained = &sandbox.uuids()[free[0].parse::<usize>().unwrap()];
    sandbox.set_settings(&format!("excluded = ['{drained}']"));
    assert_eq!(shown(&["--free"]), free[1..]);
    sandbox.set_settings("");
    // The index is the one that getgpu takes.
    let taken = sandbox.getgpu([&mine[0]]).run();
    taken.mentions("leased by root");
    drop(theirs);
}

#[test]
fn a_listing_has_one_form() {
    let sandbox = Sandbox::new("mig4");
    let json = sandbox.ask("--list --format json");
    assert!(json.stdout.starts_with("{\"schema\":1,"), "{json:#?}");
    let csv = sandbox.ask("--list --format csv");
    let lines: Vec<&str> = csv.stdout.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 5, "{csv:#?}");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    assert!(lines[1].starts_with(&format!("0,{},", sandbox.uuids()[0])));
    #[rustfmt::skip]
    let cases = [
        &["--list", "--json", "--format", "csv"][..], &["--list", "--format", "env"],
        &["--format", "json"], &["--format", "csv"], &["--mine"], &["--free"], &["--user", "ana"],
        &["--list", "--hold"], &["--list", "--for", "3"], &["--list", "--no-reserve"],
        &["--list", "--explain"], &["--queue", "--list"],
    ];
    for words in cases {
        sandbox.getgpu(words.iter().copied()).run().exits(2);
    }
}

#[test]
fn a_hold_says_until_when_it_lasts() {
    let sandbox = Sandbox::with("mig4", "max_hold = \"1h\"\n");
    let uuid = sandbox.line("--hold --tag train");
    let plain = sandbox.line("--for 60");
    let listed = listing::json(&sandbox);
    let now = listed["time"].as_u64().unwrap();
    let holder = &listing::device(&listed, &uuid)["holders"][0];
    let left = holder["until"].as_u64().unwrap() - now;
    assert!((3500..=3601).contains(&left), "{holder}");
    assert_eq!(holder["hold"], true);
    assert_eq!(holder["tag"], "train");
    let other = &listing::device(&listed, &plain)["holders"][0];
    assert_eq!(other["hold"], false);
    assert!(other["until"].is_null(), "{other}");
    assert_eq!(listing::device(&listed, &uuid)["empty"], true);
    let table = sandbox.ask("--list -v");
    let line = |text: &str| {
        let lines = &table.exits(0).stdout;
        lines.lines().find(|l| l.contains(text)).unwrap().to_owned()
    };
    assert!(line("INDEX").contains(" UNTIL "), "{table:#?}");
    let ends = ["  in 59 min ", "  in 60 min "];
    let shown = ends.iter().any(|end| line(&uuid).contains(end));
    assert!(shown, "{table:#?}");
    assert!(!line(&plain).contains(" in "), "{table:#?}");
    sandbox.ask("--release train").exits(0);
    // The site's limit is the longest, and one's own may be shorter.
    for (time, least) in [("30d", 3500), ("20m", 1100)] {
        let uuid = sandbox.line(&format!("--hold --for {time} --tag train"));
        let listed = listing::json(&sandbox);
        let holder = &listing::device(&listed, &uuid)["holders"][0];
        let left = holder["until"].as_u64().unwrap() - listed["time"].as_u64().unwrap();
        assert!((least..=least + 101).contains(&left), "{time}: {holder}");
        sandbox.ask("--release train").exits(0);
    }
    let table = sandbox.ask("--list");
    assert!(!table.stdout.contains("UNTIL"), "{table:#?}");
}

#[test]
fn whoever_waits_is_listed() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "h200x1", "") else {
        return;
    };
    let _holder = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiter = sandbox.words("cudawrap --wait=60 -- true");
    let waiter = waiter.args(["some word"]).uid(OTHER).spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    let queue = &listing::json(&sandbox)["queue"];
    assert_eq!(queue.as_array().unwrap().len(), 1, "{queue}");
    assert_eq!(queue[0]["uid"], OTHER);
    assert_eq!(queue[0]["pid"], waiter.pid());
    let command = queue[0]["command"].as_str().unwrap();
    let words = "cudawrap --wait=60 -- true some word";
    assert!(command.ends_with(words), "{queue}");
    let table = sandbox.ask("--queue");
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert_eq!(lines.len(), 2 + sandbox.uuids().len(), "{table:#?}");
    assert!(lines[2].starts_with("device 0: held by "), "{table:#?}");
    assert!(table.stdout.contains("true some word"));
    drop(waiter);
    wait::until("no one waits", || listing::waiting(&sandbox) == 0);
}

/// It stands aside in the line, so that others pass, and waits all the same.
#[test]
fn a_waiter_over_the_limit_of_its_user_is_counted_in_every_form() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "mig4", "max_per_user = 1") else {
        return;
    };
    let theirs = |words: &str| sandbox.words(words).uid(OTHER);
    let _has_one = theirs("cudawrap -- sim-cuda --run forever").spawn();
    sandbox.until_running(1);
    let _waiter = theirs("cudawrap --wait -- true").spawn();
    let probe = bytes::open(&sandbox);
    wait::until("it stands aside", || {
        bytes::is_confirmed(&probe, bytes::NUMBERS, bytes::ALL_NUMBERS)
    });
    let listed = listing::json(&sandbox);
    let queue = listed["queue"].as_array().map(Vec::len);
    assert_eq!((listed["waiting"].as_u64(), queue), (Some(1), Some(1)));
    let metrics = sandbox.ask("--list --format prometheus").output();
    assert!(metrics.contains("\ngetgpu_waiting 1\n"), "{metrics}");
    let table = sandbox.ask("--list");
    table.exits(0).mentions("1 program waits for a device");
    let drawn = on_terminal(&sandbox, 80, &[]);
    assert!(drawn.contains("; 1 waiting"), "{drawn}");
}

#[test]
fn an_index_releases_a_reservation_unless_a_tag_is_called_so() {
    let sandbox = Sandbox::new("mig4");
    let first = sandbox.line("1 --hold");
    assert_eq!(first, sandbox.uuids()[1]);
    let tagged = sandbox.line("--hold --tag 1");
    sandbox.ask("--release 1").exits(0);
    let held = |uuid: &str| {
        let listed = listing::json(&sandbox);
        listing::device(&listed, uuid)["holders"][0].is_object()
    };
    assert!(held(&first) && !held(&tagged), "the tag comes first");
    sandbox.ask("--release 1").exits(0);
    assert!(!held(&first));
    let again = sandbox.ask("--release 1");
    again.refuses(1, "no reservation of yours");
    // A number is a tag too: where nothing is reserved, no driver is needed to say so.
    let unknown = |node: &str, why| {
        let release = sandbox.words("getgpu --release 99").env("SIM_NODE", node);
        release.run().refuses(1, why);
    };
    unknown("/no/such/node", "99: no reservation of yours");
    sandbox.line("--hold");
    let line = "no device 99, and no tag of yours is called so";
    unknown(&sandbox.text("node"), line);
}

/// The settings choose among the devices, and do not change their numbers.
#[test]
fn an_index_releases_what_has_it_in_the_list() {
    let sandbox = Sandbox::with("gpus4", "gpu = '2'");
    assert_eq!(sandbox.line("--hold"), sandbox.uuids()[2]);
    let other = sandbox.ask("--release 0");
    other.refuses(1, "no reservation of yours");
    sandbox.ask("--release 2").exits(0);
    sandbox.assert_clean();
}

/// The program's name begins with `=`, which a spreadsheet takes for a formula, and has U+202E (reverses
/// the text behind it), U+200B (invisible) and U+009B (begins a control sequence of a terminal).
#[test]
fn no_name_is_a_formula_or_hidden() {
    let sandbox = Sandbox::new("h200x1");
    let name = "=1+1\u{202e}\u{200b}\u{9b}";
    put(&sandbox, &sandbox.path("work").join(name), "sim-cuda");
    let command = |wait: &str| {
        let cudawrap = sandbox.words(&format!("cudawrap {wait} --"));
        cudawrap
            .args([&format!("./{name}"), "--run", "forever"])
            .spawn()
    };
    let _runs = command("-q");
    sandbox.until_running(1);
    let _waits = command("--wait");
    wait::until("one waits", || listing::waiting(&sandbox) == 1);
    let shown = "=1+1\\u{202e}\\u{200b}\\u{9b}";
    let says = |words: &str, part: &str| {
        let said = sandbox.ask(words);
        said.exits(0).shows(part);
        let is_hidden = |c| matches!(c, '\u{202e}' | '\u{200b}' | '\u{9b}');
        assert!(!said.stdout.contains(is_hidden), "{words}: {said:#?}");
    };
    // Cut to the column.
    says("--list", "=1+1\\u{202e}\\u{200b}");
    says("--list --format csv", &format!(",'{shown},"));
    says("--list --json", "=1+1\\u202e\\u200b\\u009b\"");
    says("--list --format prometheus", "getgpu_device_held");
    says("--queue", &format!("-- ./{shown} "));
    says("--queue --json", "./=1+1\\u202e\\u200b\\u009b ");
    let listed = listing::json(&sandbox);
    let holder = &listing::devices(&listed)[0]["holders"][0];
    assert_eq!(holder["program"], name, "a reader of JSON has it as it is");
}

/// What `getgpu --list` shows on a terminal with so many columns.
fn on_terminal(sandbox: &Sandbox, columns: u16, environment: &[(&str, &str)]) -> String {
    let terminal = Terminal::new(columns, 40);
    let list = sandbox.words("TERM=xterm LC_ALL=C.UTF-8 getgpu --list");
    let mut command = list.stdout(terminal.slave());
    for (name, value) in environment {
        command = command.env(name, *value);
    }
    command.run().exits(0);
    terminal.rest()
}

#[test]
fn a_terminal_gets_headings_colours_and_what_fits() {
    let sandbox = Sandbox::new("a100x8");
    let line = "cudawrap -- sim-cuda --memory 3221225472 --run forever";
    let _program = sandbox.words(line).spawn();
    sandbox.until_running(1);
    let wide = on_terminal(&sandbox, 200, &[]);
    let uuids = sandbox.uuids();
    let all = uuids.iter().all(|uuid| wide.contains(uuid.as_str()));
    assert!(all, "{wide}");
    assert!(wide.contains("GPU 7  NVIDIA A100-SXM4-40GB  00000000:"));
    assert!(wide.contains("\u{25ae}") && wide.contains("\x1b[32mfree"));
    assert!(wide.contains("55 of 56 free; "), "{wide}");
    let narrow = on_terminal(&sandbox, 80, &[("NO_COLOR", "1")]);
    assert!(!narrow.contains("\x1b["), "{narrow}");
    let mut widths = narrow.lines().map(|line| line.trim_end().chars().count());
    assert!(widths.all(|width| width <= 80), "{narrow}");
    assert!(!uuids.iter().any(|uuid| narrow.contains(uuid.as_str())));
    let dumb = on_terminal(&sandbox, 80, &[("TERM", "dumb"), ("LC_ALL", "C")]);
    assert!(dumb.is_ascii() && !dumb.contains("\x1b["), "{dumb}");
}

#[test]
fn a_device_that_is_gone_is_listed_with_its_holder() {
    let sandbox = Sandbox::new("mig4");
    let _lease = sandbox.leased().spawn();
    sandbox.until_running(1);
    let reserved = sandbox.line("--for=60");
    let listed = listing::json(&sandbox);
    assert_eq!(listed["problems"].as_array().unwrap().len(), 0, "{listed}");
    // The administrator cuts the GPU anew, and each device has a new UUID.
    sandbox.set_node("a30x1-4");
    let table = sandbox.ask("--list");
    let lines = table.stderr.lines();
    let gone: Vec<&str> = lines.filter(|line| line.contains(": gone or ")).collect();
    assert_eq!(gone.len(), 2, "{table:#?}");
    for part in ["sim-cuda)", &reserved] {
        assert!(gone.iter().any(|line| line.contains(part)), "{gone:?}");
    }
    sandbox.ask("--release-all").exits(0);
    let listed = listing::json(&sandbox);
    assert_eq!(listed["problems"].as_array().unwrap().len(), 1);
}

#[test]
fn numbers_of_a_gpu_are_asked_for_only_if_wanted() {
    let sandbox = Sandbox::new("gpus4");
    sandbox.log_calls();
    let power = |call: &sim_node::Call| call.function == "nvmlDeviceGetPowerUsage";
    let asked = || sandbox.calls().iter().any(power);
    let plain = sandbox.ask("--list");
    assert!(!plain.stdout.contains("POWER"), "{plain:#?}");
    assert!(!asked());
    let wanted = ["--list", "--columns", "power,temperature"];
    let table = sandbox.getgpu(wanted).run();
    let lines: Vec<&str> = table.stdout.lines().collect();
    for (line, part) in [(0, " POWER "), (0, " TEMP "), (1, " 60 W "), (1, " 30 C ")] {
        assert!(lines[line].contains(part), "{part}: {table:#?}");
    }
    assert!(asked());
    let words = ["--list", "--format=csv", "--columns=utilization"];
    let csv = sandbox.getgpu(words).run();
    assert!(csv.stdout.starts_with("index,uuid,gpu,"), "{csv:#?}");
    csv.shows(",gpu_utilization,");
    // A GPU that the site has excluded, since it hangs, is left alone.
    sandbox.set_settings(&format!("excluded = ['{}']", sandbox.uuids()[2]));
    let table = sandbox.getgpu(wanted).run();
    let watts = |line: &&str| line.contains(" W ");
    assert_eq!(table.stdout.lines().filter(watts).count(), 3, "{table:#?}");
    let line = "--columns fan: not one of utilization, power, temperature";
    sandbox.ask("--list --columns fan").refuses(2, line);
    let line = "--columns goes with --list or --watch";
    sandbox.ask("--columns power").refuses(2, line);
}
