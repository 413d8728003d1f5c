//! Text in columns, fitted to their content and to the terminal.

use unicode_width::UnicodeWidthChar as _;

/// The separator of columns.
pub(crate) const GAP: &str = "   ";
/// The mark for a cut.
const CUT: char = '…';

/// The widths of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns(Vec<usize>);

impl Columns {
    /// Wide enough for all rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Vec<String>>) -> Self {
        let mut columns = Self(Vec::new());
        for row in rows {
            columns.widen(row);
        }
        columns
    }

    /// With these minimum widths.
    pub fn at_least(widths: impl IntoIterator<Item = usize>) -> Self {
        Self(widths.into_iter().collect())
    }

    /// Whether each column begins at the same position as in the other table.
    pub fn begin_as(&self, other: &Self) -> bool {
        let before_last = |columns: &Self| columns.0.split_last().map(|(_, rest)| rest.to_vec());
        before_last(self) == before_last(other)
    }

    /// The width of a column.
    pub fn width(&self, index: usize) -> usize {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// Widens the columns for one more row.
    pub fn widen(&mut self, row: &[String]) {
        for (index, cell) in row.iter().enumerate() {
            if self.0.len() <= index {
                self.0.push(0);
            }
            self.0[index] = self.0[index].max(width(&clean(cell)));
        }
    }

    /// A row as a line, cut to what the terminal can show.
    pub fn line(&self, row: &[String], terminal: Option<usize>) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let cell = clean(cell);
            if index > 0 {
                line.push_str(GAP);
            }
            line.push_str(&cell);
            if index + 1 < row.len() {
                let wanted = self.0.get(index).copied().unwrap_or(0);
                line.extend(std::iter::repeat_n(' ', wanted.saturating_sub(width(&cell))));
            }
        }
        cut(line.trim_end(), terminal.unwrap_or(usize::MAX))
    }
}

/// The width of a text in terminal cells. Sequences that a terminal may draw as one character
/// count each of their parts, so that a line is rather too short than too long.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// A text without characters that move the cursor, colour the screen, or change the direction of writing:
/// much of the output comes from pods.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_command(c) { ' ' } else { c }).collect()
}

fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// A text cut to a number of cells, with a mark for the cut.
pub fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut taken = 0;
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        // One cell is reserved for the mark.
        if taken >= cells {
            break;
        }
        shown.push(c);
    }
    if cells > 0 {
        shown.push(CUT);
    }
    shown
}

/// A text in lines of a maximum width, broken between words; within a word only if it does not fit a line.
pub fn wrapped(text: &str, cells: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + 1 + width(word) > cells {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if !line.is_empty() && width(&line) + c.width().unwrap_or(0) > cells {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.extend(Some(line).filter(|line| !line.is_empty()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn column_is_as_wide_as_its_widest_cell() {
        let rows = [row(&["NAME", "READY", "EVENT"]), row(&["a-long-name", "1/1", ""])];
        let columns = Columns::of(&rows);
        let lines: Vec<_> = rows.iter().map(|row| columns.line(row, None)).collect();
        assert_eq!(lines, ["NAME          READY   EVENT", "a-long-name   1/1"]);
    }

    #[test]
    fn wide_character_takes_two_cells() {
        let rows = [row(&["日本", "x"]), row(&["abcd", "x"]), row(&["e\u{301}", "x"])];
        let columns = Columns::of(&rows);
        let lines: Vec<_> = rows.iter().map(|row| columns.line(row, None)).collect();
        assert_eq!(lines, ["日本   x", "abcd   x", "e\u{301}      x"]);
    }

    #[test]
    fn line_is_cut_at_a_character_boundary() {
        let rows = [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("abcdef", 1, "…"),
            ("abcdef", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ];
        for (text, cells, expected) in rows {
            let shown = cut(text, cells);
            assert_eq!(shown, expected, "{text} in {cells}");
            assert!(width(&shown) <= cells, "{text} in {cells}");
        }
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let rows: [(&str, usize, &[&str]); 6] = [
            ("", 5, &[]),
            ("its pod is gone", 20, &["its pod is gone"]),
            ("its pod is gone", 10, &["its pod is", "gone"]),
            ("its pod is gone", 9, &["its pod", "is gone"]),
            ("a sha256:0123 b", 6, &["a", "sha256", ":0123", "b"]),
            ("日本 語", 4, &["日本", "語"]),
        ];
        for (text, cells, expected) in rows {
            assert_eq!(wrapped(text, cells), expected, "{text} in {cells}");
        }
    }

    #[test]
    fn control_characters_of_pods_do_not_reach_the_terminal() {
        let text = "a\nb\tc\u{1b}[2Jd\u{9b}e\u{202e}f";
        assert_eq!(clean(text), "a b c [2Jd e f");
        let columns = Columns::of(&[row(&["x", "y"])]);
        assert_eq!(columns.line(&row(&["x\r\n", "y"]), None), "x     y");
    }
}
