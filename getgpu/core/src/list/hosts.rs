//! `--list --from`: the listings of several hosts as one table. Each is the JSON that `getgpu --list
//! --json` printed there, on one line, as ssh, pdsh or clush bring it. This host is not asked.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use getgpu_choose::Outside;
use getgpu_model::{Failure, diag, quantity::brief, quantity::unix_seconds, reason};
use serde::Deserialize;

use super::rows::Row;
use super::{csv, style, summary, table};
use crate::causes::GetgpuUsage;
use crate::options::{Format, GetgpuOptions};

/// The most that is read of a file, in bytes: some thousand hosts.
const MOST: u64 = 256 << 20;
/// A listing that is older is said to be, since much may have changed.
const OLD: Duration = Duration::from_secs(60);

/// What is read of a listing; names that are not known are passed over.
#[derive(Deserialize)]
struct Document {
    host: String,
    /// In Unix seconds.
    time: u64,
    waiting: usize,
    devices: Vec<Row>,
    #[serde(default)]
    silent: Vec<ToldSilent>,
    #[serde(default)]
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct ToldSilent {
    gpu: u32,
    reason: Option<String>,
}

/// Shows the listings in these files; `-` is standard input. Of a host that comes twice the newest counts,
/// and what is no listing is told beside the others.
///
/// # Errors
///
/// A file cannot be read or is too large, or no file has a listing.
pub fn show(files: &[PathBuf], options: &GetgpuOptions) -> Result<(), Failure> {
    let (mut hosts, mut problems) = (Vec::<Document>::new(), Vec::new());
    for file in files {
        let name = file.display().to_string();
        let text = read(file).map_err(|error| {
            let (file, why) = (&name, reason(&error));
            GetgpuUsage::NoListingRead { file, why }
        })?;
        let (documents, wrong) = documents(&text);
        problems.extend(wrong.iter().map(|why| format!("--from {name}: {why}")));
        for document in documents {
            match hosts.iter_mut().find(|known| known.is_same_host(&document)) {
                Some(known) if known.time <= document.time => *known = document,
                Some(_) => {}
                None => hosts.push(document),
            }
        }
    }
    if hosts.is_empty() {
        let first = problems.into_iter().next().unwrap_or_default();
        return Err(GetgpuUsage::NoListing { first }.into());
    }
    hosts.sort_by(|one, other| one.host.cmp(&other.host));
    problems.extend(hosts.iter().flat_map(problems_of));
    let waiting = hosts
        .iter()
        .fold(0, |sum, host| host.waiting.saturating_add(sum));
    let all: Vec<Row> = hosts.into_iter().flat_map(rows).collect();
    let summary = summary::text(&all, waiting);
    let is_shown = |row: &Row| options.only.iter().all(|only| row.is_shown(only));
    let shown: Vec<Row> = all.into_iter().filter(is_shown).collect();
    let text = match options.format {
        Format::Csv => csv::text(&shown, &[]),
        _ => table::text(&shown, &summary, style(options), &[]),
    };
    diag::show(&text)?;
    let diag = diag::Diag::new("getgpu", options.level);
    for problem in problems {
        diag.warn(&problem);
    }
    Ok(())
}

impl Document {
    /// Whether this is an earlier or later listing of a host, and not that of another one of its name,
    /// which has other devices.
    fn is_same_host(&self, other: &Self) -> bool {
        let has = |row: &Row| self.devices.iter().any(|own| own.uuid == row.uuid);
        let is_empty = self.devices.is_empty() || other.devices.is_empty();
        self.host == other.host && (is_empty || other.devices.iter().any(has))
    }
}

fn read(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let read: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(File::open(file)?),
    };
    read.take(MOST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == MOST {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The listings of a text. What stands before one on its line is the name that pdsh and clush put
/// there; lines without one are left out, if there is any. Beside them what is wrong with other lines.
fn documents(text: &str) -> (Vec<Document>, Vec<String>) {
    let (mut documents, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let Some(begin) = line.find('{') else {
            continue;
        };
        match serde_json::from_str(&line[begin..]) {
            Ok(document) => documents.push(document),
            Err(error) => {
                // Without the place, which counts lines of its own.
                let text = error.to_string();
                let why = text.split(" at line ").next().unwrap_or_default();
                wrong.push(format!("line {number} is no listing: {why}"));
            }
        }
    }
    if documents.is_empty() && wrong.is_empty() {
        wrong.push("no listing".to_owned());
    }
    (documents, wrong)
}

fn rows(host: Document) -> impl Iterator<Item = Row> {
    let name = host.host;
    host.devices.into_iter().map(move |row| Row {
        outside: outside(&row),
        host: Some(name.clone()),
        ..row
    })
}

/// Why a device of another host is not in the pool there, as far as its listing tells.
const fn outside(row: &Row) -> Option<Outside> {
    match row {
        Row { excluded: true, .. } => Some(Outside::Excluded),
        Row { allowed: false, .. } => Some(Outside::NotAllowed),
        Row { usable: false, .. } => Some(Outside::NotUsable),
        _ => None,
    }
}

/// What is wrong on a host, each line with its name.
fn problems_of(host: &Document) -> Vec<String> {
    let age = Duration::from_secs(unix_seconds().saturating_sub(host.time));
    let age = (age > OLD).then(|| format!("as it was {} ago", brief(age)));
    let silent = host.silent.iter().map(|silent| {
        let why = silent.reason.as_deref().unwrap_or("does not answer");
        format!("GPU {}: {why}", silent.gpu)
    });
    let lines = age
        .into_iter()
        .chain(silent)
        .chain(host.problems.iter().cloned());
    lines.map(|line| format!("{}: {line}", host.host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_listing_behind_whatever_name_a_tool_puts_there() {
        let document = r#"{"schema":1,"host":"a01","time":1,"waiting":2,"devices":[],"later":{}}"#;
        let text = format!("---\na01: {document}\n{document}\n");
        assert_eq!(documents(&text).0.len(), 2);
        for (text, why) in [
            ("", "no listing"),
            ("ssh: connect to host a01 port 22: refused\n", "no listing"),
            (
                "{\"host\":\"a01\"}\n",
                "line 1 is no listing: missing field `time`",
            ),
        ] {
            let (found, wrong) = documents(text);
            assert!(found.is_empty() && wrong == [why], "{wrong:?}");
        }
    }
}
