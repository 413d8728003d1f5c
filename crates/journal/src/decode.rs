//! Encodes entries as lines with checksums, and decodes them, skipping damaged lines.
//!
//! A line is a JSON object whose last field is `sum`: the CRC-32 of all that stands before it.

use std::io::{self, BufRead, Read as _};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entry::{Entry, Inputs};

/// The longest line.
pub(crate) const LONGEST_LINE: usize = 32 * 1024;

/// The separator of entry and checksum, and the end of a line.
const SUM: &[u8] = b",\"sum\":\"";
const END: &[u8] = b"\"}";
const DIGITS: usize = 8;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 };
            bit += 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(!0, step)
}

/// The line of an entry, with its end.
pub(crate) fn line(entry: &Entry) -> Vec<u8> {
    let line = written(entry);
    if line.len() <= LONGEST_LINE { line } else { written(&without_inputs(entry)) }
}

/// The other texts are few and bounded; only inputs can be many.
pub(crate) fn without_inputs(entry: &Entry) -> Entry {
    Entry { detail: Inputs(vec![("tooLong".to_owned(), true.into())]), ..entry.clone() }
}

/// A value as a line, with its end.
pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    let mut writer = serde_json::Serializer::new(&mut line);
    value.serialize(&mut writer).expect("texts and numbers serialize");
    line.pop();
    let sum = crc32(&line);
    line.extend_from_slice(SUM);
    line.extend_from_slice(format!("{sum:08x}").as_bytes());
    line.extend_from_slice(END);
    line.push(b'\n');
    line
}

/// Decodes a line without its end; `None` if the line is damaged.
pub(crate) fn value<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let rest = line.strip_suffix(END)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let content = rest.strip_suffix(SUM)?;
    let sum = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    if crc32(content) != sum {
        return None;
    }
    serde_json::from_slice(line).ok()
}

/// The damage of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The number of damaged lines.
    pub(crate) damaged: u64,
    /// Whether the last line has no end.
    pub(crate) ragged: bool,
}

/// Passes the decoded lines of a segment to a function, in order. Never holds more than one line,
/// regardless of the segment contains.
pub(crate) fn read<T: DeserializeOwned>(
    mut from: impl BufRead,
    mut take: impl FnMut(T),
) -> io::Result<Passed> {
    let mut passed = Passed::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let bound = LONGEST_LINE as u64;
        if from.by_ref().take(bound).read_until(b'\n', &mut line)? == 0 {
            return Ok(passed);
        }
        passed.ragged = line.pop_if(|last| *last == b'\n').is_none();
        if passed.ragged && line.len() == LONGEST_LINE {
            passed.ragged = !skip_line(&mut from)?;
        }
        match value(&line) {
            Some(value) => take(value),
            // The agent ends a line that a crash cut off; if it was complete, this leaves an empty line.
            None if line.is_empty() => {}
            None => passed.damaged += 1,
        }
    }
}

/// Reads to the end of a line. Whether it has one.
fn skip_line(from: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = from.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let skipped = end.map_or(bytes.len(), |end| end + 1);
        from.consume(skipped);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_standard_crc32() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
