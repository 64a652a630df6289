//! The listing as a table: columns as wide as the terminal allows and a heading for each
//! GPU, or in a pipe and a file a line for each device. Pure text; control characters are
//! shown, not sent.

use getgpu_model::{Gauge, diag::printable, quantity::unix_seconds};

use super::cells::Line;
use super::columns::{COLUMNS, When};
use super::rows::Row;
use super::style::Style;
use super::width::{fit, padded, width};

/// How many letters wide, in a pipe, the columns are together that every table has.
const PIPE: usize = 80;

/// A column that is shown: its place among [`COLUMNS`], and how wide it is.
type ShownLines = (usize, usize);

/// A line with the text of each of [`COLUMNS`].
struct Filled<'r> {
    line: Line<'r>,
    cells: Vec<String>,
}

/// The table, then the summary.
pub fn text(rows: &[Row], summary: &str, style: Style, gauges: &[Gauge]) -> String {
    let now = unix_seconds();
    let lines = rows.iter().flat_map(|row| Line::all_of(row, now, style));
    let lines: Vec<Filled<'_>> = lines.map(Filled::new).collect();
    let shown = layout(&lines, style, gauges);
    let headings = shown.iter();
    let headings = headings.map(|(at, width)| padded(COLUMNS[*at].heading, *width));
    let mut text = joined(headings);
    for of_gpu in lines.chunk_by(|one, other| gpu(one.line.row) == gpu(other.line.row)) {
        if let (Some(_), [first, ..]) = (style.terminal, of_gpu) {
            text += &format!("{}\n", style.bold(&heading(first.line.row)));
        }
        for filled in of_gpu {
            text += &filled.painted(&shown, style);
        }
    }
    text + summary + "\n"
}

/// The GPU of a device, among those of all hosts.
fn gpu(row: &Row) -> (Option<&str>, u32) {
    (row.host.as_deref(), row.gpu)
}

/// `GPU 0  NVIDIA A100-SXM4-40GB  00000000:07:00.0`
fn heading(row: &Row) -> String {
    let more = [row.gpu_name.as_deref(), row.pci_bus_id.as_deref()];
    let more = more.into_iter().flatten();
    let more = more.map(|text| format!("  {}", printable(text)));
    format!("GPU {}{}", row.gpu, more.collect::<String>())
}

/// The columns that are shown, with their widths. On a terminal all of them fit, unless
/// UUIDs were asked for; in a pipe those that every table has.
fn layout(lines: &[Filled<'_>], style: Style, gauges: &[Gauge]) -> Vec<ShownLines> {
    let mut always: Vec<usize> = columns(When::Always, gauges).collect();
    let is_said = |at: &usize| lines.iter().any(|line| !line.cells[*at].is_empty());
    let hosts: Vec<usize> = columns(When::OfHosts, gauges).filter(is_said).collect();
    let mut others: Vec<usize> = columns(When::IfSaid, gauges).filter(is_said).collect();
    let Some(terminal) = style.terminal else {
        always.extend(columns(When::InPipe, gauges));
        always.sort_unstable();
        others.extend(columns(When::IfFits, gauges).filter(|_| style.uuids));
        let whole = |at: &usize| (*at, widest(lines, *at));
        let (first, others) = (hosts.iter().map(whole), others.iter().map(whole));
        let always = fitted(lines, &always, PIPE);
        return first.chain(always).chain(others).collect();
    };
    always.extend(hosts);
    always.append(&mut others);
    always.sort_unstable();
    let uuid: Vec<usize> = columns(When::IfFits, gauges).collect();
    let all = always.iter().chain(&uuid).map(|at| widest(lines, *at) + 1);
    if style.uuids || all.sum::<usize>() <= terminal + 1 {
        always.extend(uuid);
    }
    let most = if style.uuids { usize::MAX } else { terminal };
    fitted(lines, &always, most)
}

/// The places of the columns that are shown `when`.
fn columns(when: When, gauges: &[Gauge]) -> impl Iterator<Item = usize> {
    let wanted = (0..COLUMNS.len()).filter(|at| COLUMNS[*at].is_wanted(gauges));
    wanted.filter(move |at| COLUMNS[*at].when == when)
}

/// The width that a column needs.
fn widest(lines: &[Filled<'_>], at: usize) -> usize {
    let cells = lines.iter().map(|line| width(&line.cells[at]));
    cells.max().unwrap_or(0).max(COLUMNS[at].heading.len())
}

/// These columns with widths that fit into `most` together.
fn fitted(lines: &[Filled<'_>], columns: &[usize], most: usize) -> Vec<ShownLines> {
    let widths: Vec<usize> = columns.iter().map(|at| widest(lines, *at)).collect();
    let least: Vec<Option<usize>> = columns.iter().map(|at| COLUMNS[*at].least).collect();
    let widths = fit(&widths, &least, most);
    columns.iter().copied().zip(widths).collect()
}

impl<'r> Filled<'r> {
    fn new(line: Line<'r>) -> Self {
        let cells = COLUMNS.iter();
        let cells = cells.map(|column| printable(&(column.text)(&line)));
        Self {
            cells: cells.collect(),
            line,
        }
    }

    fn painted(&self, shown: &[ShownLines], style: Style) -> String {
        let (row, in_pool) = (self.line.row, self.line.row.is_in_pool());
        let cells = shown.iter().map(|(at, width)| {
            let cell = padded(&self.cells[*at], *width);
            let is_state = COLUMNS[*at].heading == "STATE";
            if is_state && in_pool && !self.line.is_sharer {
                style.coloured(&cell, row.state)
            } else {
                cell
            }
        });
        let text = joined(cells);
        if in_pool {
            text
        } else {
            format!("{}\n", style.dimmed(text.trim_end()))
        }
    }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    let text = cells.collect::<Vec<_>>().join(" ");
    format!("{}\n", text.trim_end())
}
