//! The files of an image.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::Error;

/// An entry of a layer. All belong to root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Directory { mode: u32 },
    File { content: Vec<u8>, mode: u32 },
    Symlink { target: String },
}

/// Files by path, without the leading slash.
///
/// The order of paths puts a directory before what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    entries: BTreeMap<String, Entry>,
}

impl Layer {
    /// Adds an entry, and its missing parent directories.
    #[must_use]
    pub fn with(mut self, path: &str, entry: Entry) -> Self {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/') {
            let parent = path[..end].to_owned();
            self.entries.entry(parent).or_insert(Entry::Directory { mode: 0o755 });
        }
        self.entries.insert(path.to_owned(), entry);
        self
    }

    /// Adds the content of a directory of this machine.
    pub fn with_tree(self, directory: &Path) -> Result<Self, Error> {
        self.with_tree_at(directory, "")
    }

    /// Adds the files of a directory of this machine below a path. Links are followed.
    pub fn with_files_below(mut self, place: &str, directory: &Path) -> Result<Self, Error> {
        let list = |source| Error::List { path: directory.to_owned(), source };
        for entry in fs::read_dir(directory).map_err(list)? {
            let path = entry.map_err(list)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let place = format!("{place}/{name}");
            let read = |source| Error::Read { path: path.clone(), source };
            let mode = fs::metadata(&path).map_err(read)?.permissions().mode() & 0o7777;
            self = self.with(&place, Entry::File { content: fs::read(&path).map_err(read)?, mode });
        }
        Ok(self)
    }

    fn with_tree_at(mut self, directory: &Path, place: &str) -> Result<Self, Error> {
        let list = |source| Error::List { path: directory.to_owned(), source };
        for entry in fs::read_dir(directory).map_err(list)? {
            let path = entry.map_err(list)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let place = format!("{place}/{name}");
            let read = |source| Error::Read { path: path.clone(), source };
            let metadata = fs::symlink_metadata(&path).map_err(read)?;
            let mode = metadata.permissions().mode() & 0o7777;
            self = if metadata.is_dir() {
                self.with(&place, Entry::Directory { mode }).with_tree_at(&path, &place)?
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).map_err(read)?.to_string_lossy().into_owned();
                self.with(&place, Entry::Symlink { target })
            } else {
                self.with(&place, Entry::File { content: fs::read(&path).map_err(read)?, mode })
            };
        }
        Ok(self)
    }

    /// The layer as an uncompressed tar archive.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let mut archive = Archive::default();
        for (path, entry) in &self.entries {
            archive.add(path, entry)?;
        }
        archive.finish()
    }
}

/// A tar archive in memory that does not depend on the time or place of its creation.
pub(crate) struct Archive {
    builder: Builder<Vec<u8>>,
}

impl Default for Archive {
    fn default() -> Self {
        Self { builder: Builder::new(Vec::new()) }
    }
}

impl Archive {
    pub(crate) fn add(&mut self, path: &str, entry: &Entry) -> Result<(), Error> {
        self.append(path, entry).map_err(|source| Error::Entry { path: path.to_owned(), source })
    }

    fn append(&mut self, path: &str, entry: &Entry) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match entry {
            Entry::Directory { mode } => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                self.builder.append_data(&mut header, format!("{path}/"), io::empty())
            }
            Entry::File { content, mode } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(content.len() as u64);
                self.builder.append_data(&mut header, path, content.as_slice())
            }
            Entry::Symlink { target } => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                self.builder.append_link(&mut header, path, target)
            }
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>, Error> {
        self.builder
            .into_inner()
            .map_err(|source| Error::Entry { path: "the end".to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_becomes_entries_with_modes_and_links() -> Result<(), Box<dyn std::error::Error>> {
        let tree = tempfile::tempdir()?;
        fs::create_dir(tree.path().join("bin"))?;
        fs::write(tree.path().join("bin/busybox"), "program")?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(tree.path().join("bin/busybox"), mode.clone())?;
        fs::set_permissions(tree.path().join("bin"), mode)?;
        std::os::unix::fs::symlink("busybox", tree.path().join("bin/ls"))?;
        let expected = Layer::default()
            .with("bin/busybox", Entry::File { content: b"program".to_vec(), mode: 0o755 })
            .with("bin/ls", Entry::Symlink { target: "busybox".to_owned() });
        assert_eq!(Layer::default().with_tree(tree.path())?, expected);
        Ok(())
    }
}
