//! The trace of a history: one line per event, with short names. Only the last lines are kept; a hash covers
//! all.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// The number of kept lines.
const KEPT: usize = 20_000;
/// The limit of a line's length.
const LONGEST: usize = 400;

/// The lines of a history.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: VecDeque<Line>,
    dropped: usize,
    hash: u64,
    names: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Line {
    at: Duration,
    text: String,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            lines: VecDeque::new(),
            dropped: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            names: BTreeMap::new(),
        }
    }
}

impl Trace {
    /// Adds a line.
    pub(crate) fn add(&mut self, at: Duration, text: String) {
        self.note(at, &text);
        let mut text = text;
        if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(cut);
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(Line { at, text });
    }

    /// Adds to the hash only.
    pub(crate) fn note(&mut self, at: Duration, text: &str) {
        let time = at.as_nanos().to_le_bytes();
        for byte in time.into_iter().chain(text.bytes()) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash of all lines and notes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Gives a long id a short name.
    pub(crate) fn name(&mut self, id: &str, short: impl Into<String>) {
        self.names.entry(id.to_owned()).or_insert_with(|| short.into());
    }

    /// The short name of an id; or the truncated id.
    pub(crate) fn short<'a>(&'a self, id: &'a str) -> &'a str {
        match self.names.get(id) {
            Some(name) => name,
            None => id.get(..12).unwrap_or(id),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped > 0 {
            writeln!(f, "… {} lines before", self.dropped)?;
        }
        for Line { at, text } in &self.lines {
            let (minutes, seconds) = (at.as_secs() / 60, at.as_secs() % 60);
            writeln!(f, "{minutes:3}:{seconds:02}.{:03}  {text}", at.subsec_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_keeps_the_last_lines_and_counts_all() {
        let mut trace = Trace::default();
        for number in 0..KEPT + 3 {
            trace.add(Duration::from_millis(61_005), format!("line {number}"));
        }
        let text = trace.to_string();
        assert!(text.starts_with("… 3 lines before\n  1:01.005  line 3\n"), "{}", &text[..80]);
        let before = trace.hash();
        trace.note(Duration::ZERO, "more");
        assert_ne!(trace.hash(), before);
    }

    #[test]
    fn ids_have_short_names() {
        let mut trace = Trace::default();
        trace.name("0123456789abcdef", "c1");
        trace.name("0123456789abcdef", "c2");
        assert_eq!(trace.short("0123456789abcdef"), "c1");
        assert_eq!(trace.short("fedcba98765432100"), "fedcba987654");
    }
}
