//! The contract of the segments of a journal.

use std::io::Read as _;
use std::sync::Arc;

use anyhow::{Result, ensure};
use model::ports::segments::{SegmentInfo, Segments};

/// Runs all checks on segments that do not exist yet.
pub fn check(segments: &Arc<dyn Segments>) -> Result<()> {
    ensure!(segments.list()?.is_empty(), "a missing directory has no segments");
    let read = |number| -> Result<String> {
        let mut text = String::new();
        segments.read(number)?.read_to_string(&mut text)?;
        Ok(text)
    };
    let first = segments.append_to(7)?;
    first.append(b"one\n")?;
    first.append(b"two\n")?;
    ensure!(read(7)? == "one\ntwo\n", "written data is read at once");
    first.sync()?;
    let again = segments.append_to(7)?;
    again.append(b"three\n")?;
    ensure!(read(7)? == "one\ntwo\nthree\n", "a reopened segment is appended to");
    segments.append_to(12)?;
    let existing = [SegmentInfo { number: 7, size: 14 }, SegmentInfo { number: 12, size: 0 }];
    ensure!(segments.list()? == existing, "segments are listed with number and size");
    segments.remove(7)?;
    segments.remove(7)?;
    first.append(b"into nothing\n")?;
    ensure!(
        segments.list()? == [SegmentInfo { number: 12, size: 0 }],
        "the removed segment is gone"
    );
    let kept = segments.append_to(12)?;
    kept.append(b"four\n")?;
    for length in [4096, 3] {
        kept.reserve(length)?;
        ensure!(
            segments.list()? == [SegmentInfo { number: 12, size: 5 }],
            "preallocation does not change the size"
        );
    }
    let missing = segments.read(7).err();
    ensure!(missing.is_some_and(|error| error.is_not_found()), "a missing segment cannot be read");
    Ok(())
}
