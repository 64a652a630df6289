//! Text in columns: widths as a terminal shows them, where a CJK character takes two
//! columns and a combining one none (UAX 11), and cutting to a width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a terminal that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `most` columns; what is cut off is shown by a `~`.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let mut kept = String::new();
    for one in text.chars() {
        let takes = one.width().unwrap_or(0);
        if takes > left {
            break;
        }
        left -= takes;
        kept.push(one);
    }
    kept.push('~');
    kept
}

/// `text` cut to `columns` and filled up with blanks.
pub fn padded(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let blanks = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(blanks))
}

/// Lines of cells, each column but the last as wide as its widest cell. A column without a text is
/// left out.
pub fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let widest = |at: usize| {
        lines
            .iter()
            .map(|cells| width(&cells[at]))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(widest).collect();
    let line = |cells: &[String; N]| {
        let shown = (0..N).filter(|at| widths[*at] > 0);
        let texts = shown.map(|at| match at + 1 == N {
            true => cells[at].clone(),
            false => padded(&cells[at], widths[at]),
        });
        texts.collect::<Vec<_>>().join(" ") + "\n"
    };
    lines.iter().map(line).collect()
}

/// Widths for columns that need `wanted`, so that with a blank between two they fit into
/// `most`: those with a smallest width give way, the widest first.
pub fn fit(wanted: &[usize], smallest: &[Option<usize>], most: usize) -> Vec<usize> {
    let mut widths = wanted.to_vec();
    let blanks = widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + blanks > most {
        let widest = (0..widths.len())
            .filter(|at| smallest[*at].is_some_and(|least| widths[*at] > least))
            .max_by_key(|at| widths[*at]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((width("ana"), width("\u{8a08}\u{7b97}")), (3, 4));
        assert_eq!(cut("\u{8a08}\u{7b97}x", 4), "\u{8a08}~");
        assert_eq!(padded("ana", 5), "ana  ");
        assert_eq!(cut("ana", 3), "ana");
    }

    #[test]
    fn the_widest_column_gives_way_first() {
        let (one, two) = (Some(8), Some(2));
        assert_eq!(fit(&[5, 30, 10], &[None, one, one], 30), [5, 13, 10]);
        assert_eq!(fit(&[5, 3], &[None, two], 80), [5, 3]);
        assert_eq!(fit(&[50, 30], &[None, one], 20), [50, 8], "nothing is lost");
    }
}
