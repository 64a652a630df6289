//! One settings file: TOML, taken apart into keys and texts, with line and column for
//! everything that is wrong with it. A file that exists and cannot be read is an error,
//! since it may hold the site's policy.

use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::bounded_read;
use crate::error::{Failure, Kind, reason};

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    /// The value's text, or the texts of a list; `None` for a table or a date, which only
    /// a setting of a newer version can have.
    pub texts: Option<Vec<String>>,
    /// `path:line:column` of the key.
    pub place: String,
    /// The same of the value.
    pub value_place: String,
}

#[derive(Clone, Debug, Default)]
pub struct File {
    pub path: PathBuf,
    pub entries: Vec<Entry>,
    /// Its `[program."NAME"]` tables, in its order: the pattern of the name, and the
    /// settings.
    pub programs: Vec<(String, Vec<Entry>)>,
}

impl File {
    /// Reads `path`; `None` if there is no such file and it need not exist.
    pub fn read(path: &Path, must_exist: bool) -> Result<Option<Self>, Failure> {
        let text = |bytes| {
            String::from_utf8(bytes)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
        };
        let text = match bounded_read::read(path).and_then(text) {
            Ok(text) => text,
            // A home that is not ours (`sudo -u` with HOME kept) has no file of ours
            // either.
            Err(_) if !must_exist && std::fs::symlink_metadata(path).is_err() => return Ok(None),
            Err(error) => {
                return Err(Failure::new(
                    Kind::Usage,
                    format!("{}: cannot be read: {}", path.display(), reason(&error)),
                ));
            }
        };
        Self::parse(path, &text).map(Some)
    }

    /// Whether there is more than comments in it.
    pub fn sets_something(&self) -> bool {
        !self.entries.is_empty() || !self.programs.is_empty()
    }

    /// Reads the text of a file that is at `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let table = DeTable::parse(text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            wrong(
                &position(path, text, error.span().map_or(0, |span| span.start)),
                &message,
            )
        })?;
        let mut file = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        for (key, value) in table.get_ref() {
            if let ("slurm", Some(hooks)) = (key.get_ref().as_ref(), value.get_ref().as_table()) {
                for (key, value) in hooks {
                    let name = format!("slurm.{}", key.get_ref());
                    file.entries
                        .push(entry(path, text, &name, key.span().start, value));
                }
                continue;
            }
            if key.get_ref() != "program" {
                file.entries
                    .push(entry(path, text, key.get_ref(), key.span().start, value));
                continue;
            }
            let tables = value.get_ref().as_table();
            let form = "expected [program.\"NAME\"] with settings below it";
            let tables =
                tables.ok_or_else(|| wrong(&position(path, text, key.span().start), form))?;
            // In the order of the file, since later settings win; the parser sorts by name.
            let mut tables: Vec<_> = tables.iter().collect();
            tables.sort_by_key(|(name, _)| name.span().start);
            for (name, settings) in tables {
                let place = position(path, text, name.span().start);
                let settings = settings
                    .get_ref()
                    .as_table()
                    .ok_or_else(|| wrong(&place, form))?;
                let entries = settings
                    .iter()
                    .map(|(k, v)| entry(path, text, k.get_ref(), k.span().start, v));
                file.programs
                    .push((name.get_ref().to_string(), entries.collect()));
            }
        }
        Ok(file)
    }
}

fn entry(path: &Path, text: &str, name: &str, at: usize, value: &Spanned<DeValue<'_>>) -> Entry {
    let texts = match value.get_ref() {
        DeValue::Array(items) => items
            .iter()
            .map(|item| scalar(item.get_ref()))
            .collect::<Option<_>>(),
        value => scalar(value).map(|text| vec![text]),
    };
    Entry {
        name: name.to_owned(),
        texts,
        place: position(path, text, at),
        value_place: position(path, text, value.span().start),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn position(path: &Path, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or("");
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    format!("{}:{line}:{column}", path.display())
}

fn wrong(place: &str, why: &str) -> Failure {
    Failure::new(Kind::Usage, format!("{place}: {why}"))
}
