//! Files of the kernel as text.

use std::io;
use std::path::Path;

/// The content of a file of the kernel. Most of it is text, but names in it are any bytes: a swap file, an interface or
/// a cgroup whose name is not UTF-8 must not hide the others.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}
