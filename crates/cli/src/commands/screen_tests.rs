//! The content of a terminal after the lines were drawn.

use super::*;

/// A minimal terminal: it wraps, scrolls, and supports two escape sequences.
struct Terminal {
    size: Size,
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Terminal {
    fn new(columns: usize, rows: usize) -> Self {
        let size = Size { columns, rows };
        Self { size, cells: vec![Vec::new()], row: 0, column: 0 }
    }

    fn write(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => self.down(),
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['));
                    let mut number = String::new();
                    let command = loop {
                        match chars.next().unwrap() {
                            digit if digit.is_ascii_digit() => number.push(digit),
                            command => break command,
                        }
                    };
                    match command {
                        'A' => self.row = self.row.saturating_sub(number.parse().unwrap()),
                        'J' => {
                            self.cells.truncate(self.row + 1);
                            self.cells[self.row].truncate(self.column);
                        }
                        other => panic!("{other}"),
                    }
                }
                c => self.put(c),
            }
        }
    }

    fn put(&mut self, c: char) {
        if self.column == self.size.columns {
            self.column = 0;
            self.down();
        }
        let (row, column) = (self.row, self.column);
        if self.cells[row].len() <= column {
            self.cells[row].resize(column + 1, ' ');
        }
        self.cells[row][column] = c;
        self.column += 1;
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.cells.len() {
            self.cells.push(Vec::new());
        }
        if self.cells.len() > self.size.rows {
            self.cells.remove(0);
            self.row -= 1;
        }
    }

    /// Sets another width: long lines are wrapped, as terminals do.
    fn narrow(&mut self, columns: usize) {
        let rows = std::mem::take(&mut self.cells);
        for row in rows {
            let pieces = row.chunks(columns).map(<[char]>::to_vec);
            let before = self.cells.len();
            self.cells.extend(pieces);
            if self.cells.len() == before {
                self.cells.push(Vec::new());
            }
        }
        self.size.columns = columns;
        self.row = self.cells.len() - 1;
    }

    fn shown(&self) -> Vec<String> {
        self.cells.iter().map(|row| row.iter().collect::<String>()).collect()
    }
}

fn lines(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn lines_are_redrawn_in_place_below_earlier_output() {
    let (mut terminal, mut screen) = (Terminal::new(20, 10), Screen::default());
    terminal.write("$ ferrolet\r\n");
    terminal.write(&screen.redraw(&lines(&["NAME", "a", "b"]), terminal.size));
    assert_eq!(terminal.shown(), ["$ ferrolet", "NAME", "a", "b", ""]);
    terminal.write(&screen.redraw(&lines(&["NAME", "long"]), terminal.size));
    assert_eq!(terminal.shown(), ["$ ferrolet", "NAME", "long", ""]);
    terminal.write(&screen.redraw(&lines(&["NAME", "x", "y", "z"]), terminal.size));
    assert_eq!(terminal.shown(), ["$ ferrolet", "NAME", "x", "y", "z", ""]);
}

#[test]
fn lines_beyond_the_terminal_height_are_counted() {
    let (mut terminal, mut screen) = (Terminal::new(20, 4), Screen::default());
    for _ in 0..3 {
        terminal.write(&screen.redraw(&lines(&["NAME", "a", "b", "c", "d"]), terminal.size));
        assert_eq!(terminal.shown(), ["NAME", "a", "… and 3 more", ""]);
    }
}

#[test]
fn line_never_takes_two_rows() {
    let (mut terminal, mut screen) = (Terminal::new(5, 10), Screen::default());
    terminal.write(&screen.redraw(&lines(&["abcdefgh", "12345"]), terminal.size));
    assert_eq!(terminal.shown(), ["abcd…", "12345", ""]);
}

#[test]
fn wrapped_lines_are_cleared_when_the_terminal_narrows() {
    let (mut terminal, mut screen) = (Terminal::new(10, 10), Screen::default());
    terminal.write(&screen.redraw(&lines(&["1234567890", "ab"]), terminal.size));
    terminal.narrow(4);
    terminal.write(&screen.redraw(&lines(&["x", "y"]), terminal.size));
    assert_eq!(terminal.shown(), ["x", "y", ""]);
}
