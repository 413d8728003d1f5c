//! Files and directories in memory.

mod log_files;
mod mounts;
mod removal;
mod tree;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ports::files::{
    DirectoryChange, DirectoryWatch, Entry, FileError, FileVersion, FoundFile, HostFiles, Removed,
};
use model::verdict::Verdict;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use tree::{Node, Start, Tree};

/// A file system in memory that starts with its root only. Paths are absolute.
#[derive(Debug)]
pub struct MemoryFiles {
    tree: Mutex<Tree>,
    /// Whether durable writes are blocked.
    writes_held: watch::Sender<bool>,
    /// Directories with blocked removals, each with the number of blocked calls.
    removals_held: watch::Sender<BTreeMap<PathBuf, usize>>,
    /// The path whose removal panics.
    panics: Mutex<Option<PathBuf>>,
    /// Watches of logs for a write, by inode; each fires once.
    log_watches: Mutex<Vec<(u64, oneshot::Sender<()>)>>,
}

impl MemoryFiles {
    /// An empty file system.
    pub fn new() -> Self {
        Self {
            tree: Mutex::new(Tree::new()),
            writes_held: watch::Sender::new(false),
            removals_held: watch::Sender::new(BTreeMap::new()),
            panics: Mutex::default(),
            log_watches: Mutex::default(),
        }
    }

    /// Writes a file, and creates its directories.
    pub fn write(&self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        self.put(path.as_ref(), Node::File { content: content.into(), mode: 0o644 });
    }

    /// Creates a symlink to a target, which need not exist.
    pub fn put_link(&self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Link(target.into()));
    }

    /// Creates a special file.
    pub fn special(&self, path: impl AsRef<Path>) {
        self.put(path.as_ref(), Node::Special);
    }

    /// Replaces the content of a file by as many other bytes within one clock tick of the last change, so that
    /// metadata does not show it, and sends no change event.
    pub fn write_unseen(&self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        self.tree().swap_content(path.as_ref(), content.into());
    }

    /// Renames a file or directory, replacing the target.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) {
        self.tree().rename(from.as_ref(), to.as_ref());
    }

    /// Removes a file, or a directory with its content.
    pub fn remove(&self, path: impl AsRef<Path>) {
        self.tree().prune(path.as_ref());
    }

    /// The content of a file, if it exists; ignores faults.
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        match self.tree().at(path.as_ref()) {
            Some(Node::File { content, .. }) => Some(content.clone()),
            _ => None,
        }
    }

    /// The mode of a file or directory, if it exists.
    pub fn mode(&self, path: impl AsRef<Path>) -> Option<u32> {
        match self.tree().at(path.as_ref()) {
            Some(Node::Directory { mode } | Node::File { mode, .. }) => Some(*mode),
            _ => None,
        }
    }

    /// The user and group of a file or directory, if it exists.
    pub fn owner(&self, path: impl AsRef<Path>) -> Option<(u32, u32)> {
        self.tree().placed(path.as_ref()).map(|placed| (placed.owner, placed.group))
    }

    /// The number of reads of exactly this path.
    pub fn reads(&self, path: impl AsRef<Path>) -> usize {
        self.tree().reads.get(path.as_ref()).copied().unwrap_or_default()
    }

    /// Blocks durable writes, as on a slow disk, until [`MemoryFiles::release_writes`].
    pub fn hold_writes(&self) {
        self.writes_held.send_replace(true);
    }

    /// Unblocks durable writes.
    pub fn release_writes(&self) {
        self.writes_held.send_replace(false);
    }

    /// Blocks removals of exactly this path, as on a hung file system, until [`MemoryFiles::release_removal`].
    pub fn hold_removal(&self, path: impl Into<PathBuf>) {
        self.removals_held.send_modify(|held| held.extend([(path.into(), 0)]));
    }

    /// The number of removals of a blocked path that have begun.
    pub fn held_removals(&self, path: impl AsRef<Path>) -> usize {
        self.removals_held.borrow().get(path.as_ref()).copied().unwrap_or_default()
    }

    /// Unblocks removals of a path.
    pub fn release_removal(&self, path: impl AsRef<Path>) {
        self.removals_held.send_modify(|held| held.retain(|held, _| held != path.as_ref()));
    }

    /// Makes removals of exactly this path panic; `None` clears this.
    pub fn panic_on_removal(&self, path: Option<&Path>) {
        let path = path.map(Path::to_owned);
        *self.panics.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    /// Waits while removals of a path are blocked.
    async fn removal_released(&self, path: &Path) {
        let begun = |held: &mut BTreeMap<PathBuf, usize>| match held.get_mut(path) {
            Some(count) => {
                *count += 1;
                true
            }
            None => false,
        };
        if self.removals_held.send_if_modified(begun) {
            let mut held = self.removals_held.subscribe();
            let released = held.wait_for(|held| !held.contains_key(path)).await.is_ok();
            debug_assert!(released, "the sender is here");
        }
    }

    /// Stops all change events.
    pub fn break_watches(&self) {
        self.tree().is_silent = true;
    }

    /// Makes every attempt to watch a directory fail, until [`MemoryFiles::allow_watches`].
    pub fn refuse_watches(&self, kind: ErrorKind) {
        self.tree().no_watches = Some(kind);
    }

    /// Lets directories be watched again.
    pub fn allow_watches(&self) {
        self.tree().no_watches = None;
    }

    /// Makes every use of exactly this path fail, until [`MemoryFiles::repair`].
    pub fn fail(&self, path: impl Into<PathBuf>, kind: ErrorKind) {
        self.tree().broken.insert(path.into(), kind);
    }

    /// Makes every list of exactly this directory fail, and no other operation on it, until
    /// [`MemoryFiles::repair`].
    pub fn fail_list(&self, directory: impl Into<PathBuf>, kind: ErrorKind) {
        self.tree().unlisted.insert(directory.into(), kind);
    }

    /// Makes a path work again.
    pub fn repair(&self, path: impl AsRef<Path>) {
        let mut tree = self.tree();
        tree.broken.remove(path.as_ref());
        tree.unlisted.remove(path.as_ref());
    }

    fn put(&self, path: &Path, node: Node) {
        let mut tree = self.tree();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let parent = tree
            .make_directories(Start::Root, parent, 0o755)
            .unwrap_or_else(|kind| panic!("make {}: {kind}", parent.display()));
        let name = path.file_name().expect("a path that can be written has a name");
        tree.insert(&parent.join(name), node);
    }

    fn log_watches(&self) -> MutexGuard<'_, Vec<(u64, oneshot::Sender<()>)>> {
        self.log_watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryFiles {
    fn default() -> Self {
        Self::new()
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(ErrorKind) -> FileError {
    let path = path.to_owned();
    move |kind| FileError { operation, path, source: io::Error::from(kind) }
}

#[async_trait]
impl HostFiles for MemoryFiles {
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        self.tree().list(directory).map_err(failed("list", directory))
    }

    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.tree().read(path, limit).map_err(failed("read", path))
    }

    async fn look(&self, path: &Path) -> Result<FoundFile, FileError> {
        self.tree().found(path).map_err(failed("stat", path))
    }

    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError> {
        let tree = self.tree();
        let names = tree.list(directory).map_err(failed("list", directory))?;
        let entries = names.into_iter().map(|name| {
            let path = directory.join(&name);
            let found = tree.found(&path).map_err(failed("stat", &path));
            Entry { name: OsString::from(name), found }
        });
        Ok(entries.collect())
    }

    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError> {
        let mut tree = self.tree();
        let content = tree.read(path, limit).map_err(failed("read", path))?;
        let found = tree.found(path).map_err(failed("stat", path))?;
        Ok((found.version, content))
    }

    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError> {
        let changes = self.tree().listen(directory).map_err(failed("watch", directory))?;
        Ok(Box::new(MemoryWatch { changes }))
    }

    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        let released = self.writes_held.subscribe().wait_for(|held| !held).await.is_ok();
        debug_assert!(released, "the sender is here");
        self.tree().write_durably(path, content).map_err(failed("write", path))
    }

    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        self.tree().overwrite(path, content, mode).map_err(failed("write", path))
    }

    async fn remove_written(&self, path: &Path) -> Result<(), FileError> {
        self.tree().remove_written(path).map_err(failed("remove", path))
    }

    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        let path = root.join(below);
        self.tree().create(root, below, mode).map_err(failed("create directory", &path))
    }

    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError> {
        let path = root.join(below);
        self.tree().create_file(root, below, mode).map_err(failed("create file", &path))
    }

    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        let path = root.join(below);
        self.tree().read_end(root, below, limit).map_err(failed("read", &path))
    }

    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.tree().link(target, link).map_err(failed("link", link))
    }

    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError> {
        let removal = removal::Removal::of(&verdict.subject);
        let Some(removal) = removal else {
            return Err(failed("remove", root)(ErrorKind::InvalidInput));
        };
        let path = removal.path;
        let panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(panics.as_deref() != Some(path), "injected into the removal of {}", path.display());
        self.removal_released(path).await;
        removal.run(&mut self.tree(), root).map_err(|source| FileError {
            operation: "remove",
            path: path.to_owned(),
            source,
        })
    }
}

/// A watch of a directory.
#[derive(Debug)]
struct MemoryWatch {
    /// Closed by the tree when the directory is removed.
    changes: mpsc::UnboundedReceiver<DirectoryChange>,
}

#[async_trait]
impl DirectoryWatch for MemoryWatch {
    async fn next_change(&mut self) -> Option<DirectoryChange> {
        let mut change = self.changes.recv().await?;
        while let Ok(more) = self.changes.try_recv() {
            change = change.and(more);
        }
        Some(change)
    }
}
