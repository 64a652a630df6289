//! `cargo run -p xtask -- messages`: every failure there is, by crate, with the exit status, the
//! line that the user sees, and the hints. Read from the tables of `causes!`.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::Path;

use getgpu_model::{Kind, exit};

use crate::size;

/// A row of a table, or one of the parts that others have in the place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseRow {
    /// The folder of the crate, such as `common/lock`.
    pub folder: String,
    /// The name of the enum, and that of the row.
    pub table: String,
    pub name: String,
    /// The values with their types.
    pub fields: Vec<(String, String)>,
    /// None: a part.
    pub kind: Option<Kind>,
    pub message: String,
    pub hint: Option<String>,
}

/// All rows of all crates.
///
/// # Errors
///
/// A file cannot be read, or a row is written otherwise than the others.
pub fn rows(top: &Path) -> Result<Vec<CauseRow>, String> {
    let (mut rows, mut constants) = (Vec::new(), Vec::new());
    for file in size::products(top)? {
        let text = std::fs::read_to_string(top.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        let found = text.split("const ").filter_map(constant);
        constants.extend(found.map(|(name, value)| (format!("{{{name}}}"), value.to_owned())));
        if let Some((folder, _)) = file.split_once("/src/causes.rs") {
            rows.extend(of_file(folder, &text).map_err(|row| format!("{file}: {row}"))?);
        }
    }
    for text in rows
        .iter_mut()
        .flat_map(|row| iter::once(&mut row.message).chain(&mut row.hint))
    {
        for (place, value) in &constants {
            *text = text.replace(place, value);
        }
    }
    Ok(rows)
}

/// The name and the value of a constant text, behind the word `const`.
fn constant(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(": &str =")?;
    let (value, _) = rest.trim_start().strip_prefix('"')?.split_once("\";")?;
    (word(name) == name).then_some((name, value))
}

/// The rows of a file; the error is one that cannot be read.
fn of_file(folder: &str, text: &str) -> Result<Vec<CauseRow>, String> {
    let tables = text.split("\ncauses! {\n").skip(1);
    let lines = tables.flat_map(|table| table.lines().take_while(|line| *line != "}"));
    let (mut table, mut row, mut rows) = (String::new(), String::new(), Vec::new());
    for line in lines.map(str::trim) {
        if line.is_empty() || line.starts_with("//") || line.starts_with("#[") || line == "}" {
            continue;
        }
        if let Some((_, name)) = line.split_once("enum ") {
            table = word(name).to_owned();
            continue;
        }
        row = format!("{row} {line}");
        if line.ends_with("\";") {
            let read = read(folder, &table, row.trim());
            rows.push(read.ok_or_else(|| row.clone())?);
            row.clear();
        }
    }
    if row.is_empty() { Ok(rows) } else { Err(row) }
}

/// A row such as `Lost { path: Display<'a> } => LockPlace: "lock {path}: lost", "ask again";`.
fn read(folder: &str, table: &str, row: &str) -> Option<CauseRow> {
    let (head, texts) = row.split_once(" => ")?;
    let name = word(head).to_owned();
    let fields = head.split_once('{').map_or("", |(_, fields)| fields);
    let fields = fields.trim_end_matches([' ', '}', ',']).split(", ");
    let fields = fields.filter_map(|field| field.trim().split_once(": "));
    let fields = fields.map(|(name, of)| (name.to_owned(), of.to_owned()));
    let (kind, texts) = match texts.split_once(": \"") {
        Some((kind, _)) if word(kind) == kind => {
            let known = serde_json::from_value(kind.into()).ok()?;
            (Some(known), &texts[kind.len() + 2..])
        }
        _ => (None, texts),
    };
    let mut texts = texts
        .strip_prefix('"')?
        .strip_suffix("\";")?
        .split("\", \"");
    let plain = |text: &str| text.replace("\\\"", "\"");
    Some(CauseRow {
        folder: folder.to_owned(),
        table: table.to_owned(),
        name,
        fields: fields.collect(),
        kind,
        message: plain(texts.next()?),
        hint: texts.next().map(plain),
    })
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

impl CauseRow {
    /// A text of this row with each of the parts that it may have.
    pub fn shown(&self, text: &str, rows: &[Self]) -> BTreeSet<String> {
        let mut shown = BTreeSet::from([text.to_owned()]);
        for (field, of) in &self.fields {
            let parts = rows.iter().filter(|row| {
                row.kind.is_none() && row.folder == self.folder && row.table == word(of)
            });
            let parts: Vec<_> = parts
                .flat_map(|row| row.shown(&row.message, rows))
                .collect();
            let place = format!("{{{field}}}");
            if !parts.is_empty() && text.contains(&place) {
                let each = |text: &String| {
                    let filled = parts.iter().map(|part| text.replace(&place, part));
                    filled.collect::<Vec<_>>()
                };
                shown = shown.iter().flat_map(each).collect();
            }
        }
        shown
    }

    /// The status that each program ends with, which can have this failure.
    fn status(&self) -> String {
        let Some(kind) = self.kind else {
            return String::new();
        };
        match self.folder.split('/').next() {
            Some("getgpu") => exit::getgpu(kind).to_string(),
            Some("cudawrap") => exit::cudawrap(kind).to_string(),
            Some("create-cudawrap") => exit::create_cudawrap(kind).to_string(),
            _ => format!("{}, {}", exit::getgpu(kind), exit::cudawrap(kind)),
        }
    }
}

/// All failures, by crate: the statuses (of getgpu and cudawrap, where both have it), the line, and
/// below it the hints.
///
/// # Errors
///
/// As `rows`.
pub fn table(top: &Path) -> Result<String, String> {
    let rows = rows(top)?;
    let mut crates: BTreeMap<&str, String> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kind.is_some()) {
        let lines = crates.entry(&row.folder).or_default();
        let hints = row.hint.as_ref().map(|hint| row.shown(hint, &rows));
        for message in row.shown(&row.message, &rows) {
            *lines += &format!("{:>8}  {message}\n", row.status());
        }
        for hint in hints.iter().flatten().filter(|hint| !hint.is_empty()) {
            *lines += &format!("{:>8}  hint: {hint}\n", "");
        }
    }
    let crates = crates.iter();
    Ok(crates
        .map(|(name, lines)| format!("{name}\n{lines}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_parts_are_read() {
        let text = "use x;\n\ncauses! {\n    /// Why.\n    enum Cause<'a> {\n        /// Once.\n        \
                    Lost { path: Display<'a>, why: Part } => LockPlace:\n            \"lock {path}: {why}\", \
                    \"ask \\\"again\\\"\";\n        Gone => Usage: \"gone\";\n    }\n\n    enum Part {\n        \
                    Old => \"it is old: too old\";\n        Of { uid: u32 } => \"it is of {uid}\";\n    }\n}\n";
        let rows = of_file("common/lock", text).unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].hint.as_deref(), Some("ask \"again\""));
        let shown = rows[0].shown(&rows[0].message, &rows);
        let shown: Vec<_> = shown.iter().map(String::as_str).collect();
        assert_eq!(
            shown,
            [
                "lock {path}: it is of {uid}",
                "lock {path}: it is old: too old"
            ]
        );
        assert_eq!(
            (rows[0].status(), rows[1].kind),
            ("4, 125".into(), Some(Kind::Usage))
        );
        assert_eq!(
            (&*rows[2].message, rows[2].kind),
            ("it is old: too old", None)
        );
        assert!(of_file("x", &text.replace("Usage", "Usages")).is_err());
    }
}
