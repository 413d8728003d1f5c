//! The files of an image.

use std::collections::BTreeMap;
use std::io;

use tar::{Builder, EntryType, Header};

use crate::Error;

/// One thing in a layer. All belong to root.
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
    /// Adds an entry, and the directories it is in where they are missing.
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

    /// The layer as an uncompressed tar archive.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let mut archive = Archive::default();
        for (path, entry) in &self.entries {
            archive.add(path, entry)?;
        }
        archive.finish()
    }
}

/// A tar archive in memory, with nothing in it that depends on when or where it is made.
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
