//! Files of the kernel as text.

use std::io;
use std::path::Path;

/// The content of a kernel file. Most of it is text, but names may be any bytes: a swap file, interface or
/// cgroup with a non-UTF-8 name must not hide the others.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}
