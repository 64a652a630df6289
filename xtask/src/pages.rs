//! The man pages: what is hand-written under xtask/pages, with what the tables know in
//! the places that it leaves. A place is a line such as `@options@`; an unknown one, or a
//! table without a place, is an error.

use std::path::PathBuf;

use clap::{Arg, Command};

use crate::programs::{self, Program};
use crate::{Made, roff, settings};

/// The day on which the pages were last written with other words; not the day on which
/// they were made, so that they are the same anywhere.
pub const DATE: &str = "2026-11-22";

pub fn all() -> Vec<Made> {
    let programs = programs::all();
    let mut made: Vec<Made> = programs
        .iter()
        .map(|program| made(program.name, 1, page(program)))
        .collect();
    let places = [
        ("head", head("getgpu.toml", 5, "File Formats")),
        ("policy", settings::items(true)),
        ("preferences", settings::items(false)),
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
    let places = [
        ("head", head(program.name, 1, "User Commands")),
        (
            "name",
            format!(
                ".SH NAME\n{}",
                roff::prose(&format!(
                    "{} - {}",
                    program.name,
                    lower(program.guide.about)
                ))
            ),
        ),
        ("options", options(&program.command)),
        ("environment", list(program.guide.environment)),
        ("exit", list(program.guide.exit)),
        ("examples", examples(program.guide.examples)),
    ];
    fill(program.page, &places)
}

fn head(name: &str, section: u8, volume: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".\\\" Made by `cargo run -p xtask` from xtask/pages and the tables of the programs: do not edit.\n\
         .TH \"{}\" \"{section}\" \"{DATE}\" \"getgpu {version}\" \"{volume}\"\n",
        roff::literal(&name.to_uppercase())
    )
}

/// The first letter small, as the one line of a page has it.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

fn list(lines: &[(&str, &str)]) -> String {
    lines
        .iter()
        .map(|(name, meaning)| roff::item(name, meaning))
        .collect()
}

fn examples(examples: &[(&str, &str)]) -> String {
    // A paragraph directly behind a heading is one too many.
    examples
        .iter()
        .map(|(what, line)| {
            format!(
                ".PP\n{}.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n",
                roff::prose(&format!("{}:", roff::capital(what))),
                roff::literal(line)
            )
        })
        .collect::<String>()
        .trim_start_matches(".PP\n")
        .to_owned()
}

/// Every option under its heading.
fn options(command: &Command) -> String {
    let mut headings: Vec<&str> = Vec::new();
    for heading in command.get_opts().filter_map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings
        .iter()
        .map(|heading| {
            let options = command.get_opts();
            let of_heading = options.filter(|option| option.get_help_heading() == Some(heading));
            let items: String = of_heading.map(option).collect();
            format!(".SS \"{heading}\"\n{items}")
        })
        .collect()
}

fn option(option: &Arg) -> String {
    let letters = option.get_short_and_visible_aliases().unwrap_or_default();
    let letters = letters.iter().map(|letter| format!("\\fB\\-{letter}\\fR"));
    let long = option.get_long();
    let long = long.map(|long| format!("\\fB\\-\\-{}\\fR", roff::literal(long)));
    let names: Vec<String> = letters.chain(long).collect();
    let value = option.get_value_names().unwrap_or_default().first();
    let value = value.filter(|_| option.get_action().takes_values());
    let value = value.map_or_else(String::new, |value| {
        let value = format!("\\fI{}\\fR", roff::literal(value));
        if option.is_require_equals_set() {
            format!("[={value}]")
        } else {
            format!(" {value}")
        }
    });
    let help = option.get_help().map(ToString::to_string);
    format!(
        ".TP\n{}{value}\n{}",
        names.join(", "),
        roff::prose(&format!("{}.", help.unwrap_or_default()))
    )
}

/// `text` with each line `@NAME@` replaced.
fn fill(text: &str, places: &[(&str, String)]) -> String {
    let place = |text: String, (name, filled): &(&str, String)| {
        text.replace(&format!("@{name}@\n"), filled)
    };
    places.iter().fold(text.to_owned(), place)
}
