//! Finds the start of the last lines of a file from its end.

use std::io;
use std::ops::Range;

/// The size of one read.
const BLOCK: u64 = 64 * 1024;

/// The last lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastLines {
    /// Their range in bytes.
    pub(super) range: Range<u64>,
    /// Their number.
    pub(super) count: u64,
}

/// The last complete lines, up to a number. An incomplete line at the end does not count.
///
/// `read` fills a buffer from a position within `size`.
pub(super) fn last_lines(
    lines: u64,
    size: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<LastLines> {
    let mut found: u64 = 0;
    let mut end = 0;
    let mut at = size;
    let mut block = Vec::new();
    while at > 0 {
        let start = at.saturating_sub(BLOCK);
        block.resize(usize::try_from(at - start).expect("a block is small"), 0);
        read(start, &mut block)?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let behind = start + index as u64 + 1;
            if found == 0 {
                end = behind;
            }
            // There is one more line end than there are lines: the end of the preceding line.
            if found == lines {
                return Ok(LastLines { range: behind..end, count: found });
            }
            found += 1;
        }
        at = start;
    }
    Ok(LastLines { range: 0..end, count: found })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lines: u64, file: &[u8]) -> Range<usize> {
        let read = |at: u64, block: &mut [u8]| {
            let at = usize::try_from(at).unwrap();
            block.copy_from_slice(&file[at..at + block.len()]);
            Ok(())
        };
        let LastLines { range, count } = last_lines(lines, file.len() as u64, read).unwrap();
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let ends = file[range.clone()].split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(count, ends as u64);
        range
    }

    #[test]
    fn last_lines_are_found() {
        let rows: [(u64, &str, &str); 10] = [
            (0, "a\nb\nc\n", ""),
            (1, "a\nb\nc\n", "c\n"),
            (2, "a\nb\nc\n", "b\nc\n"),
            (3, "a\nb\nc\n", "a\nb\nc\n"),
            (9, "a\nb\nc\n", "a\nb\nc\n"),
            (1, "a\nb\nhalf", "b\n"),
            (1, "\n\n", "\n"),
            (1, "half", ""),
            (1, "", ""),
            (0, "", ""),
        ];
        for (lines, file, expected) in rows {
            assert_eq!(&file[of(lines, file.as_bytes())], expected, "{lines} of {file:?}");
        }
    }

    #[test]
    fn following_from_the_end_begins_after_the_last_complete_line() {
        assert_eq!(of(0, b"a\nb\nhalf"), 4..4);
    }

    #[test]
    fn lines_longer_than_a_block_are_found() {
        let long = "x".repeat(200_000);
        let file = format!("{long}\n{long}\n{long}\n");
        assert_eq!(of(2, file.as_bytes()), 200_001..600_003);
    }

    proptest! {
        #[test]
        fn tail_equals_the_end_of_a_full_read(
            parts in prop::collection::vec(0_usize..40_000, 0..8),
            lines in 0_u64..10,
            rest in 0_usize..3,
        ) {
            let mut file: Vec<u8> = Vec::new();
            for length in &parts {
                file.extend(std::iter::repeat_n(b'x', *length));
                file.push(b'\n');
            }
            let end = file.len();
            file.extend(std::iter::repeat_n(b'y', rest));
            let skipped = parts.len().saturating_sub(usize::try_from(lines).unwrap());
            let start: usize = parts[..skipped].iter().map(|length| length + 1).sum();
            prop_assert_eq!(of(lines, &file), start..end);
        }
    }
}
