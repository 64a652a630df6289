//! A name for what a program holds: typed, or in CUDAWRAP_TAG, and shown wherever the program
//! is. Nothing is found or decided by it, so any number of programs may have one name.

use getgpu_tests::listing;
use harness::{Sandbox, wait};

fn tags(sandbox: &Sandbox) -> Vec<String> {
    let listed = listing::json(sandbox);
    let devices = listing::devices(&listed).iter();
    let mut tags: Vec<String> = devices
        .filter_map(|device| device["holders"][0]["tag"].as_str().map(str::to_owned))
        .collect();
    tags.sort();
    tags
}

#[test]
fn leases_and_reservations_are_shown_under_their_names() {
    let sandbox = Sandbox::new("mig4");
    let named = sandbox.words("cudawrap --tag night-7 -- sleep 100").spawn();
    let inherited = sandbox
        .words("cudawrap -- sleep 100")
        .env("CUDAWRAP_TAG", "night-7")
        .spawn();
    wait::until("both are leased", || {
        listing::states(&sandbox)
            .iter()
            .filter(|state| *state == "leased")
            .count()
            == 2
    });
    wait::until("both have become the program", || tags(&sandbox).len() == 2);
    let reserved = sandbox
        .getgpu(["--for=600"])
        .env("CUDAWRAP_TAG", "night-8")
        .run();
    reserved.exits(0);
    let listed = listing::json(&sandbox);
    assert_eq!(
        tags(&sandbox),
        ["night-7", "night-7", "night-8"],
        "{listed:#}"
    );
    let table = sandbox.ask("--list");
    table.exits(0).shows(" TAG").shows("night-7");
    let metrics = sandbox.ask("--list --format prometheus").output();
    assert!(metrics.contains("kind=\"lease\""), "{metrics}");
    assert!(metrics.contains(",tag=\"night-7\"}"), "{metrics}");
    // A label is no name that a reservation is found by.
    sandbox.ask("--release night-8").exits(1);
    let shown = sandbox
        .words("cudawrap --tag x.y -- printenv CUDAWRAP_TAG")
        .run();
    shown.answers("x.y\n");
    named.kill();
    inherited.kill();
}

#[test]
fn a_waiter_is_shown_under_its_name() {
    let sandbox = Sandbox::new("h200x1");
    let first = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiters = [
        sandbox.words("cudawrap --tag typed --wait -- true").spawn(),
        sandbox
            .words("cudawrap --wait -- true")
            .env("CUDAWRAP_TAG", "inherited")
            .spawn(),
    ];
    wait::until("both wait", || listing::waiting(&sandbox) == 2);
    let queue = listing::json(&sandbox)["queue"].clone();
    let mut tags = [queue[0]["tag"].as_str(), queue[1]["tag"].as_str()];
    tags.sort();
    assert_eq!(tags, [Some("inherited"), Some("typed")]);
    sandbox.ask("--queue").exits(0).shows(" TAG ");
    first.kill();
    for waiter in waiters {
        waiter.wait().exits(0);
    }
}

#[test]
fn a_name_that_is_no_word_is_refused() {
    let sandbox = Sandbox::new("mig4");
    let expected = "`a b`: expected 1 to 64 characters of A-Z a-z 0-9 . _ -";
    let typed = sandbox
        .command("cudawrap")
        .args(["--tag", "a b", "--", "true"]);
    typed.run().exits(125).mentions(expected);
    for words in ["cudawrap -- true", "getgpu"] {
        let run = sandbox.words(words).env("CUDAWRAP_TAG", "a b").run();
        assert!([2, 125].contains(&run.code().unwrap()), "{run:?}");
        run.mentions(&format!("CUDAWRAP_TAG: {expected}"));
    }
}
