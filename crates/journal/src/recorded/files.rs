//! Files whose removals are put on record.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::chain::Chain;
use model::ports::files::{
    DirectoryWatch, Entry, FileError, FileVersion, Found, HostFiles, Removed,
};
use model::ports::journal::Outcome;
use model::verdict::Verdict;

use super::UnderWay;
use crate::ledger::Ledger;

/// The host's files, with a record of what is removed.
#[derive(Debug)]
pub struct RecordedFiles {
    /// The files themselves.
    pub inner: Arc<dyn HostFiles>,
    /// Where removals are told.
    pub ledger: Arc<Ledger>,
}

#[async_trait]
impl HostFiles for RecordedFiles {
    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError> {
        let under_way = UnderWay::begin(&self.ledger, verdict).await;
        let removed = self.inner.remove(root, verdict).await;
        match &removed {
            Ok(Removed::Now) => under_way.ended(Outcome::Removed),
            Ok(Removed::Before) => under_way.ended(Outcome::AlreadyGone),
            Err(error) => under_way.ended(Outcome::Failed(&Chain(error).to_string())),
        }
        removed
    }

    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        self.inner.list(directory).await
    }
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.inner.read(path, limit).await
    }
    async fn look(&self, path: &Path) -> Result<Found, FileError> {
        self.inner.look(path).await
    }
    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError> {
        self.inner.entries(directory).await
    }
    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError> {
        self.inner.read_version(path, limit).await
    }
    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError> {
        self.inner.watch(directory).await
    }
    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        self.inner.write_durably(path, content).await
    }
    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        self.inner.overwrite(path, content, mode).await
    }
    async fn remove_written(&self, path: &Path) -> Result<(), FileError> {
        self.inner.remove_written(path).await
    }
    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        self.inner.create_directory(root, below, mode).await
    }
    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError> {
        self.inner.create_file(root, below, mode).await
    }
    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.inner.read_end(root, below, limit).await
    }
    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.inner.link(target, link).await
    }
}
