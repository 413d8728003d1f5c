//! A directory of small files with a cache of the most recently used ones.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use model::ports::files::{FileError, HostFiles};

use crate::decide::record::is_file_name;
use crate::metrics::StoreUsage;

/// No record is longer.
const LONGEST: u64 = 4 << 20;

/// Why a file cannot be used.
pub(super) type ReadError = Box<dyn Error + Send + Sync>;

/// The files of a directory. No other program writes there while the agent runs.
#[derive(Debug)]
pub(super) struct Store<T> {
    files: Arc<dyn HostFiles>,
    directory: PathBuf,
    /// All files; `None` until they were listed.
    names: Option<BTreeSet<String>>,
    cached: BTreeMap<String, Cached<T>>,
    most_cached: usize,
    /// Counts uses.
    uses: u64,
}

#[derive(Debug)]
struct Cached<T> {
    value: Arc<T>,
    used: u64,
}

impl<T> Store<T> {
    pub(super) fn new(files: Arc<dyn HostFiles>, directory: PathBuf, most_cached: usize) -> Self {
        Self { files, directory, names: None, cached: BTreeMap::new(), most_cached, uses: 0 }
    }

    /// Lists the files. If that fails, each one is read when it is needed.
    pub(super) async fn list(&mut self) -> Result<Vec<String>, FileError> {
        let listed = match self.files.list(&self.directory).await {
            Ok(names) => names,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let names: BTreeSet<String> =
            listed.into_iter().filter(|name| is_file_name(name)).collect();
        self.names = Some(names.clone());
        Ok(names.into_iter().collect())
    }

    /// The files that are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter().flatten()
    }

    pub(super) fn usage(&self) -> StoreUsage {
        let files = self.names().count().max(self.cached.len());
        StoreUsage { files, cached: self.cached.len(), most_cached: self.most_cached }
    }

    /// The bytes of a file.
    pub(super) async fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        self.files.read(&self.directory.join(name), LONGEST).await
    }

    /// The content of a file; `None` if there is no such file.
    pub(super) async fn get(
        &mut self,
        name: &str,
        decode: impl Fn(&[u8]) -> Result<T, ReadError>,
    ) -> Result<Option<Arc<T>>, ReadError> {
        if self.names.as_ref().is_some_and(|names| !names.contains(name)) {
            return Ok(None);
        }
        self.uses += 1;
        if let Some(cached) = self.cached.get_mut(name) {
            cached.used = self.uses;
            return Ok(Some(Arc::clone(&cached.value)));
        }
        let content = match self.read(name).await {
            Ok(content) => content,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let value = Arc::new(decode(&content)?);
        self.cache(name, &value);
        Ok(Some(value))
    }

    /// Writes a file. When this returns, it is on disk.
    pub(super) async fn put(
        &mut self,
        name: &str,
        content: &[u8],
        value: Arc<T>,
    ) -> Result<(), FileError> {
        // If the write fails, there is the old content or the new.
        self.cached.remove(name);
        if let Some(names) = &mut self.names {
            names.insert(name.to_owned());
        }
        self.files.write_durably(&self.directory.join(name), content).await?;
        self.uses += 1;
        self.cache(name, &value);
        Ok(())
    }

    /// Removes a file; one that is gone is not an error.
    pub(super) async fn remove(&mut self, name: &str) -> Result<(), FileError> {
        self.cached.remove(name);
        self.files.remove_written(&self.directory.join(name)).await?;
        if let Some(names) = &mut self.names {
            names.remove(name);
        }
        Ok(())
    }

    fn cache(&mut self, name: &str, value: &Arc<T>) {
        let cached = Cached { value: Arc::clone(value), used: self.uses };
        self.cached.insert(name.to_owned(), cached);
        if self.cached.len() > self.most_cached {
            let oldest = self.cached.iter().min_by_key(|(_, cached)| cached.used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.cached.remove(&name);
            }
        }
    }
}
