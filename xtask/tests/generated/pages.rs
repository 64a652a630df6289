//! The man pages as a reader and `mandoc` see them: no complaint, every section, every
//! option and every setting.

use std::process::Command;

use getgpu_settings::keys;
use harness::skip::{Need, lacks};

/// The sections that every page has, in this order.
#[rustfmt::skip]
const SECTIONS: [&str; 9] = [
    "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES",
    "SEE ALSO",
];

fn text(name: &str) -> String {
    let page = xtask::top().join("man").join(name);
    let mut mandoc = Command::new("mandoc");
    mandoc.args(["-T", "ascii", "-O", "width=120"]).arg(&page);
    let said = mandoc.output().unwrap();
    assert!(said.status.success(), "{}", page.display());
    // Bold and underlined letters are struck twice, as on a typewriter.
    let struck = String::from_utf8(said.stdout).unwrap();
    let mut plain = String::new();
    for letter in struck.chars() {
        if letter == '\u{8}' {
            plain.pop();
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[test]
fn mandoc_has_nothing_to_complain_of() {
    if lacks(&[Need::Tool("mandoc")]) {
        return;
    }
    for entry in std::fs::read_dir(xtask::top().join("man")).unwrap() {
        let mut mandoc = Command::new("mandoc");
        mandoc
            .args(["-T", "lint", "-W", "warning"])
            .arg(entry.unwrap().path());
        let said = mandoc.output().unwrap();
        let complaint = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success() && complaint.is_empty(), "{complaint}");
    }
}

#[test]
fn every_section_and_every_option_is_on_the_page() {
    if lacks(&[Need::Tool("mandoc")]) {
        return;
    }
    for program in xtask::programs::all() {
        let page = text(&format!("{}.1", program.name));
        let sections = page.lines().filter(|line| SECTIONS.contains(line));
        assert!(sections.eq(SECTIONS), "{}", program.name);
        for option in program.command.get_opts() {
            let letter = option.get_short().map(|letter| format!("-{letter}"));
            let long = option.get_long().map(|long| format!("--{long}"));
            let shown = letter
                .into_iter()
                .chain(long)
                .collect::<Vec<_>>()
                .join(", ");
            assert!(page.contains(&shown), "{shown}: {page}");
        }
        for (variable, _) in program.guide.environment {
            let shown = format!("       {variable}");
            assert!(page.contains(&shown), "{variable}: {page}");
        }
    }
}

#[test]
fn every_setting_is_on_its_page_as_policy_or_preference() {
    if lacks(&[Need::Tool("mandoc")]) {
        return;
    }
    let page = text("getgpu.toml.5");
    let (policy, rest) = page.split_once("Preferences: ").unwrap();
    for key in keys::all() {
        let part = if key.policy { policy } else { rest };
        let shown = format!("\n       {}", key.name);
        let kind = if key.policy { "policy" } else { "preference" };
        assert!(
            part.contains(&shown),
            "{} is not on the page as a {kind}: cargo run -p xtask writes it: {page}",
            key.name
        );
    }
    assert!(page.contains("[program.\"NAME\"]"), "{page}");
}
