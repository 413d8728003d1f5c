//! A directory of drop-in files, each merged into the configuration.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::decode::{Duplicates, KUBELET, decode};
use crate::finding::Findings;
use crate::load::ConfigError;

/// The drop-in files of a directory and the skipped files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DropIns {
    /// To be merged, in this order.
    pub(crate) files: Vec<PathBuf>,
    /// Files with another extension.
    pub(crate) skipped: Vec<PathBuf>,
}

/// Lists a directory and its subdirectories; the entries of each directory by name.
///
/// Links to directories are not followed, except for the directory itself.
pub(crate) fn list(directory: &Path) -> Result<DropIns, ConfigError> {
    let mut found = DropIns::default();
    walk(directory, &mut found)
        .map_err(|(path, source)| ConfigError::ReadDirectory { path, source })?;
    Ok(found)
}

fn walk(directory: &Path, found: &mut DropIns) -> Result<(), (PathBuf, io::Error)> {
    let here = |source| (directory.to_owned(), source);
    let mut entries = std::fs::read_dir(directory)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(here)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().map_err(here)?.is_dir() {
            walk(&path, found)?;
        } else if entry.file_name().as_encoded_bytes().ends_with(b".conf") {
            found.files.push(path);
        } else {
            found.skipped.push(path);
        }
    }
    Ok(())
}

/// Reads a drop-in. Unlike the main file, it must not repeat a key.
pub(crate) fn read(path: &Path) -> Result<Map<String, Value>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    decode(&text, path, KUBELET, Duplicates::Refused, &mut Findings::default())
        .map_err(ConfigError::Decode)
}

/// Merges a patch by RFC 7386: objects by key, `null` removes, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let target = target.as_object_mut().expect("made an object above");
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}
