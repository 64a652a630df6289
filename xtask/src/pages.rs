//! The man pages: what is hand-written under xtask/pages, with what the tables know in
//! the places that it leaves. A place is a line such as `@options@`; one that nobody
//! knows, or a table without a place, is an error.

use std::path::PathBuf;

use getgpu_common::flags::{Flag, Takes};

use crate::programs::{self, Program};
use crate::{Made, roff, settings};

/// The day on which the pages were last written with other words; not the day on which
/// they were made, so that they are the same anywhere.
pub const DATE: &str = "2026-11-22";

pub fn all() -> Result<Vec<Made>, String> {
    let mut made: Vec<Made> = programs::all()
        .iter()
        .map(|program| made(program.name, 1, page(program)?))
        .collect::<Result<_, String>>()?;
    made.push(made_settings()?);
    Ok(made)
}

fn made_settings() -> Result<Made, String> {
    let places = [
        ("head", head("getgpu.toml", 5, "File Formats")),
        ("policy", settings::items(true)),
        ("preferences", settings::items(false)),
    ];
    made(
        "getgpu.toml",
        5,
        fill(include_str!("../pages/getgpu.toml.5"), &places)?,
    )
}

fn made(name: &str, section: u8, text: String) -> Result<Made, String> {
    match text.lines().find(|line| line.trim().is_empty()) {
        Some(_) => Err(format!(
            "{name}({section}): an empty line, which man(7) does not have"
        )),
        None => Ok(Made {
            path: PathBuf::from(format!("man/{name}.{section}")),
            text,
        }),
    }
}

fn page(program: &Program) -> Result<String, String> {
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
        ("options", options(&program.flags)),
        ("environment", list(program.guide.environment)),
        ("exit", list(program.guide.exit)),
        ("examples", examples(program.guide.examples)),
    ];
    fill(program.page, &places).map_err(|why| format!("{}(1): {why}", program.name))
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
    let one = |(what, line): &(&str, &str)| {
        format!(
            ".PP\n{}.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n",
            roff::prose(&format!("{}:", upper(what))),
            roff::literal(line)
        )
    };
    // A paragraph directly behind a heading is one too many.
    examples
        .iter()
        .map(one)
        .collect::<String>()
        .trim_start_matches(".PP\n")
        .to_owned()
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Every option under its heading.
fn options(flags: &[Flag]) -> String {
    let mut headings: Vec<&str> = Vec::new();
    for flag in flags {
        if !headings.contains(&flag.heading) {
            headings.push(flag.heading);
        }
    }
    let under = |heading: &&str| {
        let items: String = flags
            .iter()
            .filter(|flag| flag.heading == *heading)
            .map(option)
            .collect();
        format!(".SS \"{heading}\"\n{items}")
    };
    headings.iter().map(under).collect()
}

fn option(flag: &Flag) -> String {
    let long = format!("\\fB\\-\\-{}\\fR", roff::literal(flag.long));
    let value = |name: &str| format!("\\fI{}\\fR", roff::literal(name));
    let letter = |letter: &char| match flag.takes {
        Takes::Optional { name, .. } => format!("\\fB\\-{letter}\\fR {}", value(name)),
        _ => format!("\\fB\\-{letter}\\fR"),
    };
    let mut names: Vec<String> = flag.short.iter().map(letter).collect();
    names.push(match flag.takes {
        Takes::Nothing => long,
        Takes::Value(name) | Takes::Many(name) => format!("{long} {}", value(name)),
        Takes::Optional { name, .. } => format!("{long}[={}]", value(name)),
    });
    format!(
        ".TP\n{}\n{}",
        names.join(", "),
        roff::prose(&format!("{}.", flag.help))
    )
}

/// `text` with each line `@NAME@` replaced.
fn fill(text: &str, places: &[(&str, String)]) -> Result<String, String> {
    if let Some((name, _)) = places
        .iter()
        .find(|(name, _)| !text.lines().any(|line| line == format!("@{name}@")))
    {
        return Err(format!("there is no line @{name}@"));
    }
    let mut filled = String::new();
    for line in text.lines() {
        match line
            .strip_prefix('@')
            .and_then(|rest| rest.strip_suffix('@'))
        {
            None => filled.push_str(&format!("{line}\n")),
            Some(name) => match places.iter().find(|(place, _)| *place == name) {
                Some((_, text)) => filled.push_str(text),
                None => return Err(format!("nothing is known for @{name}@")),
            },
        }
    }
    Ok(filled)
}
