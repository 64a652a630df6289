//! The listing as comma-separated values (RFC 4180): a line of names, then a line for each
//! device. Several holders of a device stand in one field with semicolons between. Bytes
//! and Unix seconds; an empty field where something is not known.

use getgpu_model::{Gauge, diag::printable};

use super::columns::{COLUMNS, Csv};
use super::rows::Row;

/// The lines, each with the line break that the RFC has.
pub fn text(rows: &[Row], gauges: &[Gauge]) -> String {
    let columns = COLUMNS.iter().filter(|column| column.is_wanted(gauges));
    let columns: Vec<&Csv> = columns.filter_map(|column| column.csv.as_ref()).collect();
    let mut text = line(columns.iter().map(|column| column.name.to_owned()));
    for row in rows {
        text += &line(columns.iter().map(|column| quoted(&(column.value)(row))));
    }
    text
}

fn line(fields: impl Iterator<Item = String>) -> String {
    format!("{}\r\n", fields.collect::<Vec<_>>().join(","))
}

/// Programs have the names that their users give them, with line breaks and worse.
fn quoted(field: &str) -> String {
    let parts = field.split(';').map(|part| no_formula(printable(part)));
    let field = parts.collect::<Vec<_>>().join(";");
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

/// A text that a spreadsheet would take for a formula gets an apostrophe in front, which says that it
/// is a text. Where semicolons separate cells, each holder of a field is a cell.
fn no_formula(text: String) -> String {
    let is_formula = text.starts_with([
        '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ]);
    if is_formula && text.parse::<f64>().is_err() {
        return format!("'{text}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_field_with_a_separator_is_quoted() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b\n\x1b"), "\"a\"\"b\\n\\u{1b}\"");
    }

    #[test]
    fn no_name_is_a_formula() {
        for name in ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "＝1+1"] {
            assert_eq!(quoted(name), format!("'{name}"));
        }
        assert_eq!(quoted("ana;=1+1;bo"), "ana;'=1+1;bo");
        assert_eq!(
            quoted("=HYPERLINK(\"x\",1)"),
            "\"'=HYPERLINK(\"\"x\"\",1)\""
        );
        for plain in ["a=1", "-1", "-0.5", ""] {
            assert_eq!(quoted(plain), plain);
        }
    }
}
