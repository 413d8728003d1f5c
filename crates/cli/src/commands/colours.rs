//! Colours of tables, on a terminal only.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};

use anstyle::{AnsiColor, Style};

use super::table::{GAP, width};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WAITING: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
const HEADER: Style = Style::new().bold();

/// Statuses of pods that need no attention.
const FINE: [&str; 3] = ["Running", "Completed", "Succeeded"];
/// Parts of statuses that report a failure.
const FAILURES: [&str; 8] =
    ["Err", "BackOff", "Fail", "OOM", "Evicted", "OutOf", "Preempt", "Invalid"];

/// Whether standard output takes colours: it is a terminal that has some, and `NO_COLOR` is not set.
#[allow(clippy::disallowed_methods, reason = "only variables say that a user wants no colours")]
pub(crate) fn are_on() -> bool {
    let [no_color, term] = ["NO_COLOR", "TERM"].map(std::env::var_os);
    io::stdout().is_terminal() && are_wanted(no_color.as_deref(), term.as_deref())
}

/// See <https://no-color.org>: any value but an empty one turns colours off.
fn are_wanted(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// The colour of a pod's status.
pub(crate) fn of_status(status: &str) -> Option<Style> {
    let status = status.trim_start_matches("Init:");
    if status.is_empty() {
        None
    } else if FINE.contains(&status) {
        Some(GOOD)
    } else if FAILURES.iter().any(|part| status.contains(part)) {
        Some(BAD)
    } else {
        Some(WAITING)
    }
}

/// The colour of an event's type.
pub(crate) fn of_event_type(kind: &str) -> Option<Style> {
    (kind == "Warning").then_some(WAITING)
}

/// The colour of a verdict of garbage collection.
pub(crate) fn of_verdict(verdict: &str) -> Option<Style> {
    (verdict == "remove").then_some(BAD)
}

/// Colours the header of a table, and one column.
pub(crate) fn paint(lines: &mut [String], title: &str, style_of: fn(&str) -> Option<Style>) {
    let Some(header) = lines.first() else { return };
    let Some(start) = header.find(title).map(|at| width(&header[..at])) else { return };
    for line in &mut lines[1..] {
        let Some(begin) = position(line, start) else { continue };
        let cell = line[begin..].split(GAP).next().unwrap_or_default();
        // The text in parentheses after a status is a detail.
        let word = cell.split(" (").next().unwrap_or_default().trim();
        if let Some(style) = style_of(word) {
            let end = begin + cell.len();
            *line =
                format!("{}{}{}", &line[..begin], painted(&line[begin..end], style), &line[end..]);
        }
    }
    lines[0] = painted(&lines[0], HEADER);
}

/// Where the cell of a terminal begins in a line, in bytes.
fn position(line: &str, cell: usize) -> Option<usize> {
    let mut positions = line.char_indices().map(|(at, _)| at);
    positions.find(|at| width(&line[..*at]) >= cell)
}

fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_dumb_terminals_have_no_colours() {
        let rows = [
            (None, Some("xterm"), true),
            (None, None, true),
            (Some(""), Some("xterm"), true),
            (Some("1"), Some("xterm"), false),
            (Some("0"), None, false),
            (None, Some("dumb"), false),
        ];
        for (no_color, term, expected) in rows {
            let wanted = are_wanted(no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(wanted, expected, "{no_color:?} {term:?}");
        }
    }

    #[test]
    fn header_and_one_column_are_coloured() {
        let mut lines = [
            "NAME   STATUS             AGE",
            "日本   Running            1m",
            "b      CrashLoopBackOff   1m",
            "c      Pending (pulling)   1m",
            "",
        ]
        .map(str::to_owned);
        paint(&mut lines, "STATUS", of_status);
        assert_eq!(
            lines,
            [
                "\u{1b}[1mNAME   STATUS             AGE\u{1b}[0m",
                "日本   \u{1b}[32mRunning\u{1b}[0m            1m",
                "b      \u{1b}[31mCrashLoopBackOff\u{1b}[0m   1m",
                "c      \u{1b}[33mPending (pulling)\u{1b}[0m   1m",
                "",
            ]
        );
        let mut plan = ["VERDICT   KIND", "keep      image", "remove    log", "would remove 1 log"]
            .map(str::to_owned);
        paint(&mut plan, "VERDICT", of_verdict);
        assert_eq!(
            plan[1..],
            ["keep      image", "\u{1b}[31mremove\u{1b}[0m    log", "would remove 1 log"]
        );
    }
}
