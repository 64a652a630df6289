//! `--list --from`: what several hosts have printed as JSON is one table, and no host is asked.

use getgpu_tests::listing;
use harness::Sandbox;

/// The listing of a sandbox as that of a host.
fn of_host(sandbox: &Sandbox, host: &str) -> String {
    let mut listing = listing::json(sandbox);
    listing["host"] = host.into();
    format!("{listing}\n")
}

#[test]
fn the_listings_of_several_hosts_are_one_table() {
    let nodes = [Sandbox::new("mig4"), Sandbox::new("gpus4")];
    let program = nodes[0].leased().args(["--tag", "of-a01"]).spawn();
    nodes[0].until_running(1);
    let (first, second) = (of_host(&nodes[0], "a01"), of_host(&nodes[1], "a02"));
    drop(program);
    // As pdsh and clush bring it, and one of an hour ago.
    let time = listing::json(&nodes[1])["time"].as_u64().unwrap();
    let old = second.replace(
        &format!("\"time\":{time}"),
        &format!("\"time\":{}", time - 3600),
    );
    let sandbox = Sandbox::new("none");
    let file = sandbox.file("work/first", &first, 0o644);
    let piped = sandbox.file("work/piped", &format!("a02: {old}"), 0o644);
    let shown = |more: &str| {
        let script = format!("getgpu --list --from {file:?} - {more} < {piped:?}");
        sandbox.shell("bash", &script).run()
    };
    let table = shown("");
    let lines: Vec<&str> = table.exits(0).stdout.lines().collect();
    assert!(lines[0].starts_with("HOST INDEX GPU"), "{table:#?}");
    let of = |host: &str| lines.iter().filter(|line| line.starts_with(host)).count();
    assert_eq!((of("a01 "), of("a02 ")), (4, 4));
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("a01") && line.contains("leased"))
    );
    assert!(
        lines.last().unwrap().starts_with("7 of 8 free; "),
        "{table:#?}"
    );
    let free = shown("--free");
    assert_eq!(free.exits(0).stdout.lines().count(), 1 + 7 + 1);
    let csv = shown("--format csv");
    let rows: Vec<&str> = csv.exits(0).stdout.lines().collect();
    assert!(
        rows[0].ends_with(",host") && rows[1].ends_with(",a01"),
        "{csv:#?}"
    );
}

#[test]
fn a_listing_of_another_time_is_said_to_be() {
    let sandbox = Sandbox::new("mig4");
    let mut listing = listing::json(&sandbox);
    listing["time"] = (listing["time"].as_u64().unwrap() - 7200).into();
    listing["host"] = "a01".into();
    sandbox.file("work/old", &listing.to_string(), 0o644);
    let shown = sandbox.ask("--list --from old");
    shown.exits(0).says(&["getgpu: a01: as it was 2 h 00 ago"]);
}

/// A node that broke off, one whose name is no UTF-8, one that was asked twice, and counts of any size.
#[test]
fn a_line_that_is_no_listing_loses_no_other_host() {
    let nodes = [Sandbox::new("mig4"), Sandbox::new("gpus4")];
    let mut again = listing::json(&nodes[0]);
    again["host"] = "a01".into();
    again["waiting"] = u64::MAX.into();
    let listings = [
        of_host(&nodes[0], "a01"),
        "{\"host\": \"a03\", \"ti\n".to_owned(),
        of_host(&nodes[1], "a02"),
        format!("a01: {again}\n"),
    ];
    let sandbox = Sandbox::new("none");
    sandbox.file("work/all", &listings.concat(), 0o644);
    sandbox.file("work/down", "", 0o644);
    let script = "{ printf '\\377\\n'; cat all; } | getgpu --list --from - --from down";
    let shown = sandbox.shell("bash", script).run();
    shown.exits(0).says(&[
        "getgpu: --from -: line 3 is no listing: EOF while parsing a string",
        "getgpu: --from down: no listing",
    ]);
    let rows = |host: &str| {
        let lines = shown.stdout.lines();
        lines.filter(|line| line.starts_with(host)).count()
    };
    assert_eq!((rows("a01 "), rows("a02 "), rows("a03")), (4, 4, 0));
    // Another host of that name.
    let again = of_host(&nodes[1], "a01") + &of_host(&nodes[0], "a01");
    sandbox.file("work/all", &again, 0o644);
    let shown = sandbox.ask("--list --from all");
    shown.exits(0);
    let lines = shown.stdout.lines();
    assert_eq!(lines.filter(|line| line.starts_with("a01 ")).count(), 8);
}

#[test]
fn what_is_no_listing_is_refused() {
    let sandbox = Sandbox::new("mig4");
    sandbox.file("work/text", "ssh: connect to host a01: refused\n", 0o644);
    sandbox.file("work/part", "{\"host\": \"a01\"}\n", 0o644);
    sandbox.refuses(&[
        ("getgpu --list --from text", 2, "--from text: no listing"),
        (
            "getgpu --list --from part",
            2,
            "--from part: line 1 is no listing: missing field `time`",
        ),
        (
            "getgpu --list --from none",
            2,
            "--from none: No such file or directory",
        ),
        ("getgpu --from text", 2, "--from goes with --list"),
    ]);
}
