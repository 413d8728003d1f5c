//! Lines of a terminal that are redrawn in place.

use std::fmt::Write as _;

use super::table::{cut, width};

/// The size of a terminal, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Cells in a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// The lines drawn last: the cursor is in the row below them.
#[derive(Debug, Default)]
pub struct Screen {
    /// The widths of the lines.
    drawn: Vec<usize>,
}

impl Screen {
    /// The output that makes the terminal show these lines instead of the previous ones. Long lines
    /// are cut; if there are too many lines, the last one says how many are missing.
    pub fn redraw(&mut self, lines: &[String], size: Size) -> String {
        self.redraw_painted(lines, size, |_| {})
    }

    /// Like `redraw`; the lines are coloured after they were cut.
    pub(crate) fn redraw_painted(
        &mut self,
        lines: &[String],
        size: Size,
        paint: impl FnOnce(&mut [String]),
    ) -> String {
        let columns = size.columns.max(1);
        // A terminal that became narrower has wrapped the lines: one row is now several.
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        // The row of the cursor is not redrawn, and rows that have scrolled out cannot be reached.
        let rows = rows.min(size.rows.saturating_sub(1));
        let mut text = String::new();
        if rows > 0 {
            write!(text, "\x1b[{rows}A").expect("a string takes every text");
        }
        // To the start of the row; clear everything after it.
        text.push_str("\r\x1b[J");
        let mut lines = fitting(lines, size);
        for line in &mut lines {
            *line = cut(line, columns);
        }
        self.drawn = lines.iter().map(|line| width(line)).collect();
        paint(&mut lines);
        for line in lines {
            text.push_str(&line);
            text.push_str("\r\n");
        }
        text
    }
}

fn fitting(lines: &[String], size: Size) -> Vec<String> {
    let room = size.rows.saturating_sub(1).max(1);
    if lines.len() <= room {
        return lines.to_vec();
    }
    let shown = room - 1;
    let mut fitting = lines[..shown].to_vec();
    fitting.push(format!("… and {} more", lines.len() - shown));
    fitting
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
