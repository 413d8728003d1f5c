//! Entries as lines, each with a checksum, and reading them back past all that is damaged.
//!
//! A line is a JSON object whose last field is `sum`: the CRC-32 of all that stands before it.

use std::io::{self, BufRead, Read as _};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entry::{Entry, Inputs};

/// No line is longer than this.
pub(crate) const LONGEST_LINE: usize = 32 * 1024;

/// What stands between an entry and its checksum, and what ends a line.
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

/// The line of an entry, its end included.
pub(crate) fn line(entry: &Entry) -> Vec<u8> {
    let line = written(entry);
    if line.len() <= LONGEST_LINE { line } else { written(&without_inputs(entry)) }
}

/// Of texts there are a few, each with a bound; only inputs can be many.
pub(crate) fn without_inputs(entry: &Entry) -> Entry {
    Entry { detail: Inputs(vec![("tooLong".to_owned(), true.into())]), ..entry.clone() }
}

/// Something as a line, its end included.
pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    let mut writer = serde_json::Serializer::new(&mut line);
    value.serialize(&mut writer).expect("it is made of texts and numbers");
    line.pop();
    let sum = crc32(&line);
    line.extend_from_slice(SUM);
    line.extend_from_slice(format!("{sum:08x}").as_bytes());
    line.extend_from_slice(END);
    line.push(b'\n');
    line
}

/// What a line says, without the line's end; `None` when the line is damaged.
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

/// What a segment had besides the entries that were handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// How many lines were damaged.
    pub(crate) damaged: u64,
    /// Whether the last line has no end.
    pub(crate) ragged: bool,
}

/// Hands out what the lines of a segment say, in their order. No more than a line is held at a time, whatever
/// the segment is made of.
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
            // What ends a line that a crash tore leaves an empty one where nothing was torn.
            None if line.is_empty() => {}
            None => passed.damaged += 1,
        }
    }
}

/// Reads to the end of a line; whether it has one.
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
    fn the_checksum_is_the_one_that_everybody_knows() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
