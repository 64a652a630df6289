//! The man pages: what is hand-written under xtask/pages, with what the tables know in
//! the places that it leaves, by clap_mangen and roff. A place is a line such as
//! `@options@`; an unknown one, or a table without a place, is an error.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use getgpu_settings::{Settings, keys};
use roff::{Inline, Roff, bold, line_break, roman};

use crate::Made;
use crate::programs::{self, Program};

/// The day on which the pages were last written with other words; not the day on which
/// they were made, so that they are the same anywhere.
pub const DATE: &str = "2026-11-25";

pub fn all() -> Vec<Made> {
    let programs = programs::all();
    let mut made: Vec<Made> = programs
        .iter()
        .map(|program| made(program.name, 1, page(program)))
        .collect();
    let places = [
        ("head", head("getgpu.toml", 5, "File Formats")),
        ("policy", settings(true)),
        ("preferences", settings(false)),
    ];
    let settings = fill(include_str!("../pages/getgpu.toml.5"), &places);
    made.push(self::made("getgpu.toml", 5, settings));
    made
}

fn made(name: &str, section: u8, text: String) -> Made {
    Made {
        path: PathBuf::from(format!("man/{name}.{section}")),
        text,
    }
}

fn page(program: &Program) -> String {
    let name = format!("{} - {}", program.name, program.guide.about);
    let places = [
        ("head", head(program.name, 1, "User Commands")),
        ("name", Roff::new().text([roman(name)]).to_roff()),
        ("options", options(&program.command)),
        ("environment", list(program.guide.environment)),
        ("exit", list(program.guide.exit)),
        ("examples", examples(program.guide.examples)),
    ];
    fill(program.page, &places)
}

fn head(name: &str, section: u8, volume: &str) -> String {
    let version = format!("getgpu {}", env!("CARGO_PKG_VERSION"));
    let (name, section) = (name.to_uppercase(), section.to_string());
    let title = [&name, section.as_str(), DATE, &version, volume];
    let title = Roff::new().control("TH", title).render();
    format!(
        ".\\\" Made by `cargo run -p xtask` from xtask/pages and the tables of the programs: do not edit.\n{title}"
    )
}

/// An entry of a list: a name, and what it means.
fn item(name: &str, meaning: impl Into<Vec<Inline>>) -> String {
    let mut item = Roff::new();
    item.control("TP", []).text([bold(name)]).text(meaning);
    item.to_roff()
}

fn list(lines: &[(&str, &str)]) -> String {
    let items = lines.iter();
    items
        .map(|(name, what)| item(name, [roman(*what)]))
        .collect()
}

/// The settings that are policy, or those that are preferences.
fn settings(policy: bool) -> String {
    let built_in = Settings::default();
    let keys = keys::all().filter(|key| key.policy == policy);
    keys.map(|key| {
        // A list can be broken between its items.
        let value = (key.show)(&built_in).replace("\",\"", "\", \"");
        let help = roman(format!("{}.", key.help));
        let value = roman(format!("Built in: {value}"));
        item(key.name, [help, line_break(), value])
    })
    .collect()
}

fn examples(examples: &[(&str, &str)]) -> String {
    // A paragraph directly behind a heading is one too many.
    let mut all = Roff::new();
    for (number, (what, line)) in examples.iter().enumerate() {
        if number > 0 {
            all.control("PP", []);
        }
        all.text([roman(format!("{what}:"))]).control("PP", []);
        all.control("RS", ["4"]).control("nf", []);
        all.text([roman(*line)]);
        all.control("fi", []).control("RE", []);
    }
    all.to_roff()
}

/// Every option, under a subsection for each heading. What is no option has a place in the
/// synopsis.
fn options(command: &Command) -> String {
    let command = command.clone().mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || arg.is_positional();
        arg.hide(is_hidden)
    });
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = Man::new(command).render_options_section(&mut text);
    let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
    let first = text.find(".SS ").unwrap_or(0);
    text[first..].to_owned()
}

/// `text` with each line `@NAME@` replaced.
fn fill(text: &str, places: &[(&str, String)]) -> String {
    let place = |text: String, (name, filled): &(&str, String)| {
        text.replace(&format!("@{name}@\n"), filled)
    };
    places.iter().fold(text.to_owned(), place)
}
