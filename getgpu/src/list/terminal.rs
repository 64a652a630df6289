//! The listing on a terminal: a heading for each GPU, columns as wide as the terminal
//! allows, memory as a bar, states in colour and always in words. What is written to a
//! pipe or a file stays the plain table.

use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use getgpu_common::diag::printable;
use getgpu_common::lock::holders::Holder;

use super::columns::{fit, padded, width};
use super::rows::{Row, State};
use super::table;

/// What the terminal is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    columns: usize,
    colour: bool,
    /// Bars of block characters, which a terminal without UTF-8 cannot show.
    blocks: bool,
    /// UUIDs, although they do not fit.
    uuids: bool,
}

impl Look {
    /// That of standard output; none if it is no terminal. NO_COLOR (no-color.org) and
    /// TERM=dumb turn colours off.
    pub fn of_stdout(uuids: bool) -> Option<Self> {
        if !std::io::stdout().is_terminal() {
            return None;
        }
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let utf8 = locale.is_some_and(|name| {
            let name = name.to_ascii_uppercase();
            name.ends_with("UTF-8") || name.ends_with("UTF8")
        });
        let size = terminal_size::terminal_size_of(std::io::stdout());
        Some(Self {
            columns: size.map_or(80, |(width, _)| usize::from(width.0)).max(40),
            colour: !dumb && set("NO_COLOR").is_none(),
            blocks: utf8 && !dumb,
            uuids,
        })
    }

    fn paint(self, text: &str, code: &str) -> String {
        if self.colour && !code.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Names of the columns, and down to which width each gives way to the others.
const COLUMNS: [(&str, Option<usize>); 11] = [
    ("INDEX", None),
    ("DEVICE", Some(8)),
    ("MEMORY", None),
    ("STATE", None),
    ("WHO", Some(8)),
    ("PROGRAM", Some(12)),
    ("SINCE", None),
    ("UNTIL", None),
    ("TAG", Some(6)),
    ("JOB", Some(8)),
    ("UUID", None),
];
const STATE: usize = 3;
const UUID: usize = 10;
/// Columns that are left out where no line has anything to say there.
const OPTIONAL: [usize; 3] = [7, 8, 9];

/// One line of the table: its cells, and how it is painted.
struct Line {
    cells: [String; 11],
    state: Option<State>,
    dim: bool,
}

/// A column that is shown: its place among [`COLUMNS`], and how wide it is.
struct Column {
    at: usize,
    width: usize,
}

/// The lines of one GPU under its heading.
struct Block {
    heading: String,
    lines: Vec<Line>,
}

/// The table, then the summary.
pub fn text(rows: &[Row], summary: &str, look: &Look) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let block = |rows: &[Row]| Block {
        heading: heading(&rows[0]),
        lines: rows.iter().flat_map(|row| lines(row, now, *look)).collect(),
    };
    let blocks: Vec<Block> = by_gpu(rows).into_iter().map(block).collect();
    let columns = columns(&blocks, *look);
    let head = columns
        .iter()
        .map(|column| padded(COLUMNS[column.at].0, column.width))
        .collect::<Vec<_>>()
        .join(" ");
    let mut text = format!("{}\n", head.trim_end());
    for block in &blocks {
        text.push_str(&format!("{}\n", look.paint(&block.heading, "1")));
        for line in &block.lines {
            text.push_str(&painted(line, &columns, *look));
        }
    }
    text.push_str(&format!("{summary}\n"));
    text
}

/// The columns that have something to say, as wide as the terminal allows.
fn columns(blocks: &[Block], look: Look) -> Vec<Column> {
    let all = || blocks.iter().flat_map(|block| &block.lines);
    let wanted = |at: usize| all().map(|line| width(&line.cells[at])).max().unwrap_or(0);
    let says = |at: usize| all().any(|line| line.cells[at] != "-" && !line.cells[at].is_empty());
    let mut shown: Vec<usize> = (0..COLUMNS.len())
        .filter(|at| *at != UUID && (!OPTIONAL.contains(at) || says(*at)))
        .collect();
    let needed = |shown: &[usize]| {
        let widths = shown
            .iter()
            .map(|at| wanted(*at).max(COLUMNS[*at].0.len()) + 1);
        widths.sum::<usize>()
    };
    if look.uuids || needed(&shown) + wanted(UUID) <= look.columns {
        shown.push(UUID);
    }
    let widths: Vec<usize> = shown
        .iter()
        .map(|at| wanted(*at).max(COLUMNS[*at].0.len()))
        .collect();
    let smallest: Vec<Option<usize>> = shown.iter().map(|at| COLUMNS[*at].1).collect();
    let most = if look.uuids { usize::MAX } else { look.columns };
    let widths = fit(&widths, &smallest, most);
    let column = |(at, width)| Column { at, width };
    shown.into_iter().zip(widths).map(column).collect()
}

/// The rows of each GPU, in their order.
fn by_gpu(rows: &[Row]) -> Vec<&[Row]> {
    rows.chunk_by(|one, other| one.gpu == other.gpu).collect()
}

/// `GPU 0  NVIDIA A100-SXM4-40GB  00000000:07:00.0`
fn heading(row: &Row) -> String {
    let more = [row.gpu_name.as_deref(), row.pci_bus_id.as_deref()];
    let more = more
        .into_iter()
        .flatten()
        .map(|text| format!("  {}", printable(text)));
    format!("GPU {}{}", row.gpu, more.collect::<String>())
}

/// The lines of a device: one, and one for each further sharer.
fn lines(row: &Row, now: u64, look: Look) -> Vec<Line> {
    let sharers = if table::shares(row) {
        &row.holders[1..]
    } else {
        &[]
    };
    let more = sharers.iter().map(|holder| Line {
        cells: sharer_cells(holder, now).map(|cell| printable(&cell)),
        state: None,
        dim: !row.is_in_pool(),
    });
    let first = Line {
        cells: device_cells(row, now, look).map(|cell| printable(&cell)),
        state: Some(row.state),
        dim: !row.is_in_pool(),
    };
    std::iter::once(first).chain(more).collect()
}

fn device_cells(row: &Row, now: u64, look: Look) -> [String; 11] {
    let [index, _, device, figures, state, who, program, since] = table::cells(row, now);
    let holder = row.holders.first();
    [
        index,
        device,
        format!("{} {figures}", bar(row, look)),
        with_empty(state, row, now),
        who,
        program,
        since,
        table::until(holder, now),
        holder
            .and_then(|holder| holder.tag.clone())
            .unwrap_or_default(),
        table::job(holder),
        row.uuid.clone(),
    ]
}

/// `reserved, empty 48 min`
fn with_empty(state: String, row: &Row, now: u64) -> String {
    match (row.empty, row.empty_since) {
        (Some(true), Some(since)) => {
            let time = std::time::Duration::from_secs(now.saturating_sub(since));
            format!("{state}, empty {}", getgpu_common::quantity::brief(time))
        }
        (Some(true), None) => format!("{state}, empty"),
        _ => state,
    }
}

fn sharer_cells(holder: &Holder, now: u64) -> [String; 11] {
    let [.., state, who, program, since] = table::sharer(holder, now);
    let mut cells: [String; 11] = Default::default();
    (cells[STATE], cells[4], cells[5], cells[6]) = (state, who, program, since);
    cells[7] = table::until(Some(holder), now);
    cells[8] = holder.tag.clone().unwrap_or_default();
    cells[9] = table::job(Some(holder));
    cells
}

/// How much of the memory is in use.
fn bar(row: &Row, look: Look) -> String {
    const CELLS: u64 = 6;
    let (full, empty) = if look.blocks {
        ('▮', '▯')
    } else {
        ('#', '.')
    };
    let filled = match (row.memory_used, row.memory_total) {
        (Some(used), Some(total)) if total > 0 => ((used * CELLS + total / 2) / total).min(CELLS),
        _ => return " ".repeat(CELLS as usize),
    };
    (0..CELLS)
        .map(|cell| if cell < filled { full } else { empty })
        .collect()
}

fn painted(line: &Line, columns: &[Column], look: Look) -> String {
    let cells = columns.iter().map(|column| {
        let cell = padded(&line.cells[column.at], column.width);
        match line.state {
            Some(state) if column.at == STATE && !line.dim => look.paint(&cell, colour(state)),
            _ => cell,
        }
    });
    let text = cells.collect::<Vec<_>>().join(" ");
    let text = text.trim_end();
    let text = if line.dim {
        look.paint(text, "2")
    } else {
        text.to_owned()
    };
    format!("{text}\n")
}

/// SGR codes (ECMA-48 8.3.117).
const fn colour(state: State) -> &'static str {
    match state {
        State::Free => "32",
        State::Leased | State::Shared => "33",
        State::Reserved | State::Claimed => "36",
        State::Busy => "31",
        State::Unknown => "35",
    }
}
