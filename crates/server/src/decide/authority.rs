//! Replaces the authority of requests.
//!
//! Go clients that connect to a path, such as those of the upstream kubelet, send it as the authority of each
//! request, with escaped slashes: `%2Fvar%2Flib%2Fkubelet%2F…`. Go servers accept that; the HTTP/2 library here
//! takes it for a malformed request, and has no option to accept it. A socket needs no authority, so it is
//! replaced before the library reads it.
//!
//! Headers are compressed with tables that both ends keep in sync, so no field may be added or removed. A value
//! may become shorter: the receiver then keeps more of the table than the sender expects.

/// The length of the connection preface.
const PREFACE: usize = 24;
/// The length of a frame header: length, type, flags and stream.
const HEAD: usize = 9;
/// The type of a HEADERS frame.
const HEADERS: u8 = 1;
/// The flags of a HEADERS frame: end of headers; padding; priority.
const ALL: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The length of a priority.
const OF_PRIORITY: usize = 5;
/// The longest default frame. The library refuses longer ones.
const LONGEST: usize = 1 << 14;
/// The index of `:authority` in the static table.
const AUTHORITY: usize = 1;
/// The replacement of any value: its length and one letter, the shortest possible.
const ANYBODY: [u8; 2] = [1, b'x'];

/// Received bytes of a connection that are not processed yet.
#[derive(Debug)]
pub(crate) struct Anonymous {
    /// How many bytes are passed unchanged.
    pass: usize,
    /// The beginning of a frame.
    held: Vec<u8>,
}

impl Anonymous {
    /// The state of a new connection.
    pub(crate) fn new() -> Self {
        Self { pass: PREFACE, held: Vec::new() }
    }

    /// Takes received bytes, and appends to `output` what can be passed on.
    pub(crate) fn take(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while !input.is_empty() {
            if self.pass > 0 {
                let (now, later) = input.split_at(self.pass.min(input.len()));
                output.extend_from_slice(now);
                self.pass -= now.len();
                input = later;
                continue;
            }
            let wanted = self.wanted();
            let missing = wanted.saturating_sub(self.held.len());
            let (now, later) = input.split_at(missing.min(input.len()));
            self.held.extend_from_slice(now);
            input = later;
            if self.held.len() == wanted {
                self.decide(output);
            }
        }
    }

    /// How many bytes are needed to go on: a frame header, or the announced frame.
    fn wanted(&self) -> usize {
        if self.held.len() < HEAD { HEAD } else { HEAD + length(&self.held) }
    }

    fn decide(&mut self, output: &mut Vec<u8>) {
        let is_head = self.held.len() == HEAD;
        let follows = length(&self.held);
        let is_whole = self.held[3] == HEADERS && self.held[4] & ALL != 0;
        if is_head && is_whole && (1..=LONGEST).contains(&follows) {
            return;
        }
        if is_head {
            self.pass = follows;
            output.append(&mut self.held);
            return;
        }
        match anonymous(&self.held) {
            Some(frame) => output.extend(frame),
            None => output.extend_from_slice(&self.held),
        }
        self.held.clear();
    }
}

/// The length of a frame's content.
fn length(frame: &[u8]) -> usize {
    frame[..3].iter().fold(0, |length, byte| (length << 8) | usize::from(*byte))
}

/// The HEADERS frame with a neutral authority; `None` if it is malformed.
fn anonymous(frame: &[u8]) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_at(HEAD);
    let flags = head[4];
    let mut begins = 0;
    let mut padding = 0;
    if flags & PADDED != 0 {
        begins += 1;
        padding = usize::from(*payload.first()?);
    }
    if flags & PRIORITY != 0 {
        begins += OF_PRIORITY;
    }
    let ends = payload.len().checked_sub(padding)?;
    let block = without_authority(payload.get(begins..ends)?)?;
    let length = u32::try_from(begins + block.len() + padding).ok()?;
    let parts =
        [&length.to_be_bytes()[1..], &head[3..], &payload[..begins], &block, &payload[ends..]];
    Some(parts.concat())
}

/// The header block with a neutral authority; `None` if it is malformed.
fn without_authority(mut block: &[u8]) -> Option<Vec<u8>> {
    let mut anonymous = Vec::with_capacity(block.len());
    while let Some(&first) = block.first() {
        // An indexed field, a table size update, or a literal field with or without indexing.
        let (prefix, is_written) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            0x20.. => (5, false),
            _ => (4, true),
        };
        let (number, mut name) = integer(block, prefix)?;
        if is_written && number == 0 {
            name += text(block.get(name..)?)?;
        }
        let value = if is_written { text(block.get(name..)?)? } else { 0 };
        let (field, rest) = block.split_at_checked(name + value)?;
        // An empty value has only a length.
        if is_written && number == AUTHORITY && value > 1 {
            anonymous.extend_from_slice(&field[..name]);
            anonymous.extend_from_slice(&ANYBODY);
        } else {
            anonymous.extend_from_slice(field);
        }
        block = rest;
    }
    Some(anonymous)
}

/// An integer that begins in the low bits of a byte, and its length in bytes.
fn integer(bytes: &[u8], prefix: u32) -> Option<(usize, usize)> {
    let most = (1 << prefix) - 1;
    let mut number = usize::from(*bytes.first()?) & most;
    if number < most {
        return Some((number, 1));
    }
    // Up to the longest integer that makes sense in a frame.
    for (index, byte) in bytes.iter().enumerate().skip(1).take(3) {
        number += usize::from(byte & 0x7f) << (7 * (index - 1));
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

/// The length of a string in bytes, including its length field.
fn text(bytes: &[u8]) -> Option<usize> {
    let (length, begins) = integer(bytes, 7)?;
    begins.checked_add(length).filter(|ends| *ends <= bytes.len())
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
