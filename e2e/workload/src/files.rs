//! Copies of files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;

/// Copies files with their modes into a directory, or one file to a path. A file of that name is replaced in one step,
/// so that its readers see a complete file.
pub(crate) fn copy(files: &[OsString], into: &OsStr) -> io::Result<i32> {
    let into = Path::new(into);
    for file in files {
        let file = Path::new(file);
        let target = match file.file_name() {
            Some(name) if into.is_dir() => into.join(name),
            _ => into.to_owned(),
        };
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let partial = target.with_file_name(format!(".{name}.new"));
        fs::copy(file, &partial)?;
        fs::rename(&partial, &target)?;
    }
    Ok(0)
}
