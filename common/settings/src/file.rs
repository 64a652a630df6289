//! One settings file: TOML, taken apart into keys and texts, with line and column for
//! everything that is wrong with it. A file that exists and cannot be read is an error,
//! since it may hold the site's policy.

use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::causes::SettingsCause;
use super::{bounded_read, keys};
use getgpu_model::{Failure, reason};

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingEntry {
    pub name: String,
    /// The value's text, or the texts of a list; `None` for a table or a date, which only
    /// a setting of a newer version can have.
    pub texts: Option<Vec<String>>,
    /// `path:line:column` of the key.
    pub(crate) place: String,
    /// The same of the value.
    pub(crate) value_place: String,
}

/// One file of settings, as it was read.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub(crate) path: PathBuf,
    /// Its settings, in the order of the file.
    pub entries: Vec<SettingEntry>,
    /// Its tables of groups, programs and users, those of each in the file's order.
    pub(crate) tables: Vec<Table>,
}

/// For whom a table of settings is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `[group.NAME]`: limits of the members of a Unix group.
    Group,
    /// `[program."NAME"]`: preferences for programs, by a pattern of their name.
    Program,
    /// `[user.NAME]`: limits of one user.
    User,
}

impl Scope {
    /// The scope that the first word of a table's name says.
    fn parse(word: &str) -> Option<Self> {
        let all = [Self::Group, Self::Program, Self::User];
        all.into_iter().find(|scope| scope.word() == word)
    }

    /// The first word of such a table's name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Program => "program",
            Self::User => "user",
        }
    }
}

/// One of these tables.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub scope: Scope,
    pub name: String,
    pub entries: Vec<SettingEntry>,
}

impl File {
    /// Reads `path`; `None` if nothing has that name, as far as can be seen, and `may_be_missing`
    /// says so of the error of that look.
    ///
    /// # Errors
    ///
    /// It cannot be read, is not UTF-8, or is no TOML.
    pub(crate) fn read(
        path: &Path,
        may_be_missing: impl Fn(io::ErrorKind) -> bool,
    ) -> Result<Option<Self>, Failure> {
        let is_missing = || {
            let looked = std::fs::symlink_metadata(path);
            looked.is_err_and(|error| may_be_missing(error.kind()))
        };
        let text = bounded_read::read(path).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
        });
        let text = match text {
            Ok(text) => text,
            Err(_) if is_missing() => return Ok(None),
            Err(error) => {
                let (path, why) = (path.display(), reason(&error));
                // A file that GETGPU_CONFIG names.
                let remedy = match error.kind() {
                    io::ErrorKind::NotFound => "unset GETGPU_CONFIG, or write that file",
                    _ => "",
                };
                return Err(SettingsCause::Unreadable { path, why, remedy }.into());
            }
        };
        Self::parse(path, &text).map(Some)
    }

    /// All its entries, those of its tables last.
    pub fn all_entries(&self) -> impl Iterator<Item = &SettingEntry> {
        let of_tables = self.tables.iter().flat_map(|table| &table.entries);
        self.entries.iter().chain(of_tables)
    }

    /// Whether there is more than comments in it.
    pub(crate) fn sets_something(&self) -> bool {
        !self.entries.is_empty() || !self.tables.is_empty()
    }

    /// Reads the text of a file that is at `path`.
    ///
    /// # Errors
    ///
    /// It is no TOML, or has a value of a kind that no setting has.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let source = Text { path, text };
        let table = DeTable::parse(text).map_err(|error| {
            let why = error.message().lines().collect::<Vec<_>>().join(", ");
            let at = source.position(error.span().map_or(0, |span| span.start));
            SettingsCause::NoToml { at, why }
        })?;
        let mut file = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        for (key, value) in table.get_ref() {
            let table = key.get_ref();
            let in_table = value.get_ref().as_table();
            if let Some(settings) = in_table.filter(|_| keys::is_table(table)) {
                for (key, value) in settings {
                    let name = format!("{table}.{}", key.get_ref());
                    file.entries.push(source.entry(&name, key, value));
                }
                continue;
            }
            let Some(scope) = Scope::parse(key.get_ref()) else {
                file.entries.push(source.entry(key.get_ref(), key, value));
                continue;
            };
            let tables = value.get_ref().as_table();
            let no_table = |at| SettingsCause::NoTable {
                at: source.position(at),
                scope: scope.word(),
            };
            let tables = tables.ok_or_else(|| no_table(key.span().start))?;
            // In the order of the file, since later settings win; the parser sorts by name.
            let mut tables: Vec<_> = tables.iter().collect();
            tables.sort_by_key(|(name, _)| name.span().start);
            for (name, settings) in tables {
                let settings = settings.get_ref().as_table();
                let settings = settings.ok_or_else(|| no_table(name.span().start))?;
                let entries = settings
                    .iter()
                    .map(|(key, value)| source.entry(key.get_ref(), key, value));
                file.tables.push(Table {
                    scope,
                    name: name.get_ref().to_string(),
                    entries: entries.collect(),
                });
            }
        }
        Ok(file)
    }
}

/// The text of a file, in which places are told by line and column.
struct Text<'t> {
    path: &'t Path,
    text: &'t str,
}

impl Text<'_> {
    fn entry<K>(&self, name: &str, key: &Spanned<K>, value: &Spanned<DeValue<'_>>) -> SettingEntry {
        let texts = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| scalar(item.get_ref())).collect(),
            value => scalar(value).map(|text| vec![text]),
        };
        SettingEntry {
            name: name.to_owned(),
            texts,
            place: self.position(key.span().start),
            value_place: self.position(value.span().start),
        }
    }

    fn position(&self, at: usize) -> String {
        let before = self.text.get(..at).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        format!("{}:{line}:{column}", self.path.display())
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
