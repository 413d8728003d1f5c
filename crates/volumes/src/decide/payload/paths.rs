//! Where the files of a volume may be.

use model::volume::Payload;

use super::{Files, PayloadError};

const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

/// The files by path. A later file replaces an earlier one with the same path.
pub(super) fn checked(files: Files) -> Result<Payload, PayloadError> {
    let mut payload = Payload::default();
    for (path, file) in files {
        check(&path)?;
        payload.files.insert(clean(&path), file);
    }
    Ok(payload)
}

fn check(path: &str) -> Result<(), PayloadError> {
    let owned = || path.to_owned();
    // A path of dots alone is the volume itself, which cannot be a file.
    if clean(path) == "." {
        return Err(PayloadError::EmptyPath(owned()));
    }
    if path.starts_with('/') {
        return Err(PayloadError::AbsolutePath(owned()));
    }
    if path.len() > LONGEST_PATH {
        return Err(PayloadError::LongPath(LONGEST_PATH));
    }
    for name in path.split('/') {
        if name == ".." {
            return Err(PayloadError::Backstep(owned()));
        }
        if name.len() > LONGEST_NAME {
            return Err(PayloadError::LongName(LONGEST_NAME));
        }
    }
    // Behind `./` too: the cleaned path is the one that is written.
    if clean(path).starts_with("..") {
        return Err(PayloadError::ReservedPath(owned()));
    }
    Ok(())
}

/// The cleaned path, as Go's `filepath.Clean`.
pub(super) fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with('/');
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            ".." if is_absolute => {}
            name => names.push(name),
        }
    }
    let cleaned = names.join("/");
    match (is_absolute, cleaned.is_empty()) {
        (true, _) => format!("/{cleaned}"),
        (false, true) => ".".to_owned(),
        (false, false) => cleaned,
    }
}
