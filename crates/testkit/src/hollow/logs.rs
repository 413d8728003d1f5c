//! Container logs, in the format of the CRI.
#![allow(clippy::disallowed_methods, reason = "a test tool writes real files")]

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;

/// Appends a line to the log of a container, or only creates the file.
pub(super) fn write(path: &str, now: Timestamp, line: Option<&str>) -> io::Result<()> {
    if path.is_empty() {
        return Ok(());
    }
    if let Some(directory) = Path::new(path).parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    match line {
        Some(line) => writeln!(file, "{now:.9} stdout F {line}"),
        None => Ok(()),
    }
}
